"""The windows of an operator: their geometry, their ties, and which of their places win."""

from functools import reduce
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cnnpool.probe.sparsity import share

Pair = tuple[int, int]


def stride_of(operator: nn.Module) -> Pair:
    """The operator's stride; (2, 2) if it does not say."""
    return _pair(getattr(operator, "stride", 2))


def tie_rule(operator: nn.Module) -> str:
    """Who among equal maxima gets the gradient: first, last or split; none for what takes no maximum."""
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
    kernel = _pair(getattr(operator, "kernel_size", stride))
    dilation = _pair(getattr(operator, "dilation", 1))
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    if any(length < r for length, r in zip(activation.shape[-2:], reach, strict=True)):
        return {"tied_windows": 0.0, "zero_windows": 0.0}
    down, across = ((n - r) // s + 1 for n, r, s in zip(activation.shape[-2:], reach, stride, strict=True))
    # The k-th place of all windows at once is a strided view; to gather windows takes three times as long.
    places = [
        activation[..., row :: stride[0], column :: stride[1]][..., :down, :across]
        for row in range(0, reach[0], dilation[0])
        for column in range(0, reach[1], dilation[1])
    ]
    largest = reduce(torch.maximum, places)
    winners = reduce(torch.add, [(place == largest).to(torch.int32) for place in places])
    return {
        "tied_windows": share(winners > 1),
        "zero_windows": share(~reduce(torch.logical_or, [place != 0 for place in places])),
    }


def winner_shares(activation: Tensor, operator: nn.Module) -> list[float] | None:
    """Share of the windows of a max pooling that each place of the window wins, row by row.

    By the operator's own tie rule; a window split among equals gives each its part. None for an operator
    that takes no maximum over windows.
    """
    for module in operator.modules():
        if hasattr(module, "keep_winners"):
            return _kept(activation, operator, module)
    if isinstance(operator, nn.MaxPool2d):
        return _recomputed(activation, operator)
    return None


def _kept(activation: Tensor, operator: nn.Module, pool: Any) -> list[float]:
    own = vars(pool)
    before: dict[str, Any] = {name: own[name] for name in ("keep_winners", "winners") if name in own}
    pool.keep_winners = True
    try:
        with torch.no_grad():
            operator(activation)
        winners = pool.winners
    finally:
        own.pop("keep_winners"), own.pop("winners", None)
        own.update(before)
    cells = pool.kernel_size[0] * pool.kernel_size[1]
    if pool.ties != "split":
        return _shares(winners, cells)
    won = torch.stack([(winners >> place) & 1 for place in range(cells)]).double()
    shares: list[float] = (won / won.sum(0)).flatten(1).mean(1).tolist()
    return shares


def _recomputed(activation: Tensor, operator: nn.MaxPool2d) -> list[float]:
    kernel, stride, padding, dilation = (
        _pair(getattr(operator, name)) for name in ("kernel_size", "stride", "padding", "dilation")
    )
    _, index = F.max_pool2d(
        activation, kernel, stride, padding, dilation, operator.ceil_mode, return_indices=True
    )
    down, across = (torch.arange(count, device=index.device) for count in index.shape[-2:])
    width = activation.shape[-1]
    row = (index // width - (down * stride[0] - padding[0])[:, None]) // dilation[0]
    column = (index % width - (across * stride[1] - padding[1])) // dilation[1]
    return _shares(row * kernel[1] + column, kernel[0] * kernel[1])


def _shares(places: Tensor, cells: int) -> list[float]:
    counts = torch.bincount(places.flatten().long(), minlength=cells).double()
    shares: list[float] = (counts / counts.sum()).tolist()
    return shares


def _pair(value: int | Pair) -> Pair:
    return (value, value) if isinstance(value, int | float) else (int(value[0]), int(value[1]))
