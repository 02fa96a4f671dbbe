"""Averages and blurs on a GPU, and their adjoints: tables define every number as a weighted sum."""

from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from cnnpool.pool.autograd.separable import Entries, Separable
from cnnpool.pool.gpu.places import OverLines, at, empty, frame
from cnnpool.pool.window import memory_format, wide_of


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
            # Cells without weight are skipped, infinite or not.
            part = real & (weight != 0) & (factor != 0)
            value = tl.load(x + at(plane, h, w, along, height, width, channels, last), part, other=0.0)
            line += factor * value.to(wide)
        total += weight * line
    tl.store(y + at(plane, r, c, along, rows, columns, channels, last), total.to(y.dtype.element_ty), real)


_sum = OverLines(_sum)


def _table(sums: Entries, wide: torch.dtype, device: torch.device) -> list[Tensor]:
    # A place that reflection repeats is read once.
    merged = [{place: sum(w for p, w in entries if p == place) for place, _ in entries} for entries in sums]
    most = max(max(map(len, merged)), 1)
    padded = [[*entries.items(), *[(0, 0.0)] * (most - len(entries))] for entries in merged]
    places, weights = ([[entries[i][part] for entries in padded] for i in range(most)] for part in (0, 1))
    return [
        torch.tensor(places, dtype=torch.int32, device=device),
        torch.tensor(weights, dtype=wide, device=device),
    ]


# Never freed: a recorded CUDA graph reads them at their addresses.
@cache
def _tables(linear: Separable, adjoint: bool, wide: torch.dtype, device: torch.device) -> list[Tensor]:
    sides = [linear.side(axis) for axis in (0, 1)]
    sums = [side.adjoint_entries() if adjoint else side.entries() for side in sides]
    return [*_table(sums[0], wide, device), *_table(sums[1], wide, device)]


def pool(x: Tensor, linear: Separable, adjoint: bool, dtype: torch.dtype | None = None) -> Tensor:
    """The map (N, C, H', W') of ``x`` (N, C, H, W), or the transpose, in ``dtype`` or that of ``x``; summed
    in float32 at least.
    """
    last = linear.channels_last
    x = x.contiguous(memory_format=memory_format(last))
    y = empty(x, linear.size if adjoint else linear.output_size, dtype or x.dtype, last)
    if y.numel():
        tables = _tables(linear, adjoint, wide_of(x), x.device)
        sizes, most = (*x.shape[1:], *y.shape[2:]), (len(tables[0]), len(tables[2]))
        _sum(y.shape, last, (x, y, *tables), sizes, most)
    return y
