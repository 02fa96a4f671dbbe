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

    Args:
        x: maps, (N, C, H, W) or (C, H, W), any floating dtype, the sums of |x| and |weight x| over a window
            finite; half precision is summed in float32.
        weight: the gate's mask in raster order, (C, kh*kw), or (1, kh*kw) for all channels.
        kernel_size: window, >= 1, or (vertical, horizontal).
        stride: >= 1; None for ``kernel_size``.
        padding: at most half of ``kernel_size``; cells outside the map take no part (the gate sees zeros).
        ceil_mode: let the last window overhang.

    Returns:
        (N, C, H', W'), same dtype as ``x``.

    Raises:
        ValueError: if ``weight`` does not fit, a number is out of range, or no window fits.

    Example:
        >>> import torch
        >>> from cnnpool.pool import gated_pool2d
        >>> x = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
        >>> gated_pool2d(x, torch.zeros(1, 4), 2)
        tensor([[[[3.2500]]]])
        >>> gated_pool2d(x, torch.full((1, 4), 10.0), 2)
        tensor([[[[4.]]]])
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

    Args:
        channels: C of the input.
        kernel_size: window, >= 1, or (vertical, horizontal).
        stride: >= 1, or (vertical, horizontal).
        padding: at most half of ``kernel_size``.
        ceil_mode: let the last window overhang.
        per: one mask for the layer or one per channel.

    Raises:
        ValueError: if a number is out of range, or the output would be empty.

    Example:
        >>> import torch
        >>> from cnnpool.pool import GatedPool2d
        >>> GatedPool2d(3, per="channel")(torch.rand(1, 3, 8, 8)).shape
        torch.Size([1, 3, 4, 4])
    """

    formula = "g max_i x_i + (1 - g) mean_i x_i, g = sigmoid(sum_i w_i x_i)"
    paper = "Lee 2016, arXiv:1509.08985"
    shift = "commutes with shifts by multiples of the stride; between max and average"
    gradient = "dense"

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

    def flops(self, height: int, width: int) -> int:
        return 4 * self.count_cells(height, width)

    def forward(self, x: Tensor) -> Tensor:
        self.check_channels(x)
        return gated_pool2d(x, self.weight, *self.window)
