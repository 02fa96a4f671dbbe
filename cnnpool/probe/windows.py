"""The windows of an operator: their geometry, their ties, and which of their places win."""

import math
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any

import torch
from torch import Tensor, nn

from cnnpool.pool.max import MaxPool2d

Pair = tuple[int, int]
WinnerSums = dict[str, tuple[Tensor, int]]


def share(true: Tensor) -> float:
    """Share of true elements of a boolean tensor; NaN for an empty one."""
    return true.count_nonzero().item() / true.numel() if true.numel() else math.nan


def stride_of(operator: nn.Module) -> Pair:
    """The operator's stride; (2, 2) if it does not say."""
    return own(operator, "stride", (2, 2))


def own(operator: nn.Module, name: str, default: Pair) -> Pair:
    """The operator's kernel_size, stride, padding or dilation, by ``name``; ``default`` if it has none."""
    value = getattr(operator, name, default)
    # Of other packages an option of this name may be a word, as padding="same".
    return default if isinstance(value, str) else _pair(value)


def tie_rule(operator: nn.Module) -> str:
    """Which of equal maxima gets the gradient: first, last or split; none for an operator without maxima."""
    for module in operator.modules():
        if isinstance(module, nn.MaxPool2d | nn.AdaptiveMaxPool2d | nn.FractionalMaxPool2d):
            return "first"
        if isinstance(rule := getattr(module, "ties", None), str):
            return rule
    return "none"


def ties(activation: Tensor, operator: nn.Module) -> dict[str, float]:
    """Windows of the map (N, C, H, W) in which the maximum is not unique, and windows of zeros alone.

    The windows are the operator's own (``kernel_size``, ``stride``, ``dilation``); an operator without a
    window is judged by its stride x stride cells.

    Returns:
        ``tied_windows``, ``zero_windows``: divided by the number of windows that lie wholly in the map.
    """
    stride = stride_of(operator)
    kernel, dilation = own(operator, "kernel_size", stride), own(operator, "dilation", (1, 1))
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    if any(length < r for length, r in zip(activation.shape[-2:], reach, strict=True)):
        return {"tied_windows": 0.0, "zero_windows": 0.0}
    down, across = ((n - r) // s + 1 for n, r, s in zip(activation.shape[-2:], reach, stride, strict=True))
    places = _places(activation, kernel, stride, dilation, (down, across))
    largest = reduce(torch.maximum, places)
    winners = reduce(torch.add, [(place == largest).to(torch.int32) for place in places])
    return {
        "tied_windows": share(winners > 1),
        "zero_windows": share(~reduce(torch.logical_or, [place != 0 for place in places])),
    }


def winner_sums(activation: Tensor, operator: nn.Module) -> WinnerSums | None:
    """Windows of a max pooling that each place of the window wins, row by row (cells,), and their number.

    By the operator's own tie rule; a window split among equals gives each its part.

    Returns:
        ``winners`` over all windows, ``winners_untied`` over those with a single maximum, whose winner the
        image decides, and ``winners_tied`` over the others, whose winner the tie rule decides. None for an
        operator that takes no maximum over windows.
    """
    if isinstance(operator, nn.MaxPool2d):
        operator = MaxPool2d.like(operator)
    pool = next((module for module in operator.modules() if hasattr(module, "keep_winners")), None)
    if pool is None:
        return None
    won, tied = _kept(activation, operator, pool)
    # Place by place, in blocks of one size: all places at once take many times the map, and blocks whose size
    # depends on the values leave holes that no later one fits.
    sums = torch.tensor(
        [[_sum(place), _sum(place * ~tied), _sum(place * tied)] for place in won], dtype=torch.float64
    )
    ties = int(tied.count_nonzero())
    windows = {"winners": len(tied), "winners_untied": len(tied) - ties, "winners_tied": ties}
    return {name: (sums[:, i], windows[name]) for i, name in enumerate(windows)}


def _sum(place: Tensor) -> float:
    return float(place.count_nonzero() if place.dtype == torch.bool else place.sum())


def shares_of(parts: Sequence[WinnerSums]) -> dict[str, list[float]]:
    """Shares of the windows of all ``parts`` of a batch: lists of sum 1, left out where there are none."""
    shares = {}
    for name in parts[0]:
        if windows := sum(part[name][1] for part in parts):
            shares[name] = (reduce(torch.add, [part[name][0] for part in parts]) / windows).tolist()
    return shares


def _kept(activation: Tensor, operator: nn.Module, pool: Any) -> tuple[Iterator[Tensor], Tensor]:
    """For each place the part that it wins of each window, (windows,); and which windows are tied."""
    cells = pool.kernel_size[0] * pool.kernel_size[1]
    winners = _winners(activation, operator, pool, pool.ties)
    if pool.ties == "split":
        equal = reduce(torch.add, ((winners >> place) & 1 for place in range(cells)))
        return (((winners >> place) & 1).double() / equal for place in range(cells)), equal > 1
    # Where the first and the last of the equals are the same there is one.
    other = _winners(activation, operator, pool, "last" if pool.ties == "first" else "first")
    return _one_hot(winners, cells), winners != other


def _winners(activation: Tensor, operator: nn.Module, pool: Any, ties: str) -> Tensor:
    own, names = vars(pool), ("keep_winners", "winners", "ties")
    before = {name: own[name] for name in names if name in own}
    pool.keep_winners, pool.ties = True, ties
    try:
        with torch.no_grad():
            operator(activation)
        winners: Tensor = pool.winners
        return winners.flatten()
    finally:
        for name in names:
            own.pop(name, None)
        own.update(before)


def _places(x: Tensor, kernel: Pair, stride: Pair, dilation: Pair, windows: Pair) -> list[Tensor]:
    """For each place of a window, row by row, the cell that all of ``windows`` (down, across) have there.

    The k-th place of all windows at once is a strided view; to gather windows takes three times as long.
    """
    return [
        x[..., row :: stride[0], column :: stride[1]][..., : windows[0], : windows[1]]
        for row in range(0, dilation[0] * kernel[0], dilation[0])
        for column in range(0, dilation[1] * kernel[1], dilation[1])
    ]


def _one_hot(winners: Tensor, cells: int) -> Iterator[Tensor]:
    return (winners == place for place in range(cells))


def _pair(value: int | Pair) -> Pair:
    return (value, value) if isinstance(value, int | float) else (int(value[0]), int(value[1]))
