"""Gated max-average pooling: :func:`gated_pool2d`."""

import math
from typing import Unpack

import torch
from torch import Tensor, nn

from cnnpool.pool.base import Cells, Padding, Place, Size, WindowPool2d, checked
from cnnpool.pool.cells import added, cells
from cnnpool.pool.mixed import max_and_average
from cnnpool.pool.scalar import Per, repeats
from cnnpool.pool.window import IntPair, wide, window_on


def filtered(parts: list[Tensor], weight: Tensor) -> Tensor:
    """One number per window, sum_i w_i x_i, from its cells and ``weight`` (C or 1, cells)."""
    if weight.dim() != 2 or weight.shape[1] != len(parts):
        raise ValueError(f"weight must be (C or 1, {len(parts)}), got {tuple(weight.shape)}")
    taps = weight.to(parts[0].dtype)[:, :, None, None].unbind(1)
    return added(part * tap for part, tap in zip(parts, taps, strict=True))


def share(logits: Tensor) -> Tensor:
    """Sigmoid with zero slope where it underflows: an infinite gradient times 0 would be NaN."""
    kind = torch.finfo(logits.dtype)
    bound = -math.log(kind.smallest_normal * kind.eps)
    return logits.clamp(-bound, bound).sigmoid()


def gated_pool2d(
    x: Tensor,
    weight: Tensor,
    kernel_size: IntPair,
    stride: IntPair | None = None,
    padding: IntPair = 0,
    ceil_mode: bool = False,
) -> Tensor:
    """g max + (1 - g) average of every window with g = sigmoid(weight . x) (Lee 2016, arXiv:1509.08985).

    Maps, windows and errors as in ``avg_pool2d``; cells outside the map take no part (the gate sees zeros),
    and half precision is summed in float32.

    Args:
        x: maps whose sums of |x| and |weight x| over a window are finite.
        weight: the gate's mask in raster order, (C, kh*kw), or (1, kh*kw) for all channels.

    Example:
        >>> x = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
        >>> gated_pool2d(x, torch.zeros(1, 4), 2), gated_pool2d(x, torch.full((1, 4), 10.0), 2)
        (tensor([[[[3.2500]]]]), tensor([[[[4.]]]]))
    """
    window = window_on(x, kernel_size, stride, padding, ceil_mode)
    exact = wide(x)
    gate = share(filtered(cells(exact, window), weight))
    largest, average = max_and_average(exact, window)
    return (average + gate * (largest - average)).to(x.dtype)


@checked
class GatedPool2d(WindowPool2d):
    """y = g max(x) + (1 - g) mean(x), g = sigmoid(w . x) decided by the window (Lee 2016, arXiv:1509.08985).

    The gate's mask w starts at zero, so the operator starts half max, half average. Gradient: that of the
    mix, plus g (1 - g) w_i (max - mean) through the gate.

    Edges: torch's size formula; cells in the padding or the overhang take no part (the gate sees zeros).
    """

    formula = "g max_i x_i + (1 - g) mean_i x_i, g = sigmoid(sum_i w_i x_i)"
    paper = "Lee 2016, arXiv:1509.08985"
    shift = "commutes with shifts by multiples of the stride; between max and average"
    gradient = "dense"
    cell_flops = 4

    def __init__(
        self,
        channels: int,
        *,
        kernel_size: Cells = 2,
        stride: Size = 2,
        padding: Padding = 0,
        ceil_mode: bool = False,
        per: Per = "layer",
        **place: Unpack[Place],
    ):
        super().__init__(channels, kernel_size, stride, padding, ceil_mode, **place)
        self.fixed_channels = per == "channel"
        size = self.kernel_size[0] * self.kernel_size[1]
        self.weight = nn.Parameter(torch.zeros(repeats(per, channels), size, **place))

    def forward(self, x: Tensor) -> Tensor:
        self.check_channels(x)
        return gated_pool2d(x, self.weight, *self.window)
