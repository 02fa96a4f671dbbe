"""Windows whose cells are sorted: :func:`median_pool2d` and :func:`ordinal_pool2d`."""

from typing import Literal, Unpack

import torch
from torch import Tensor, nn

from cnnpool.pool.base import Cells, Padding, Place, PlainWindowPool2d, Size, WindowPool2d
from cnnpool.pool.cells import added, cells, comparisons, count, order, peak, per_cell, weighted_sum
from cnnpool.pool.leaves import one_node
from cnnpool.pool.scalar import Per, repeats
from cnnpool.pool.window import IntPair, wide, window_on


@one_node
def median_pool2d(
    x: Tensor,
    kernel_size: IntPair,
    stride: IntPair | None = None,
    padding: IntPair = 0,
    ceil_mode: bool = False,
) -> Tensor:
    """The median of every window; of an even number of cells the lower of the two middle ones, as in torch.

    NaN in a window gives NaN.

    Example:
        >>> x = torch.tensor([[[[1.0, 2.0], [3.0, 90.0]]]])
        >>> median_pool2d(x, 2)
        tensor([[[[2.]]]])
    """
    window = window_on(x, kernel_size, stride, padding, ceil_mode)
    parts = cells(x, window, fill=float("inf"))
    present = count(x, window)
    middle = (len(parts) - 1) // 2
    if isinstance(present, int):
        median = order(parts, range(middle, middle + 1))[middle]
    else:
        # Cells outside the map sort last, so the median moves down by half of their number.
        ordered, rank = order(parts, range(middle + 1)), (present - 1).div(2, rounding_mode="floor")
        median = ordered[0]
        for place in range(1, middle + 1):
            median = torch.where(rank == place, ordered[place], median)
    largest = peak(x, window)
    return torch.where(largest.isnan(), largest, median)


class MedianPool2d(PlainWindowPool2d):
    """y = the (lower) median of the window: robust to single outliers (Tukey 1977 for the filter).

    Gradient: 1 to the selected cell, 0 to the others; which of equal cells is selected depends on the others.
    Sorted by a network of comparisons, so the backward pass is deterministic on every device.
    """

    formula = "median_i x_i (the lower one of an even number)"
    paper = "Tukey 1977, Exploratory Data Analysis (as a filter)"
    shift = (
        "equivariant to shifts by multiples of the stride; not a low-pass filter, but drops single outliers"
    )
    gradient = "sparse"

    def flops(self, height: int, width: int) -> int:
        length = self.kernel_size[0] * self.kernel_size[1]
        middle = (length - 1) // 2
        return self.count_outputs(height, width) * comparisons(length, range(middle, middle + 1))

    def forward(self, x: Tensor) -> Tensor:
        return median_pool2d(x, *self.window)


@one_node
def ordinal_pool2d(
    x: Tensor,
    weight: Tensor,
    kernel_size: IntPair,
    stride: IntPair | None = None,
    padding: IntPair = 0,
    ceil_mode: bool = False,
    *,
    normalise: bool = True,
) -> Tensor:
    """Weighted sum of every window's cells by rank, sum_r w_r x_(r), x_(1) the largest (Kumar 2018).

    One-hot weights give max, median or min, equal ones the average; equal cells are ranked in a fixed order.

    Args:
        weight: by falling rank, (C, kh*kw), or (1, kh*kw) for all channels; m cells inside the map take the
            first m.
        normalise: divide the weights of such a window by their sum, which must not be 0, and multiply by
            the sum of all, so that borders keep the scale.

    Example:
        >>> x = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
        >>> ordinal_pool2d(x, torch.tensor([[0.5, 0.5, 0.0, 0.0]]), 2)  # mean of the two largest
        tensor([[[[3.5000]]]])
    """
    window = window_on(x, kernel_size, stride, padding, ceil_mode)
    exact = wide(x)
    parts, present = cells(exact, window, fill=-float("inf")), count(exact, window)
    taps = per_cell(weight, parts)
    ranked = order(parts, range(len(parts)))[::-1]
    if isinstance(present, int):
        return weighted_sum(ranked, weight).to(x.dtype)
    used = [present > rank for rank in range(len(parts))]
    total = added(torch.where(u, part, 0) * tap for u, part, tap in zip(used, ranked, taps, strict=True))
    if normalise:
        share = added(torch.where(u, tap, 0) for u, tap in zip(used, taps, strict=True))
        total = total / share * added(taps)
    return total.to(x.dtype)


class OrdinalPool2d(WindowPool2d):
    """y = sum_r w_r x_(r) over the sorted window with learnt w (Kumar 2018; Deliège 2021, arXiv:2109.01561).

    Starts as the average. With ``weights: softmax`` w is positive and sums to one, so the output lies between
    min and max; ``free`` does not constrain w. Gradient: w_r to the cell of rank r.

    Edges: torch's size formula; cells outside the map take the last ranks and no part, and the remaining
    softmax weights are scaled to sum to one (free weights are not).

    Args:
        weights: softmax or free.
    """

    formula = "sum_r w_r x_(r), x_(1) >= x_(2) >= ..., w = softmax(weight)"
    paper = "Kumar 2018; Deliège 2021, arXiv:2109.01561"
    shift = "equivariant to shifts by multiples of the stride; between average and the order it learns"
    gradient = "dense"

    def __init__(
        self,
        channels: int,
        *,
        kernel_size: Cells = 2,
        stride: Size = 2,
        padding: Padding = 0,
        ceil_mode: bool = False,
        weights: Literal["softmax", "free"] = "softmax",
        per: Per = "layer",
        **place: Unpack[Place],
    ):
        super().__init__(channels, kernel_size, stride, padding, ceil_mode, per=per, **place)
        if weights == "free":
            self.gain = None
        self.weights = weights
        size = self.kernel_size[0] * self.kernel_size[1]
        start = 0.0 if weights == "softmax" else 1 / size
        self.weight = nn.Parameter(torch.full((repeats(per, channels), size), start, **place))

    def flops(self, height: int, width: int) -> int:
        length = self.kernel_size[0] * self.kernel_size[1]
        return self.count_outputs(height, width) * (comparisons(length, range(length)) + 2 * length)

    def forward(self, x: Tensor) -> Tensor:
        self.check_channels(x)
        weight = self.weight.to(wide(x).dtype)
        softmax = self.weights == "softmax"
        return ordinal_pool2d(x, weight.softmax(1) if softmax else weight, *self.window, normalise=softmax)
