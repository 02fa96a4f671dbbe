"""Values past the edges of a feature map: :func:`pad`, and convolutions that use it."""

from collections.abc import Sequence
from typing import Literal, Unpack

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cnnpool.pool.base import Place, Size, both
from cnnpool.pool.internals import is_exported, repeated

PaddingMode = Literal["reflect", "replicate", "circular", "zeros"]


def source(index: int, length: int, mode: PaddingMode) -> int | None:
    """The pixel among 0..length - 1 that stands at ``index``, however far from the map; None for a zero."""
    if 0 <= index < length:
        return index
    if mode == "zeros":
        return None
    if mode == "replicate":
        return 0 if index < 0 else length - 1
    if mode == "circular":
        return index % length
    period = max(2 * (length - 1), 1)
    return min(index % period, period - index % period)


def pad(x: Tensor, sides: tuple[int, int, int, int], mode: PaddingMode) -> Tensor:
    """``x`` (N, C, H, W) with left, right, top and bottom ``sides``, in its memory format; unlike torch's,
    deterministic in its backward pass on every device, and legal for sides longer than the map.
    """
    if mode == "zeros":
        return F.pad(x, sides)
    left, right, top, bottom = sides
    if is_exported():
        # torch mirrors only a map that is longer than its sides; other runtimes check that too.
        mirrors = mode == "reflect" and max(left, right) < x.shape[-1] and max(top, bottom) < x.shape[-2]
        if mode == "replicate" or mirrors:
            return F.pad(x, sides, mode) if any(sides) else x
    return _extend(_extend(x, -1, left, right, mode), -2, top, bottom, mode)


def _extend(x: Tensor, axis: int, before: int, after: int, mode: PaddingMode) -> Tensor:
    if is_exported() and mode == "circular":
        return repeated(x, axis, before, after)
    if before == after == 0:
        return x
    length = x.shape[axis]
    # Slices where the map is long enough, which also work while a compiler traces symbolic sizes.
    if mode == "replicate":
        first, last = x.narrow(axis, 0, 1), x.narrow(axis, length - 1, 1)
        return torch.cat([*[first] * before, x, *[last] * after], axis)
    if mode == "circular" and before <= length and after <= length:
        sides = x.narrow(axis, length - before, before), x.narrow(axis, 0, after)
        return _between(sides, x, axis)
    if mode == "reflect" and before < length and after < length:
        sides = x.narrow(axis, 1, before), x.narrow(axis, length - 1 - after, after)
        return _between([side.flip(axis) for side in sides], x, axis)
    outside = [*range(-before, 0), *range(length, length + after)]
    pixels = (source(index, length, mode) for index in outside)
    strips = [x.narrow(axis, pixel, 1) for pixel in pixels if pixel is not None]
    return torch.cat([*strips[:before], x, *strips[before:]], axis)


def _between(sides: Sequence[Tensor], x: Tensor, axis: int) -> Tensor:
    # Empty sides are left out: as the first operand one would decide the memory format.
    before, after = ([side] if side.shape[axis] else [] for side in sides)
    return torch.cat([*before, x, *after], axis)


class EdgeConv2d(nn.Conv2d):
    """``nn.Conv2d`` with any padding mode on any map; without ``padding`` an odd kernel gives ceil(H/s)."""

    stride: tuple[int, int]
    padding: tuple[int, int]
    padding_mode: PaddingMode

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: tuple[int, int] | None = None,
        *,
        mode: PaddingMode,
        groups: int = 1,
        bias: bool = True,
        **place: Unpack[Place],
    ):
        kernel = both(kernel_size)
        sides = (kernel[0] // 2, kernel[1] // 2) if padding is None else padding
        super().__init__(
            *(in_channels, out_channels, kernel, stride, sides),
            groups=groups,
            bias=bias,
            padding_mode=mode,
            **place,
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.convolve(x, self.weight, self.bias)

    def convolve(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        down, across = self.padding
        if self.padding_mode == "zeros":
            return F.conv2d(x, weight, bias, self.stride, (down, across), groups=self.groups)
        x = pad(x, (across, across, down, down), self.padding_mode)
        return F.conv2d(x, weight, bias, self.stride, groups=self.groups)


class WideConv2d(EdgeConv2d):
    """Computed in the type of the map, whatever that of the weights."""

    def forward(self, x: Tensor) -> Tensor:
        bias = None if self.bias is None else self.bias.to(x.dtype)
        return self.convolve(x, self.weight.to(x.dtype), bias)
