"""One value of each window of plain CPU tensors, drawn with probability proportional to it, by compiled
kernels. Negative values count as 0, and so do cells outside the map.
"""

from functools import lru_cache
from math import inf
from typing import Any

import torch
from numba import int32, int64, uint8
from torch import Tensor

from cnnpool.pool.cpu.loops.lanes import (
    LANES,
    everywhere,
    load,
    read,
    select,
    spread,
    store,
    write,
)
from cnnpool.pool.cpu.loops.planes import cells_of, cut, fill, read_rows, write_rows
from cnnpool.pool.cpu.loops.signatures import Address, Grid, Map, Number, Terms, compiled, inlined
from cnnpool.pool.cpu.loops.vector_math import number
from cnnpool.pool.cpu.max import NOWHERE, axes_of
from cnnpool.pool.cpu.memory import CPU, empty, scalar
from cnnpool.pool.cpu.runs import Cells, planes, scratch_layout
from cnnpool.pool.cpu.threads import spread as share
from cnnpool.pool.window import Window, is_channels_last, memory_format, stated_format, wide_of


@inlined
def _positive(image: Address, at: int, total: Number) -> Number:
    v = load(image, at, total)
    return select(v < total, spread(total), v)


@inlined
def _draw(
    image: Address, t: int, cells: Terms, ladder: Address, uniform: Number, total: Number
) -> tuple[Number, Number, Number]:  # fmt: skip
    """Draws, their cells, and sums of all cells; the sums up to each cell, in order, go to ``ladder``."""
    begin, end, base = cells_of(cells, 0, 0)
    at = t + base
    sums = _positive(image, at + read(cells[0], begin, int64(0)), total)
    store(ladder, 0, sums, total)
    for e in range(begin + 1, end):
        sums = sums + _positive(image, at + read(cells[0], e, int64(0)), total)
        store(ladder, (e - begin) * LANES, sums, total)
    threshold = (number(1, total) - uniform) * sums
    drawn, none = spread(total), spread(NOWHERE)
    place = none
    for back in range(begin + 1, end + 1):
        e = end + begin - back
        v = load(image, at + read(cells[0], e, int64(0)), total)
        here = (threshold <= load(ladder, (e - begin) * LANES, total)) | (spread(e == end - 1))
        drawn = select(here, select(v < total, spread(total), v), drawn)
        place = select(here, select(v < total, none, spread(uint8(read(cells[1], e, int32(0))))), place)
    return drawn, place, sums


@compiled
def _forward(
    start: int, stop: int, scratch: Address, x: Address, y: Address, winners: Address, uniforms: Address,
    flag: Address, of: Map, outputs: Map, grid: Grid, cells: Terms, held: tuple[int, ...], some: int,
    bound: Number, total: Number, like: Number, nothing: Number,
) -> None:  # fmt: skip
    """Draws of planes by uniform numbers in [0, 1); sets ``flag`` if a sum is not finite."""
    image, drawn, places = scratch + held[0], scratch + held[1], scratch + held[2]
    chances, ladder = scratch + held[3], scratch + held[4]
    (sh, sw, _, _, pitch, part), fine = grid, True
    fill(image, sh * sw * part, nothing)
    fill(chances, some, total)
    for unit in range(start, stop):
        cut(x, unit, of, image, grid, like, total)
        read_rows(uniforms, unit, outputs, chances, 0, pitch, total, total)
        for t in range(0, outputs[0] * pitch * outputs[2], LANES):
            uniform = load(chances, t, total)
            value, place, sums = _draw(image, t, cells, ladder, uniform, total)
            fine &= everywhere(sums <= bound)
            store(drawn, t, value, like)
            store(places, t, place, uint8(0))
        write_rows(drawn, y, unit, outputs, pitch, like)
        write_rows(places, winners, unit, outputs, pitch, uint8(0))
    if not fine:
        write(flag, 0, int64(1))


@lru_cache(maxsize=1024)
def _plan(window: Window, shape: tuple[int, ...], last: bool, dtype: torch.dtype) -> tuple[Any, ...]:
    """Shares of the work per sample, bytes of scratch, arguments of kernels, and what these point to."""
    channels, height, width = shape
    wide, plane = (
        wide_of(torch.empty(0, dtype=dtype)),
        planes(axes_of(window, (height, width)), channels, last),
    )
    cells, some = Cells(plane.cells(0, window.kernel[1]), plane.cells(1)), plane.windows + LANES
    item, size = dtype.itemsize, wide.itemsize
    held, scratch = scratch_layout(
        plane.image * size, some * item, some, some * size, window.cells * LANES * size
    )
    where = plane.map, plane.outputs, plane.grid, cells.pointers, held
    numbers = scalar(torch.finfo(wide).max, wide), scalar(0.0, wide), scalar(0.0, dtype), scalar(-inf, wide)
    return -(-channels // plane.pixel) if last else channels, scratch, where, some, numbers, cells


def drawn(x: Tensor, uniforms: Tensor, window: Window) -> tuple[Tensor, Tensor, bool, bool]:
    """Draws by ``uniforms`` in [0, 1), winners (255: none), whether all are finite, whether all have one."""
    last = is_channels_last(x)
    layout, stated = memory_format(last), stated_format(x, last)
    x, uniforms = x.contiguous(memory_format=layout), uniforms.contiguous(memory_format=layout)
    y, winners = empty(uniforms.shape, x.dtype, stated), empty(uniforms.shape, torch.uint8, stated)
    flag = torch.zeros(1, dtype=torch.int64, device=CPU)
    units, scratch, where, some, numbers, _ = _plan(window, tuple(x.shape[1:]), last, x.dtype)
    memory = (t.data_ptr() for t in (x, y, winners, uniforms, flag))
    moved = x.nbytes + y.nbytes
    share(_forward, x.shape[0] * units, moved, *memory, *where, some, *numbers, scratch=scratch)
    return y, winners, not flag.item(), False
