"""Binomial blur, or the dense maximum blurred, then subsampling."""

from typing import Any, Unpack

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function

from cnnpool.pool.autograd.separable import SEPARABLE, Blurring, convolved, traced
from cnnpool.pool.autograd.winners import Route, Ties, scatter
from cnnpool.pool.base import CellPool2d, Place, Pool2d, Size, Taps, both, check_choice
from cnnpool.pool.dispatch import kernels
from cnnpool.pool.edges import PaddingMode
from cnnpool.pool.internals import is_exported
from cnnpool.pool.leaves import one_node
from cnnpool.pool.max import MaxPool2d, max_pool2d
from cnnpool.pool.window import IntPair, Window, check_real, is_channels_last, pair


@one_node
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
        compute = convolved if is_exported() else traced
        y = compute(batch, *_checked(x, filter_size, stride, padding_mode))
    else:
        y = SEPARABLE(batch, blurring_of(x, filter_size, stride, padding_mode))
    return y if x.dim() == 4 else y.squeeze(0)


def blurring_of(x: Tensor, filter_size: IntPair, stride: IntPair, padding_mode: PaddingMode) -> Blurring:
    """The checked arguments of ``blur_pool2d``."""
    how = _checked(x, filter_size, stride, padding_mode)
    return Blurring(*how, (x.shape[-2], x.shape[-1]), x.dim() == 4 and is_channels_last(x))


def _checked(
    x: Tensor, filter_size: IntPair, stride: IntPair, padding_mode: PaddingMode
) -> tuple[tuple[int, int], tuple[int, int], PaddingMode]:
    check_real(x, "blur_pool2d", floating=True)
    check_choice("padding_mode", padding_mode, PaddingMode)
    return pair(filter_size, "filter_size", least=1), pair(stride, "stride", least=1), padding_mode


class BlurPool2d(CellPool2d):
    """Binomial blur, then subsampling: y = (b b^T * x)[::s] (Zhang 2019, BlurPool), by ``blur_pool2d``.

    The gradient is the transpose: dense and fixed; with stride 2 every inner input gets the same total.

    Edges: H' = ceil(H/s); the map is mirrored past the edge, as in the paper's code, or padded by another
    ``padding_mode``. With zeros the borders fade (a 3x3 filter leaves 9/16 of a corner).
    """

    formula = "sum_i b_i x_i, b = binomial / 2^(m-1) per axis"
    paper = "Zhang 2019, arXiv:1904.11486"
    shift = "equivariant to shifts by multiples of the stride; aliases less the wider the filter"
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


@one_node
def max_blur_pool2d(
    x: Tensor,
    kernel_size: IntPair = 2,
    filter_size: IntPair = 3,
    stride: IntPair = 2,
    padding_mode: PaddingMode = "reflect",
    *,
    ties: Ties = "first",
) -> Tensor:
    """Maximum around every pixel, blurred, every ``stride``-th pixel kept (Zhang 2019, MaxBlurPool).

    Max pooling with a stride is the dense maximum subsampled; the blur stands between the two. An even kernel
    reaches one pixel further to the right and to the bottom; cells outside the map never win. With 2x2
    windows compiled kernels blur the maxima as they compute them, and save one byte per pixel.

    Args:
        kernel_size: window of the maximum, >= 1, or (vertical, horizontal).
        filter_size: taps of the blur; it, maps and the rest as in ``blur_pool2d``.
        ties: among equals the gradient goes to the first, to the last, or is split evenly.

    Example:
        >>> x = torch.zeros(1, 1, 4, 4)
        >>> x[..., 1, 1] = 1
        >>> max_blur_pool2d(x)
        tensor([[[[1.0000, 0.2500],
                  [0.2500, 0.0625]]]])
    """
    kernel = pair(kernel_size, "kernel_size", least=1)
    if kernel == (2, 2) and ties == "first" and x.dim() == 4:
        blurring = blurring_of(x, filter_size, stride, padding_mode)
        if fused := kernels("max_blur", x, cells=blurring.cells):
            y: Tensor = MaxBlur.apply(x, blurring, fused)
            return y
    dense = max_pool2d(x, kernel, 1, (kernel[0] // 2, kernel[1] // 2), ties=ties)
    return blur_pool2d(_drop_first(dense, kernel), filter_size, stride, padding_mode)


def _drop_first(dense: Tensor, kernel: tuple[int, int]) -> Tensor:
    # Padded on both sides, an even kernel gives one window too many: the first, mostly outside.
    return dense[..., 1 - kernel[0] % 2 :, 1 - kernel[1] % 2 :]


# Padded on both sides, 2x2 windows are one too many; the first, above and left of the map, is left out.
DENSE = Window((2, 2), (1, 1), (1, 1), (1, 1), False)


class MaxBlur(Function):
    """(x, blurring, kernels) -> blurred maxima of 2x2 windows around every pixel."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, blurring: Blurring, fused: Any) -> Any:
        y, winners = fused.forward(x, blurring)
        ctx.blurring = blurring
        ctx.save_for_backward(winners)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (winners,) = ctx.saved_tensors
        fused = kernels("max_blur", grad, cells=ctx.blurring.cells)
        if fused and not torch.is_grad_enabled():
            return fused.backward(grad, winners, ctx.blurring), None, None
        # Differentiable: the same steps as ``max_pool2d`` and ``blur_pool2d``.
        maxima = F.pad(SEPARABLE.transposed(grad, ctx.blurring), (1, 0, 1, 0))
        # Windows that are left out get no gradient, but their winners must be in the map.
        places = F.pad(F.pad(winners, (0, 0, 1, 0), value=2), (1, 0, 0, 0), value=1)
        places[..., 0, 0] = 3
        route = Route(DENSE, "first", ctx.blurring.size, ctx.blurring.channels_last)
        return scatter(maxima, places, route), None, None


class MaxBlurPool2d(Pool2d):
    """Dense maximum, blur, subsampling: y = (b b^T * max_k x)[::s] (Zhang 2019, MaxBlurPool).

    The gradient goes to the winners of the dense maximum, each weighted by the blur: an input that wins no
    window gets none, but far more inputs win one than with strided windows.

    Edges: H' = ceil(H/s). The maximum is over the cells inside the map, so padding never wins, and keeps the
    size (the paper's code pads nothing there and loses a row and a column); an even kernel reaches further to
    the right and to the bottom. The blur then mirrors the map, or pads by another ``padding_mode``.

    Args:
        kernel_size: window of the maximum, >= 1, or (vertical, horizontal).
        padding_mode: of the blur: reflect, replicate, circular or zeros.
    """

    formula = "sum_i b_i max_j x_ij, b = binomial / 2^(m-1) per axis"
    paper = "Zhang 2019, arXiv:1904.11486"
    shift = "equivariant to shifts by multiples of the stride, and nearly to the rest"
    gradient = "sparse"

    def __init__(
        self,
        channels: int,
        *,
        kernel_size: Size = 2,
        filter_size: Taps = 3,
        stride: Size = 2,
        padding_mode: PaddingMode = "reflect",
        ties: Ties = "first",
        **place: Unpack[Place],
    ):
        super().__init__(channels, **place)
        kernel = both(kernel_size)
        half = (kernel[0] // 2, kernel[1] // 2)
        self.max = MaxPool2d(channels, kernel_size=kernel, stride=1, padding=half, ties=ties)
        self.blur = BlurPool2d(channels, filter_size=filter_size, stride=stride, padding_mode=padding_mode)
        self.stride, self.gain = self.blur.stride, self.blur.gain

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        return self.blur.output_size(height, width)

    def flops(self, height: int, width: int) -> int:
        down, across = self.max.kernel_size
        comparisons = self.channels * height * width * (down * across - 1)
        return comparisons + self.blur.flops(height, width)

    def forward(self, x: Tensor) -> Tensor:
        if self.max.keep_winners:
            y: Tensor = self.blur(_drop_first(self.max(x), self.max.kernel_size))
            return y
        blur = self.blur.filter_size, self.blur.stride, self.blur.padding_mode
        return max_blur_pool2d(x, self.max.kernel_size, *blur, ties=self.max.ties)
