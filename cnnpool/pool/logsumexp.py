"""Log-sum-exp (smooth maximum) pooling: :func:`logsumexp_pool2d`."""

import math
from typing import Unpack

import torch
from torch import Tensor

from cnnpool.bounds import AboveZero
from cnnpool.pool.base import Cells, Padding, Place, Size, WindowPool2d, checked
from cnnpool.pool.cells import added, cells, count, peak
from cnnpool.pool.scalar import Per, Positive, repeats
from cnnpool.pool.window import IntPair, largest_finite, wide, window_on


def logsumexp_pool2d(
    x: Tensor,
    kernel_size: IntPair,
    stride: IntPair | None = None,
    padding: IntPair = 0,
    ceil_mode: bool = False,
    *,
    r: float | Tensor = 1.0,
) -> Tensor:
    """The smooth maximum of every window, (1/r) log mean e^(r x_i): average as r -> 0, max as r -> infinity.

    The window's maximum is subtracted first and the small-r limit is taken through expm1 and log1p, so it
    neither overflows nor cancels. A window whose maximum is infinite gives that maximum, with gradient 0.
    Maps, windows and errors as in ``avg_pool2d``; cells outside the map take no part, and half precision is
    summed in float32.

    Args:
        r: sharpness, finite and > 0, or a tensor that fits (C, 1, 1).

    Example:
        >>> x = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
        >>> logsumexp_pool2d(x, 2), logsumexp_pool2d(x, 2, r=100)
        (tensor([[[[3.0539]]]]), tensor([[[[3.9861]]]]))
    """
    window = window_on(x, kernel_size, stride, padding, ceil_mode)
    if not isinstance(r, Tensor) and not 0 < r < math.inf:
        raise ValueError(f"r must be finite and above 0, got {r}")
    exact = wide(x)
    bound = largest_finite(exact)
    parts = cells(exact.clamp(-bound, bound), window, fill=-bound)
    largest = peak(exact, window)
    top = largest.clamp(-bound, bound)
    present = count(exact, window)
    # A cell outside the map counts expm1(-inf) = -1; adding them back leaves the sum over those inside.
    excess = added(torch.expm1(r * (part - top)) for part in parts) + (len(parts) - present)
    smooth = top + torch.log1p(excess / present) / r
    return torch.where(largest.isinf(), largest, smooth).to(x.dtype)


@checked
class LogSumExpPool2d(WindowPool2d):
    """y = (1/r) log mean e^(r x_i): between average (r -> 0) and max (r -> inf) (Boureau 2010, ICML).

    A learnt r is softplus(raw), so it stays above 0. Gradient: softmax(r x)_i, dense and sums to one.

    Edges: torch's size formula; cells in the padding or the overhang take no part.

    Args:
        r: sharpness, finite and > 0, or where it starts when learnable.
    """

    formula = "(1/r) log mean_i exp(r x_i)"
    paper = "Boureau 2010, A Theoretical Analysis of Feature Pooling in Visual Recognition (ICML)"
    shift = "commutes with shifts by multiples of the stride; larger r aliases more, like max"
    gradient = "dense"
    cell_flops = 5

    def __init__(
        self,
        channels: int,
        *,
        kernel_size: Cells = 2,
        stride: Size = 2,
        padding: Padding = 0,
        ceil_mode: bool = False,
        r: AboveZero = 5.0,
        learnable: bool = False,
        per: Per = "layer",
        **place: Unpack[Place],
    ):
        super().__init__(channels, kernel_size, stride, padding, ceil_mode, **place)
        self.fixed_channels = per == "channel"
        self.r = Positive("r", r, repeats(per, channels), learnable=learnable, **place)

    def forward(self, x: Tensor) -> Tensor:
        self.check_channels(x)
        return logsumexp_pool2d(x, *self.window, r=self.r(wide(x)))
