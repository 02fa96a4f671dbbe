"""Mixed max-average pooling: :func:`mixed_pool2d`."""

from typing import Unpack

from torch import Tensor

from cnnpool.bounds import Share
from cnnpool.pool.avg import avg_pool2d
from cnnpool.pool.base import Padding, Place, Size, WindowPool2d, checked
from cnnpool.pool.max import max_pool2d
from cnnpool.pool.scalar import Fraction, Per, repeats
from cnnpool.pool.window import IntPair, Window, wide, window_on


def max_and_average(x: Tensor, window: Window) -> tuple[Tensor, Tensor]:
    """Maximum (first of equal cells) and average over the cells inside the map, in the type of ``x``."""
    average = avg_pool2d(x, *window[:3], window.ceil_mode, count_include_pad=False)
    return max_pool2d(x, *window), average


def mixed_pool2d(
    x: Tensor,
    kernel_size: IntPair,
    stride: IntPair | None = None,
    padding: IntPair = 0,
    ceil_mode: bool = False,
    *,
    mix: float | Tensor = 0.5,
) -> Tensor:
    """mix * max + (1 - mix) * average of every window (Lee 2016, arXiv:1509.08985).

    Args:
        x: maps, (N, C, H, W) or (C, H, W), any floating dtype; half precision is summed in float32.
        kernel_size: window, >= 1, or (vertical, horizontal).
        stride: >= 1; None for ``kernel_size``.
        padding: at most half of ``kernel_size``; cells in the padding or the overhang take no part.
        ceil_mode: let the last window overhang.
        mix: share of max, in [0, 1], or a tensor that fits (N, C, H', W').

    Returns:
        (N, C, H', W'), same dtype as ``x``.

    Raises:
        ValueError: if mix or another number is out of range, or no window fits.

    Example:
        >>> import torch
        >>> from cnnpool.pool import mixed_pool2d
        >>> x = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
        >>> mixed_pool2d(x, 2)
        tensor([[[[3.2500]]]])
        >>> mixed_pool2d(x, 2, mix=0.8)
        tensor([[[[3.7000]]]])
    """
    if not isinstance(mix, Tensor) and not 0 <= mix <= 1:
        raise ValueError(f"mix must be in [0, 1], got {mix}")
    window = window_on(x, kernel_size, stride, padding, ceil_mode)
    largest, average = max_and_average(wide(x), window)
    return (mix * largest + (1 - mix) * average).to(x.dtype)


@checked
class MixedPool2d(WindowPool2d):
    """y = a max(x) + (1 - a) mean(x) with learnt a (Lee 2016, arXiv:1509.08985, "mixed").

    A learnt a is sigmoid(raw), so it stays in (0, 1); the paper leaves it free. Gradient: (1 - a)/n to every
    cell, and a more to the first maximum.

    Edges: torch's size formula; cells in the padding or the overhang take no part.

    Args:
        channels: C of the input.
        kernel_size: window, >= 1, or (vertical, horizontal).
        stride: >= 1, or (vertical, horizontal).
        padding: at most half of ``kernel_size``.
        ceil_mode: let the last window overhang.
        mix: share of max, in [0, 1], or where it starts when learnable.
        learnable: learn the share.
        per: with learnable, one share for the layer or one per channel.

    Raises:
        ValueError: if a number is out of range, or the output would be empty.

    Example:
        >>> import torch
        >>> from cnnpool.pool import MixedPool2d
        >>> MixedPool2d(3, mix=0.9, per="channel")(torch.rand(1, 3, 8, 8)).shape
        torch.Size([1, 3, 4, 4])
    """

    formula = "a max_i x_i + (1 - a) mean_i x_i"
    paper = "Lee 2016, arXiv:1509.08985"
    shift = "commutes with shifts by multiples of the stride; between max and average"
    gradient = "dense"

    def __init__(
        self,
        channels: int,
        *,
        kernel_size: Size = 2,
        stride: Size = 2,
        padding: Padding = 0,
        ceil_mode: bool = False,
        mix: Share = 0.5,
        learnable: bool = True,
        per: Per = "layer",
        **place: Unpack[Place],
    ):
        super().__init__(channels, kernel_size, stride, padding, ceil_mode, **place)
        self.fixed_channels = per == "channel"
        self.mix = Fraction("mix", mix, (repeats(per, channels), 1, 1), learnable=learnable, **place)

    def flops(self, height: int, width: int) -> int:
        return 2 * self.count_cells(height, width)

    def forward(self, x: Tensor) -> Tensor:
        self.check_channels(x)
        return mixed_pool2d(x, *self.window, mix=self.mix(wide(x)))
