"""Downsampling by antialiased resizing."""

from typing import Literal, Unpack

import torch.nn.functional as F
from torch import Tensor

from cnnpool.pool.base import Place, Pool2d, Size, both, reduced
from cnnpool.pool.window import wide


class Resize2d(Pool2d):
    """Resample the map with a kernel widened by the stride, as PIL does: a low-pass filter and a subsampling.

    y = sum_i w_i x_i with a triangle of half-width s (bilinear) or a cubic of half-width 2 s (bicubic, with
    negative weights) around the output's centre, divided by the weights that lie inside the map.
    ``torch.nn.functional.interpolate(antialias=True)`` does the work; without ``antialias`` the kernel keeps
    the width of one pixel, which at stride 2 is the 2 x 2 average (bilinear) and aliases at larger strides.

    Gradient: w_i, uneven for odd sizes only. On CUDA torch adds it up in no fixed order.

    Edges: H' = floor(H/s), and the scale is then H/H', so no row is dropped.

    Args:
        stride: H is divided by it, >= 1, or (vertical, horizontal).
        mode: bilinear or bicubic.
        antialias: widen the kernel.
    """

    formula = "sum_i w_i x_i, w a triangle of half-width s, normalised inside the map"
    paper = "Turkowski 1990, Filters for Common Resampling Tasks (Graphics Gems)"
    shift = "commutes with shifts by multiples of the stride; aliases less than the average"
    gradient = "dense"

    def __init__(
        self,
        channels: int,
        *,
        stride: Size = 2,
        mode: Literal["bilinear", "bicubic"] = "bilinear",
        antialias: bool = True,
        **place: Unpack[Place],
    ):
        super().__init__(channels, **place)
        self.stride = both(stride)
        self.mode, self.antialias = mode, antialias

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        return reduced(type(self).__name__, height, width, self.stride)

    def flops(self, height: int, width: int) -> int:
        rows, columns = self.output_size(height, width)
        half = {"bilinear": 1, "bicubic": 2}[self.mode]
        down, across = (2 * half * (s if self.antialias else 1) for s in self.stride)
        return 2 * self.channels * (columns * height * across + rows * columns * down)

    def forward(self, x: Tensor) -> Tensor:
        size = self.check_batch(x)
        # torch's antialiased kernel has no half precision, and in torch 2.15 on CPU it treats a map as
        # channels_last and mixes its rows if the output is one column wide: such a map is transposed.
        turned = size[1] == 1
        exact, size = (wide(x).mT, size[::-1]) if turned else (wide(x), size)
        out = F.interpolate(exact, size, mode=self.mode, antialias=self.antialias)
        return (out.mT if turned else out).to(x.dtype)
