"""Averages and blurs on a GPU, and their adjoints: every number is a weighted sum that tables name."""

from functools import lru_cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from cnnpool.pool.averaging import Counting
from cnnpool.pool.blurring import Geometry, taps
from cnnpool.pool.edges import source
from cnnpool.pool.triton.places import BLOCK, at, empty, grid, numbered, unravelled
from cnnpool.pool.window import Window, memory_format

Sums = list[list[tuple[int, float]]]


@triton.jit
def _sum(
    x, y, places, weights, more_places, more_weights, count, channels, height, width, rows, columns,
    down: tl.constexpr, across: tl.constexpr, last: tl.constexpr, wide: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    index, real = numbered(count, block)
    n, k, r, c = unravelled(index, channels, rows, columns, last)
    total = tl.zeros((block,), wide)
    for i in range(down):
        h = tl.load(places + r * down + i, real, other=0)
        weight = tl.load(weights + r * down + i, real, other=0.0)
        line = tl.zeros((block,), wide)
        for j in range(across):
            entry = c * across + j
            w = tl.load(more_places + entry, real, other=0)
            value = tl.load(x + at(n, k, h, w, channels, height, width, last), real, other=0.0).to(wide)
            # What has no weight is no part of the sum, infinite or not.
            factor = tl.load(more_weights + entry, real, other=0.0)
            line += tl.where(factor * weight != 0, factor * value, 0.0)
        total += weight * line
    tl.store(y + index, total.to(y.dtype.element_ty), real)


@torch.library.custom_op("cnnpool::triton_sums", mutates_args=())
def _sums(
    x: Tensor, rule: list[int], mode: str, transposed: bool, rows: int, columns: int, last: bool
) -> Tensor:
    x = x.contiguous(memory_format=memory_format(last))
    y, wide = (
        empty(x, (rows, columns), x.dtype, last),
        torch.float64 if x.dtype == torch.float64 else torch.float32,
    )
    tables = _tables(tuple(rule), mode, transposed, wide, x.device)
    if y.numel():
        sizes = y.numel(), *x.shape[1:], rows, columns, tables[0].shape[1], tables[2].shape[1]
        total = tl.float64 if wide == torch.float64 else tl.float32
        _sum[grid(y)](x, y, *tables, *sizes, last, total, BLOCK)
    return y


@_sums.register_fake
def _(x: Tensor, rule: list[int], mode: str, transposed: bool, rows: int, columns: int, last: bool) -> Tensor:
    return empty(x, (rows, columns), x.dtype, last)


def _table(sums: Sums, wide: torch.dtype, device: torch.device) -> list[Tensor]:
    most = max(max(map(len, sums)), 1)
    padded = [[*entries, *[(0, 0.0)] * (most - len(entries))] for entries in sums]
    places, weights = ([[entry[part] for entry in entries] for entries in padded] for part in (0, 1))
    return [torch.tensor(places, device=device), torch.tensor(weights, dtype=wide, device=device)]


def _transposed(sums: Sums, length: int) -> Sums:
    out: Sums = [[] for _ in range(length)]
    for result, entries in enumerate(sums):
        for place, weight in entries:
            out[place].append((result, weight))
    return out


@lru_cache(maxsize=256)
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


def blur(x: Tensor, geometry: Geometry, transposed: bool) -> Tensor:
    """Binomial blur and subsampling, or its transpose; half precision is summed in float32."""
    rule = [*geometry.size, *geometry.filter_size, *geometry.stride]
    out_size = geometry.size if transposed else geometry.output_size
    return _sums(x, rule, geometry.padding_mode, transposed, *out_size, geometry.channels_last)


def average(
    x: Tensor, window: Window, counting: Counting, size: tuple[int, int], transposed: bool, last: bool
) -> Tensor:
    """Means of the windows of a map of ``size``, or the transpose; half precision is summed in float32."""
    kernel, stride, padding, _, _ = window
    out_size, pad, override = window.output_size(*size), int(counting.include_pad), counting.override or 0
    rule = [*size, *kernel, *stride, *padding, *out_size, pad, pad, override, override]
    return _sums(x, rule, "", transposed, *(size if transposed else out_size), last)
