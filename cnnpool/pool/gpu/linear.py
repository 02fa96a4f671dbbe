"""Averages and blurs on a GPU, and their adjoints: every number is a weighted sum that tables name."""

from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from cnnpool.pool.averaging import Counting
from cnnpool.pool.blurring import Geometry, taps
from cnnpool.pool.edges import source
from cnnpool.pool.gpu.places import OverLines, at, empty, frame, wide_of
from cnnpool.pool.window import Window, memory_format

Sums = list[list[tuple[int, float]]]


@triton.jit
def _sum(
    x, y, places, weights, more_places, more_weights, channels, height, width, rows, columns, count, extent,
    deep: tl.constexpr, broad: tl.constexpr,
    last: tl.constexpr, wide: tl.constexpr, down: tl.constexpr, across: tl.constexpr, big: tl.constexpr,
):  # fmt: skip
    plane, r, c, along, real = frame(count, extent, rows, columns, last, down, across, big)
    total = tl.zeros((down, across), wide)
    for i in tl.static_range(deep):
        h, weight = tl.load(places + i * rows + r), tl.load(weights + i * rows + r)
        line = tl.zeros((down, across), wide)
        for j in tl.static_range(broad):
            w = tl.load(more_places + j * columns + c, c < columns, other=0)
            factor = tl.load(more_weights + j * columns + c, c < columns, other=0.0)
            # What has no weight is no part of the sum, infinite or not.
            part = real & (weight != 0) & (factor != 0)
            value = tl.load(x + at(plane, h, w, along, height, width, channels, last), part, other=0.0)
            line += factor * value.to(wide)
        total += weight * line
    tl.store(y + at(plane, r, c, along, rows, columns, channels, last), total.to(y.dtype.element_ty), real)


_sum = OverLines(_sum)


def _add(x: Tensor, rule: tuple[int, ...], mode: str, transposed: bool, y: Tensor, last: bool) -> Tensor:
    if y.numel():
        tables = _tables(rule, mode, transposed, wide_of(x), x.device)
        sizes, most = (*x.shape[1:], *y.shape[2:]), (len(tables[0]), len(tables[2]))
        _sum(y.shape, last, (x, y, *tables), sizes, most)
    return y


def _table(sums: Sums, wide: torch.dtype, device: torch.device) -> list[Tensor]:
    # A place that is met several times, by reflection, is read once.
    merged = [{place: sum(w for p, w in entries if p == place) for place, _ in entries} for entries in sums]
    most = max(max(map(len, merged)), 1)
    padded = [[*entries.items(), *[(0, 0.0)] * (most - len(entries))] for entries in merged]
    places, weights = ([[entries[i][part] for entries in padded] for i in range(most)] for part in (0, 1))
    return [
        torch.tensor(places, dtype=torch.int32, device=device),
        torch.tensor(weights, dtype=wide, device=device),
    ]


def _transposed(sums: Sums, length: int) -> Sums:
    out: Sums = [[] for _ in range(length)]
    for result, entries in enumerate(sums):
        for place, weight in entries:
            out[place].append((result, weight))
    return out


# For ever: a recorded CUDA graph reads them where they are.
@cache
def _tables(
    rule: tuple[int, ...], mode: str, transposed: bool, wide: torch.dtype, device: torch.device
) -> list[Tensor]:
    tables = []
    for axis in range(2):
        length, numbers = rule[axis], rule[2 + axis :: 2]
        sums = _blurred(length, mode, *numbers) if mode else _averaged(length, axis, *numbers)
        tables += _table(_transposed(sums, length) if transposed else sums, wide, device)
    return tables


def _blurred(length: int, mode: str, filter_size: int, stride: int) -> Sums:
    window, sums = [(k - (filter_size - 1) // 2, weight) for k, weight in enumerate(taps(filter_size))], []
    for o in range(-(-length // stride)):
        met = [(source(o * stride + k, length, mode), weight) for k, weight in window]
        sums.append([(place, weight) for place, weight in met if place is not None])
    return sums


def _averaged(
    length: int, axis: int, k: int, s: int, p: int, count: int, include_pad: int, override: int
) -> Sums:
    outer, sums = p if include_pad else 0, []
    for start in range(-p, count * s - p, s):
        divisor = min(start + k, length + outer) - max(start, -outer)
        if override:
            divisor = 1 if axis else override
        sums.append([(i, 1 / divisor) for i in range(max(0, start), min(length, start + k))])
    return sums


def blur(x: Tensor, geometry: Geometry, transposed: bool, dtype: torch.dtype | None = None) -> Tensor:
    """Binomial blur and subsampling, or its transpose, in ``dtype`` or that of ``x``, summed in float32 at
    least.
    """
    rule, last = (*geometry.size, *geometry.filter_size, *geometry.stride), geometry.channels_last
    x = x.contiguous(memory_format=memory_format(last))
    y = empty(x, geometry.size if transposed else geometry.output_size, dtype or x.dtype, last)
    return _add(x, rule, geometry.padding_mode, transposed, y, last)


def average(
    x: Tensor, window: Window, counting: Counting, size: tuple[int, int], transposed: bool, last: bool
) -> Tensor:
    """Means of the windows of a map of ``size``, or the transpose; half precision is summed in float32."""
    kernel, stride, padding, _, _ = window
    out_size, pad, override = window.output_size(*size), int(counting.include_pad), counting.override or 0
    rule = *size, *kernel, *stride, *padding, *out_size, pad, pad, override, override
    x = x.contiguous(memory_format=memory_format(last))
    return _add(x, rule, "", transposed, empty(x, size if transposed else out_size, x.dtype, last), last)
