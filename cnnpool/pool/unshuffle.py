"""Learnt convolutions of cells of pixels that do not overlap: :func:`pixel_unshuffle2d`."""

from typing import Literal, Unpack

import torch.nn.functional as F
from torch import Tensor, nn

from cnnpool.pool.base import CellPool2d, OddTaps, Place, Taps, both
from cnnpool.pool.edges import EdgeConv2d
from cnnpool.pool.fourier import like
from cnnpool.pool.internals import holds
from cnnpool.pool.leaves import one_node
from cnnpool.pool.strided import NORMS, Activation, ConvolvingPool2d
from cnnpool.pool.window import IntPair, Misfit, is_channels_last, laid_out, pair


@one_node
def pixel_unshuffle2d(x: Tensor, stride: IntPair = 2) -> Tensor:
    """Every s x s cell of pixels becomes s^2 channels (Shi 2016), as ``torch.nn.functional.pixel_unshuffle``.

    (N, C, H, W) of any dtype -> (N, C sh sw, H/sh, W/sw), in its memory format, by a stride >= 1 that divides
    H and W, or (vertical, horizontal): channel (c sh + i) sw + j holds x[c, i::sh, j::sw], torch's order.

    Example:
        >>> pixel_unshuffle2d(torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]]), 2).flatten()
        tensor([1., 2., 3., 4.])
    """
    sh, sw = pair(stride, "stride", least=1)
    if x.dim() != 4 or x.shape[1] < 1:
        raise Misfit(f"pixel_unshuffle2d takes (N, C, H, W), got {tuple(x.shape)}")
    samples, channels, height, width = x.shape
    if height % sh or width % sw or min(height, width) < 1:
        raise Misfit(f"H and W must be multiples of stride={(sh, sw)}, got a {height}x{width} map")
    rows, columns = height // sh, width // sw
    if is_channels_last(x):
        cells = x.permute(0, 2, 3, 1).reshape(samples, rows, sh, columns, sw, channels)
        deep = cells.permute(0, 1, 3, 5, 2, 4).reshape(samples, rows, columns, channels * sh * sw)
        return deep.permute(0, 3, 1, 2)
    cells = x.reshape(samples, channels, rows, sh, columns, sw)
    return cells.permute(0, 1, 3, 5, 2, 4).reshape(samples, channels * sh * sw, rows, columns)


class UnshuffleConv2d(ConvolvingPool2d, CellPool2d):
    """Space to depth, then a convolution of stride 1 back to C channels (Sunkara 2022, SPD-Conv).

    No pixel is thrown away before the learnt map. With kernel 1 it is the same function as a convolution with
    kernel = stride (``patchify``); larger kernels look at the neighbouring cells too. The gradient reaches
    every input through the s^2 C columns of W: dense. ``norm=layer`` is Swin's patch merging (Liu 2021,
    arXiv:2103.14030), with as many channels after as before; ``order=cell`` orders the channels as Swin does.

    Edges: H' = ceil(H/s), the last cells are filled up with zeros (the paper needs sizes that the stride
    divides: ``ragged: refuse``); the convolution pads zeros.

    Args:
        kernel_size: of the convolution, odd, or (vertical, horizontal).
        ragged: treatment of a size that the stride does not divide: pad or refuse.
        order: of the s^2 C channels: channel (the pixels of a channel side by side, row by row, as in torch's
            pixel unshuffling) or cell (the channels of a pixel side by side, the pixels column by column).
        norm: none; batch, after the convolution; or layer, over the s^2 C channels of each cell before it.
            With either the convolution has no bias.
    """

    formula = "act(norm(sum_i w_i x_i + b)), cells side by side; norm=layer comes before the sum"
    paper = "Sunkara 2022, arXiv:2208.03641"
    shift = "equivariant to shifts by multiples of the stride; aliases unless it learns a low-pass filter"
    gradient = "dense"

    def __init__(
        self,
        channels: int,
        *,
        kernel_size: OddTaps = 1,
        stride: Taps = 2,
        ragged: Literal["pad", "refuse"] = "pad",
        order: Literal["channel", "cell"] = "channel",
        norm: Literal["none", "batch", "layer"] = "none",
        activation: Activation = "none",
        **place: Unpack[Place],
    ):
        super().__init__(channels, stride=stride, **place)
        self.ragged, self.order = ragged, order
        deep = channels * self.stride[0] * self.stride[1]
        self.before = ChannelNorm(deep, **place) if norm == "layer" else nn.Identity()
        conv = EdgeConv2d(deep, channels, kernel_size, mode="zeros", bias=norm == "none", **place)
        self.learn(conv, "batch" if norm == "batch" else "none", activation, **place)

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        if self.ragged == "refuse" and (height % self.stride[0] or width % self.stride[1]):
            raise ValueError(f"H and W must be multiples of stride={self.stride}, got a {height}x{width} map")
        return super().output_size(height, width)

    def forward(self, x: Tensor) -> Tensor:
        (rows, columns), (height, width) = self.check_batch(x), x.shape[-2:]
        missing = (0, columns * self.stride[1] - width, 0, rows * self.stride[0] - height)
        whole = x if holds(missing[1] == 0) and holds(missing[3] == 0) else F.pad(x, missing)
        deep = pixel_unshuffle2d(whole, self.stride)
        if self.order == "cell":
            sh, sw = self.stride
            # (c, i, j) to (j, i, c).
            deep = like(deep.unflatten(1, (-1, sh, sw)).transpose(1, 3).flatten(1, 3), deep)
        return self.learnt(self.before(deep))


class PatchConv2d(ConvolvingPool2d):
    """Convolution with kernel = stride = s: a linear map of each s x s patch (Dosovitskiy 2021, ViT).

    The same function as pixel-unshuffle followed by a 1x1 convolution, so nothing is thrown away before the
    linear map. Every input is covered exactly once: the gradient is dense and even, unlike that of kernel 3.

    Edges: no padding; rows and columns that do not fill a patch are dropped, H' = floor(H/s).

    Args:
        stride: side of a patch, >= 1, or (vertical, horizontal).
        norm: none; batch, after the convolution (which then has no bias); or layer, over the channels of each
            pixel before it, as in ConvNeXt's downsampling (Liu 2022, arXiv:2201.03545).
    """

    formula = "norm(sum_i w_i x_i + b), windows side by side; norm=layer comes before the sum"
    paper = "Dosovitskiy 2021, arXiv:2010.11929"
    shift = "equivariant to shifts by multiples of the stride; aliases unless it learns a low-pass filter"
    gradient = "dense"

    def __init__(
        self,
        channels: int,
        *,
        stride: Taps = 2,
        norm: Literal["none", "batch", "layer"] = "none",
        **place: Unpack[Place],
    ):
        super().__init__(channels, **place)
        self.kernel_size = self.stride = both(stride)
        self.before = ChannelNorm(channels, **place) if norm == "layer" else nn.Identity()
        self.conv = nn.Conv2d(channels, channels, self.stride, self.stride, bias=norm != "batch", **place)
        self.norm = NORMS["batch" if norm == "batch" else "none"](channels, **place)

    def forward(self, x: Tensor) -> Tensor:
        self.check_channels(x)
        self.output_size(*x.shape[-2:])
        y: Tensor = self.norm(self.conv(self.before(x)))
        return y


class ChannelNorm(nn.LayerNorm):
    """Normalise the channels of each pixel to mean 0 and variance 1, then scale and shift (Ba 2016)."""

    def forward(self, x: Tensor) -> Tensor:
        normalised = super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return laid_out(normalised, is_channels_last(x))
