"""Median pooling: :func:`median_pool2d`."""

import torch
from torch import Tensor

from cnnpool.pool.base import PlainWindowPool2d
from cnnpool.pool.cells import cells, comparisons, count, order, peak
from cnnpool.pool.window import IntPair, window_on


def median_pool2d(
    x: Tensor,
    kernel_size: IntPair,
    stride: IntPair | None = None,
    padding: IntPair = 0,
    ceil_mode: bool = False,
) -> Tensor:
    """The median of every window; of an even number of cells the lower of the two middle ones, as in torch.

    NaN in a window gives NaN. Maps, windows and errors as in ``avg_pool2d``; cells outside the map take no
    part.

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

    Gradient: 1 to the selected cell, 0 to the others; among equal cells always the same one is selected.
    Sorted by a network of comparisons, so the backward pass is deterministic on every device.

    Edges: torch's size formula; cells in the padding or the overhang take no part.
    """

    formula = "median_i x_i (the lower one of an even number)"
    paper = "Tukey 1977, Exploratory Data Analysis (as a filter)"
    shift = (
        "commutes with shifts by multiples of the stride; not a low-pass filter, but drops single outliers"
    )
    gradient = "sparse"

    def flops(self, height: int, width: int) -> int:
        length = self.kernel_size[0] * self.kernel_size[1]
        middle = (length - 1) // 2
        return self.count_outputs(height, width) * comparisons(length, range(middle, middle + 1))

    def forward(self, x: Tensor) -> Tensor:
        return median_pool2d(x, *self.window)
