"""Values past the edges of a feature map: :func:`pad`, and a convolution that uses it."""

from collections.abc import Sequence
from typing import Literal, Unpack

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cnnpool.pool.base import Place, Size, check_choice
from cnnpool.pool.internals import is_exported, repeated
from cnnpool.pool.window import IntPair, pair

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
    if is_exported() and (mode == "replicate" or (mode == "reflect" and _mirrors(x, sides))):
        return F.pad(x, sides, mode) if any(sides) else x
    return _extend(_extend(x, -1, left, right, mode), -2, top, bottom, mode)


def _mirrors(x: Tensor, sides: tuple[int, int, int, int]) -> bool:
    """Whether the map is long enough for torch's reflection padding; other runtimes check it too."""
    return max(sides[:2]) < x.shape[-1] and max(sides[2:]) < x.shape[-2]


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


def conv2d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: IntPair,
    groups: int,
    mode: PaddingMode,
    padding: tuple[int, int] | None = None,
) -> Tensor:
    """Convolution of ``x`` padded on every side, by default by half the odd kernel: then H' = ceil(H/s)."""
    down, across = padding or (k // 2 for k in weight.shape[-2:])
    if mode == "zeros":
        return F.conv2d(x, weight, bias, stride, (down, across), groups=groups)
    return F.conv2d(pad(x, (across, across, down, down), mode), weight, bias, stride, groups=groups)


class EdgeConv2d(nn.Conv2d):
    """``nn.Conv2d`` by :func:`conv2d`: any padding mode on any map; without ``padding`` H' = ceil(H/s)."""

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
        kernel = pair(kernel_size, "kernel_size", least=1)
        if padding is None and any(k % 2 == 0 for k in kernel):
            raise ValueError(f"kernel_size must be odd, to keep the size of the map, got {kernel_size!r}")
        check_choice("padding_mode", mode, PaddingMode)
        sides = (kernel[0] // 2, kernel[1] // 2) if padding is None else padding
        super().__init__(
            *(in_channels, out_channels, kernel, stride, sides),
            groups=groups,
            bias=bias,
            padding_mode=mode,
            **place,
        )

    def forward(self, x: Tensor) -> Tensor:
        return conv2d(x, self.weight, self.bias, self.stride, self.groups, self.padding_mode, self.padding)
