"""The windows of an operator: ties, winning places, and how often it outputs the maximum."""

import math
from collections.abc import Iterator, Mapping
from functools import reduce
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cnnpool.as_found import examined
from cnnpool.pool.cells import cells
from cnnpool.pool.max import MaxPool2d
from cnnpool.pool.window import Window, is_unset
from cnnpool.probe.base import maps_of, size_of
from cnnpool.probe.shift import parts as parts_of

Pair = tuple[int, int]
WINNERS = ("winners", "winners_untied", "winners_tied")


def share(true: Tensor) -> float:
    """Share of true elements of a boolean tensor; NaN for an empty one."""
    return true.count_nonzero().item() / true.numel() if true.numel() else math.nan


def stride_of(operator: nn.Module) -> Pair:
    """The operator's stride; (2, 2) if it has none, and the kernel's size if it is empty, as in torch."""
    empty = is_unset(getattr(operator, "stride", 0))
    return own(operator, "kernel_size" if empty else "stride", (2, 2))


def own(operator: nn.Module, name: str, default: Pair) -> Pair:
    """The operator's kernel_size, stride, padding or dilation, by ``name``; ``default`` if it has none."""
    value = getattr(operator, name, default)
    # In other packages such an option may be a string, such as padding="same".
    return default if isinstance(value, str) else _pair(value)


def window_of(operator: nn.Module) -> Window:
    """The operator's windows; by default those of its stride, side by side."""
    stride = stride_of(operator)
    kernel, padding, dilation = (
        own(operator, name, default)
        for name, default in (("kernel_size", stride), ("padding", (0, 0)), ("dilation", (1, 1)))
    )
    return Window(kernel, stride, padding, dilation, bool(getattr(operator, "ceil_mode", False)))


def tie_rule(operator: nn.Module) -> str:
    """Which of equal maxima gets the gradient: first, last or split; none for an operator without maxima."""
    for module in operator.modules():
        if isinstance(module, nn.MaxPool2d | nn.AdaptiveMaxPool2d | nn.FractionalMaxPool2d):
            return "first"
        if isinstance(rule := getattr(module, "ties", None), str):
            return rule
    return "none"


def ties(activation: Tensor, operator: nn.Module) -> dict[str, float]:
    """Shares of the operator's windows on the map (N, C, H, W) that have several equal maxima, or zeros only.

    Cells beyond the map are neither.
    """
    window = window_of(operator)
    if min(window.output_size(*size_of(activation))) < 1:
        return {"tied_windows": 0.0, "zero_windows": 0.0}
    places = cells(activation, window, -math.inf)
    largest = reduce(torch.maximum, places)
    winners = reduce(torch.add, [(place == largest).to(torch.int32) for place in places])
    inside = largest > -math.inf
    nonzero = cells((activation != 0) & (activation > -math.inf), window, False)
    return {
        "tied_windows": share((winners > 1) & inside),
        "zero_windows": share(~reduce(torch.logical_or, nonzero) & inside),
    }


def winner_sums(activation: Tensor, operator: nn.Module) -> Tensor | None:
    """Max-pooling windows won by each place, row by row, and last all windows, (cells + 1, 3) by ``WINNERS``.

    A split window gives each of the equal maxima its part. None for an operator without maxima over windows.
    """
    if isinstance(operator, nn.MaxPool2d):
        operator = MaxPool2d.like(operator)
    pool = next((module for module in operator.modules() if hasattr(module, "keep_winners")), None)
    if pool is None:
        return None
    won, tied = _kept(activation, operator, pool)
    # Place by place, in blocks of one size: all places at once take many times the map's memory, and blocks
    # of data-dependent sizes fragment it.
    counted = ((place, place * ~tied, place * tied) for place in won)
    sums = [[_sum(part) for part in parts] for parts in counted]
    ties = _sum(tied)
    return torch.tensor([*sums, [len(tied), len(tied) - ties, ties]], dtype=torch.float64)


def _sum(place: Tensor) -> float:
    return float(place.count_nonzero() if place.dtype == torch.bool else place.sum())


def shares_of(sums: Tensor) -> dict[str, list[float]]:
    """Shares of the windows, from ``winner_sums``: lists of sum 1, omitted if there are none."""
    columns = zip(WINNERS, sums.unbind(1), strict=True)
    return {name: (won[:-1] / won[-1]).tolist() for name, won in columns if won[-1]}


def _kept(activation: Tensor, operator: nn.Module, pool: Any) -> tuple[Iterator[Tensor], Tensor]:
    """For each place its share of each window, (windows,); and which windows are tied."""
    count = pool.kernel_size[0] * pool.kernel_size[1]
    winners = _winners(activation, operator, pool, pool.ties)
    if pool.ties == "split":
        equal = reduce(torch.add, ((winners >> place) & 1 for place in range(count)))
        return (((winners >> place) & 1).double() / equal for place in range(count)), equal > 1
    # If the first and the last maximum coincide there is only one.
    other = _winners(activation, operator, pool, "last" if pool.ties == "first" else "first")
    return (winners == place for place in range(count)), winners != other


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


def _pair(value: int | Pair) -> Pair:
    sizes = tuple(value) if isinstance(value, tuple | list) else (value,)
    return int(sizes[0]), int(sizes[-1])


class Passed(NamedTuple):
    """Windows of a stage, those of two values at least, and of these those that output their maximum."""

    maximum: int
    uneven: int
    windows: int

    def shares(self) -> dict[str, float]:
        """``maximum_sampling_bias``, omitted without uneven windows, and ``constant_windows``."""
        found = {"maximum_sampling_bias": self.maximum / self.uneven} if self.uneven else {}
        return found | {"constant_windows": 1 - self.uneven / self.windows}


def maximum_sampling(
    model: nn.Module, stages: Mapping[str, nn.Module], images: Tensor
) -> dict[str, dict[str, float]]:
    """Maximum-sampling bias of each stage (after Saha & Gokhale 2024, arXiv:2404.07410).

    By stage ``maximum_sampling_bias``, outputs that equal the maximum of their window (see ``extremes``) bit
    for bit, divided by outputs with a non-constant window, since any operator outputs the maximum of others;
    and ``constant_windows``, the share of these. Empty unless the operator ``keeps_constants``.
    """
    found: dict[str, list[Passed]] = {stage: [] for stage in stages}
    with examined(model), torch.no_grad():
        for (some,) in parts_of(images):
            for stage, x in maps_of(model, stages, some, inputs=True).items():
                if keeps_constants(stages[stage], x):
                    found[stage].append(passed(stages[stage], x))
    return {
        stage: Passed(*map(sum, zip(*counts, strict=True))).shares() if counts else {}
        for stage, counts in found.items()
    }


def passed(operator: nn.Module, maps: Tensor) -> Passed:
    """Counts for one operator on its input (N, C, H, W)."""
    outputs = operator(maps)
    largest, smallest = extremes(operator, maps, (outputs.shape[-2], outputs.shape[-1]))
    uneven = smallest < largest
    at_maximum = (outputs == largest) & uneven
    return Passed(int(at_maximum.count_nonzero()), int(uneven.count_nonzero()), uneven.numel())


def extremes(operator: nn.Module, maps: Tensor, size: Pair) -> tuple[Tensor, Tensor]:
    """Largest and smallest value in the window of every output, for outputs of ``size`` (H', W').

    The operator's own windows without padding, else its stride x stride blocks, else adaptive pooling's.
    """
    stride = stride_of(operator)
    blocks = Window(stride, stride, (0, 0), (1, 1), True)
    # The window of a filter that pads by other means would give fewer outputs.
    for window in (window_of(operator), blocks) if hasattr(operator, "kernel_size") else (blocks,):
        padded = all(2 * p <= k for p, k in zip(window.padding, window.kernel, strict=True))
        if padded and window.output_size(*size_of(maps)) == size:
            return F.max_pool2d(maps, *window), -F.max_pool2d(-maps, *window)
    return F.adaptive_max_pool2d(maps, size), -F.adaptive_max_pool2d(-maps, size)


def keeps_constants(operator: nn.Module, maps: Tensor) -> bool:
    """Whether ``operator`` keeps a constant map; else an output equals a value of the window by chance."""
    # Positive values, as powers and probabilities require; two, as a bias could preserve one.
    for value in (1.0, 3.0):
        constant = torch.full_like(maps[:1], value)
        outputs = operator(constant)
        if outputs.shape[:2] != constant.shape[:2] or not outputs.numel():
            return False
        centre = outputs[..., outputs.shape[-2] // 2, outputs.shape[-1] // 2]
        if not bool(((centre - value).abs() <= 1e-3 * value).all()):
            return False
    return True
