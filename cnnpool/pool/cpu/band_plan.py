"""Division of maps into bands, the scratch memory of a band, and maps prepared for kernels."""

from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from cnnpool.pool.cpu.memory import aligned, empty, scalar
from cnnpool.pool.window import Window, is_channels_last, memory_format, stated_format, wide_of

# Bytes of scratch memory that a band should not exceed: part of a typical second-level cache.
CACHE = 1 << 16


class Frame(NamedTuple):
    """Division of the maps of one size into bands."""

    out_size: tuple[int, int]
    units: int
    rule: tuple[Any, ...]
    room: tuple[Any, ...]
    scratch: int
    layout: torch.memory_format


@lru_cache(maxsize=1024)
def _frame(
    shape: tuple[int, ...],
    window: Window,
    last: bool,
    dtype: torch.dtype,
    channels: int,
    even: bool,
    backward: bool,
    stretches: int,
    result: int,
    kept: int,
) -> Frame:
    """Room for ``stretches`` numbers per window, ``result`` of them in or out, and ``kept`` for its cells."""
    samples, planes, height, width = shape
    lanes, wide = planes if last else 1, max(dtype.itemsize, 4)
    (rows, columns), (kh, kw), (sh, sw), (ph, pw) = window.output_size(height, width), *window[:3]
    above, before = (kh - 1) // sh, (kw - 1) // sw
    pitch = max(columns + before, (width - 1 + pw) // sw + 1)
    lines = (height - 1 + ph) // sh + 1 if backward else rows
    # Bytes of a line of windows: its pixels, their sums, and its numbers.
    line = pitch * lanes * ((sh * sw * (2 if backward else 1) + stretches + kept) * wide)
    band = min(lines, max(CACHE // line, 4 * above, 1))
    several = -(-lines // band)
    windows = band + above if backward else band
    part = ((windows + above) * pitch + before) * lanes
    images, half = part * sh * sw, dtype.itemsize < 4
    step, at, offsets = aligned(windows * pitch * lanes * wide), 0, []
    sizes = [images * dtype.itemsize, images * wide * half, images * wide * backward]
    sizes += [images * dtype.itemsize * half * backward, stretches * step, kept * step, step * half]
    for size in sizes:
        offsets.append(at)
        at += aligned(size)
    _, image, totals, rounded, numbers, weights, rows_of_half = offsets
    moved = rows_of_half if half else numbers + result * step
    where = image if half else 0, moved, totals, rounded if half else totals, numbers, weights, step, wide
    rule = (height, width), (rows, columns), (kh, kw), (sh, sw), (ph, pw), lanes
    room = (band, several, above, pitch, part, images, channels, int(even)), where
    units = samples * (1 if last else planes) * several
    return Frame((rows, columns), units, rule, room, at, memory_format(last))


class Map(NamedTuple):
    """A map prepared for kernels: in the layout and with the types that they take."""

    x: Tensor
    window: Window
    last: bool
    wide: torch.dtype

    def frame(
        self, channels: int, even: bool, backward: bool, stretches: int, result: int, kept: int
    ) -> Frame:
        key = tuple(self.x.shape), self.window, self.last, self.x.dtype
        return _frame(*key, channels, even, backward, stretches, result, kept)

    def types(self, nothing: float) -> tuple[Any, Any, Any]:
        return scalar(0.0, self.wide), scalar(0.0, self.x.dtype), scalar(nothing, self.x.dtype)

    def output(self, out_size: tuple[int, int], dtype: torch.dtype) -> Tensor:
        return empty((*self.x.shape[:2], *out_size), dtype, memory_format(self.last))


def make_ready(x: Tensor, window: Window, last: bool) -> Map:
    x = x.contiguous(memory_format=memory_format(last))
    return Map(x, window, last, wide_of(x))


def in_format_of(x: Tensor, y: Tensor) -> Tensor:
    return y.contiguous(memory_format=stated_format(x, is_channels_last(x)))
