"""A learnt convolution of patches that do not overlap."""

from typing import Literal, Unpack

import torch
from torch import Tensor, nn

from cnnpool.pool.base import Place, Pool2d, Taps, both, checked
from cnnpool.pool.strided import NORMS


@checked
class PatchConv2d(Pool2d):
    """Convolution with kernel = stride = s: a linear map of each s x s patch (Dosovitskiy 2021, ViT).

    The same function as pixel-unshuffle followed by a 1x1 convolution, so nothing is thrown away before the
    linear map. Every input is covered exactly once: the gradient is dense and even, unlike that of kernel 3.

    Edges: no padding; rows and columns that do not fill a patch are dropped, H' = floor(H/s).

    Args:
        stride: side of a patch, >= 1, or (vertical, horizontal).
        norm: none; batch, after the convolution (which then has no bias); or layer, over the channels of each
            pixel before it, as in ConvNeXt's downsampling (Liu 2022, arXiv:2201.03545).
    """

    formula = "sum_i w_i x_i + b, windows side by side"
    paper = "Dosovitskiy 2021, arXiv:2010.11929"
    shift = "commutes with shifts by multiples of the stride; aliases unless it learns a low-pass filter"
    gradient = "dense"
    fixed_channels = True
    gain = None

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

    def flops(self, height: int, width: int) -> int:
        return 2 * self.count_outputs(height, width) * self.conv.weight[0].numel()

    def forward(self, x: Tensor) -> Tensor:
        self.check_channels(x)
        self.output_size(*x.shape[-2:])
        y: Tensor = self.norm(self.conv(self.before(x)))
        return y


class ChannelNorm(nn.LayerNorm):
    """Normalise the channels of each pixel to mean 0 and variance 1, then scale and shift (Ba 2016)."""

    def forward(self, x: Tensor) -> Tensor:
        last = x.is_contiguous(memory_format=torch.channels_last)
        normalised = super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return normalised if last else normalised.contiguous()
