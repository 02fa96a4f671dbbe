"""Binomial blur, then subsampling: :func:`blur_pool2d`."""

from typing import Unpack

import torch
from torch import Tensor

from cnnpool.pool.autograd.blurring import BLUR, convolved, traced
from cnnpool.pool.autograd.linear_maps import Blurring
from cnnpool.pool.autograd.transforms import Linear, apply
from cnnpool.pool.base import CellPool2d, Place, Size, Taps, both, check_choice, checked
from cnnpool.pool.edges import PaddingMode
from cnnpool.pool.internals import is_exported
from cnnpool.pool.window import IntPair, is_channels_last, pair


def blur_pool2d(
    x: Tensor, filter_size: IntPair = 3, stride: IntPair = 2, padding_mode: PaddingMode = "reflect"
) -> Tensor:
    """Blur each channel with a binomial filter, then keep every ``stride``-th pixel (Zhang 2019, BlurPool).

    Separable and exact up to rounding. The backward pass is the transpose; it is deterministic and needs
    nothing saved. Half precision is summed in float32. An even filter reaches one pixel further to the right
    and to the bottom.

    Args:
        x: (N, C, H, W) or (C, H, W), any floating dtype; the result has ceil(H/s) rows.
        filter_size: m taps, Pascal's row (m - 1 over k)/2^(m - 1), >= 1, or (vertical, horizontal).
        stride: >= 1, or (vertical, horizontal).
        padding_mode: values past the edges: reflect, replicate, circular or zeros; legal on any map.

    Example:
        >>> x = torch.zeros(1, 1, 5, 5)
        >>> x[..., 2, 2] = 16
        >>> blur_pool2d(x, stride=1)[0, 0, 1:4, 1:4]
        tensor([[1., 2., 1.],
                [2., 4., 2.],
                [1., 2., 1.]])
    """
    batch = x if x.dim() == 4 else x.unsqueeze(0)
    if torch.compiler.is_compiling() or is_exported():
        _check(x, padding_mode)
        sizes = pair(filter_size, "filter_size", least=1), pair(stride, "stride", least=1)
        compute = convolved if is_exported() else traced
        y = compute(batch, *sizes, padding_mode)
    else:
        y = apply(Linear, batch, BLUR, False, blurring_of(x, filter_size, stride, padding_mode))
    return y if x.dim() == 4 else y.squeeze(0)


def blurring_of(x: Tensor, filter_size: IntPair, stride: IntPair, padding_mode: PaddingMode) -> Blurring:
    """The checked arguments of ``blur_pool2d``."""
    _check(x, padding_mode)
    return Blurring(
        pair(filter_size, "filter_size", least=1),
        pair(stride, "stride", least=1),
        padding_mode,
        (x.shape[-2], x.shape[-1]),
        x.dim() == 4 and is_channels_last(x),
    )


def _check(x: Tensor, padding_mode: PaddingMode) -> None:
    if not x.is_floating_point() or x.dim() not in (3, 4):
        raise ValueError(
            f"blur_pool2d takes floating-point (N, C, H, W) or (C, H, W), got {x.dtype} {tuple(x.shape)}"
        )
    if min(x.shape[-3:]) < 1:
        raise ValueError(f"blur_pool2d needs a map, got {tuple(x.shape)}")
    check_choice("padding_mode", padding_mode, PaddingMode)


@checked
class BlurPool2d(CellPool2d):
    """Binomial blur, then subsampling: y = (b b^T * x)[::s] (Zhang 2019, BlurPool), by ``blur_pool2d``.

    The gradient is the transpose: dense and fixed; with stride 2 every inner input gets the same total.

    Edges: H' = ceil(H/s); the map is mirrored past the edge, as in the paper's code, or padded by another
    ``padding_mode``. With zeros the borders fade (a 3x3 filter leaves 9/16 of a corner).
    """

    formula = "sum_i b_i x_i, b = binomial / 2^(m-1) per axis"
    paper = "Zhang 2019, arXiv:1904.11486"
    shift = "commutes with shifts by multiples of the stride; aliases less the wider the filter"
    gradient = "dense"

    def __init__(
        self,
        channels: int,
        *,
        filter_size: Taps = 3,
        stride: Size = 2,
        padding_mode: PaddingMode = "reflect",
        **place: Unpack[Place],
    ):
        super().__init__(channels, stride=stride, **place)
        self.filter_size = both(filter_size)
        self.padding_mode = padding_mode
        if padding_mode == "zeros" and self.filter_size != (1, 1):
            self.gain = None

    def flops(self, height: int, width: int) -> int:
        rows, columns = self.output_size(height, width)
        down, across = (2 * m - 1 if m > 1 else 0 for m in self.filter_size)
        return self.channels * rows * (width * down + columns * across)

    def forward(self, x: Tensor) -> Tensor:
        return blur_pool2d(x, self.filter_size, self.stride, self.padding_mode)
