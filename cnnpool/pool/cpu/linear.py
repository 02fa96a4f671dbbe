"""Separable linear pooling of plain CPU tensors by compiled kernels: averages, sums and blurs."""

from functools import lru_cache
from typing import Any

import torch
from numba import int64
from torch import Tensor

from cnnpool.pool.autograd.separable import Separable, Side
from cnnpool.pool.cpu.loops.lanes import (
    LANES,
    load,
    loading,
    loading_pairs,
    read,
    spreading,
    store,
    store_pairs,
)
from cnnpool.pool.cpu.loops.planes import (
    FEW,
    SOME,
    cells_of,
    clear_edges,
    copy_border,
    cut,
    fetch_run,
    fill,
    move,
    next_row,
    paste,
    read_rows,
    run_of,
    write_rows,
)
from cnnpool.pool.cpu.loops.signatures import (
    Address,
    Border,
    Grid,
    Map,
    Number,
    Pair,
    Terms,
    compiled,
    inlined,
)
from cnnpool.pool.cpu.memory import CPU, are_small, as_planes, empty, scalar, table, with_channels_last
from cnnpool.pool.cpu.runs import Cells as Weights
from cnnpool.pool.cpu.runs import (
    Plan,
    Planes,
    are_tiles,
    in_place,
    planes,
    scaled,
    scratch_layout,
)
from cnnpool.pool.cpu.threads import spread as share
from cnnpool.pool.window import memory_format, stated_format, wide_of

Held = tuple[int, int, int, int, int]
"""Where sums of rows, the same dealt, copied rows, and sums of columns or gradients begin in scratch memory,
and which number there is the first gradient.
"""


def _weighing(lanes: int) -> Any:
    """The weighted sums of so many windows side by side, times ``factors`` if given."""
    load, spread = loading(lanes), spreading(lanes)

    @inlined
    def weighted(x: Address, at: int, cells: Terms, e: int, total: Number, like: Number) -> Any:
        return load(x, at + read(cells[0], e, int64(0)), like) * read(cells[1], e, total)

    @inlined
    def weigh(
        x: Address, at: int, cells: Terms, begin: int, end: int, factors: Address, t: int, out: Address,
        target: int, total: Number, like: Number, to: Number,
    ) -> None:  # fmt: skip
        sums, at = spread(total), at + t
        # Two cells at a time: there are few, and the loop takes as long as they do.
        while begin + 1 < end:
            sums = sums + weighted(x, at, cells, begin, total, like)
            sums = sums + weighted(x, at, cells, begin + 1, total, like)
            begin += 2
        if begin < end:
            sums = sums + weighted(x, at, cells, begin, total, like)
        if factors:
            sums = sums * load(factors, t, total)
        store(out, target + t, sums, to)

    return weigh


MANY = 2 * LANES
"""Networks have 32 channels, or rows of 32 pixels, more often than planes have so few."""
_weigh_many, _weigh_some = _weighing(MANY), _weighing(LANES)


@inlined
def _weigh(
    x: Address, at: int, cells: Terms, row: int, column: int, factors: Address, out: Address, target: int,
    count: int, total: Number, like: Number, to: Number,
) -> None:  # fmt: skip
    """A run of weighted sums."""
    (begin, end, base), t = cells_of(cells, row, column), 0
    at += base
    while t < count:
        if t + MANY <= count:
            _weigh_many(x, at, cells, begin, end, factors, t, out, target, total, like, to)
            t += MANY
        else:
            t = max(0, min(t, count - LANES))
            _weigh_some(x, at, cells, begin, end, factors, t, out, target, total, like, to)
            t += LANES


@compiled
def sum_last(
    start: int, stop: int, x: Address, y: Address, size: Pair, out_size: Pair, channels: int, cells: Terms,
    total: Number, like: Number,
) -> None:  # fmt: skip
    """Rows ``start`` to ``stop`` of all samples' results, in place."""
    (height, width), (rows, columns) = size, out_size
    for line in range(start, stop):
        at, row = line // rows * height * width * channels, line % rows
        ahead, some = next_row(line, size, out_size, channels)
        c = 0
        while c < columns:
            target, many = (line * columns + c) * channels, run_of(cells, c, columns, channels)
            fetch_run(x, ahead + c * some, many * some, like)
            _weigh(x, at, cells, row, c, 0, y, target, many * channels, total, like, like)
            c += many


@compiled
def _send_last(
    start: int, stop: int, grad: Address, out: Address, size: Pair, out_size: Pair, channels: int,
    cells: Terms, total: Number, like: Number,
) -> None:  # fmt: skip
    """Gradients of the pixels of rows of windows whose cells have one weight, each pixel being in one."""
    (height, width), (rows, columns) = size, out_size
    for line in range(start, stop):
        at, row = line // rows * height * width * channels, line % rows
        ahead, some = next_row(line, size, out_size, channels)
        for c in range(columns):
            fetch_run(out, ahead + c * some, some, like)
            source, (begin, end, base) = (line * columns + c) * channels, cells_of(cells, row, c)
            weight = read(cells[1], begin, total)
            for t in range(0, channels, LANES):
                t = min(t, channels - LANES)
                value = load(grad, source + t, like) * weight
                for e in range(begin, end):
                    store(out, at + base + t + read(cells[0], e, int64(0)), value, like)


@compiled
def sum_planes(
    start: int, stop: int, scratch: Address, x: Address, y: Address, of: Map, outputs: Map, grid: Grid,
    down: Terms, across: Terms, border: Border, factors: Address, held: Held, total: Number, like: Number,
) -> None:  # fmt: skip
    """Planes ``start`` to ``stop``: for each row of results a sum of rows, then for all sums of columns."""
    (height, width, pixel, _), rows, (_, sw, _, pw, pitch, part) = of, outputs[0], grid
    lines, image, short, sums = scratch + held[0], scratch + held[1], scratch + held[2], scratch + held[3]
    run, line, count = width * pixel, sw * pitch * pixel, rows * pitch * pixel
    one_row, dealt = (1, rows * sw * pitch, pixel, pixel), (1, sw, 0, 0, 0, part)
    straight = pitch == outputs[1] and count >= LANES
    fill(lines, rows * line, total)
    fill(short, height * line if run < LANES else 0, like)
    for unit in range(start, stop):
        source, at, first, some = x, unit * height * run, pw * pixel, run
        if run < LANES:
            # A vector of a row would end in the next.
            read_rows(x, unit, of, short, first, sw * pitch, like, like)
            source, at, first, some = short, 0, 0, line
        for row in range(rows):
            _weigh(source, at, down, row, 0, 0, lines, row * line + first, some, total, like, total)
        copy_border(lines, rows * line, pixel, sw * pitch, border, False, total)
        if sw > 1:
            cut(lines, 0, one_row, image, dealt, total, total)
        target, at = (y, unit * count) if straight else (sums, 0)
        _weigh(image, 0, across, 0, 0, factors, target, at, count, total, total, like)
        if not straight:
            write_rows(sums, y, unit, outputs, pitch, like)


@compiled
def adjoint_planes(
    start: int, stop: int, scratch: Address, grad: Address, out: Address, of: Map, outputs: Map, grid: Grid,
    down: Terms, across: Terms, border: Border, factors: Address, held: Held, total: Number, like: Number,
) -> None:  # fmt: skip
    """From gradients of outputs to those of inputs, ``sum_planes`` backwards."""
    (height, width, pixel, _), rows, (_, sw, _, pw, pitch, part) = of, outputs[0], grid
    lines, image, short, grads = scratch + held[0], scratch + held[1], scratch + held[2], scratch + held[3]
    run, line, count, begin = width * pixel, sw * pitch * pixel, rows * pitch * pixel, held[4]
    one_row, dealt = (1, rows * sw * pitch, pixel, pixel), (1, sw, 0, 0, 0, part)
    fill(grads, part, total)
    for unit in range(start, stop):
        read_rows(grad, unit, outputs, grads, begin, pitch, like, total)
        for t in range(0, count if factors else 0, LANES):
            store(grads, begin + t, load(grads, begin + t, total) * load(factors, t, total), total)
        for n in range(sw):
            _weigh(grads, begin, across, 0, n, 0, image, n * part, count, total, total, total)
        if sw > 1:
            paste(image, lines, 0, one_row, dealt, total, total)
        copy_border(lines, rows * line, pixel, sw * pitch, border, True, total)
        target, at = (short, 0) if run < LANES else (out, unit * height * run)
        for row in range(height):
            _weigh(lines, pw * pixel, down, row, 0, 0, target, at + row * run, run, total, total, like)
        if run < LANES:
            move(short, 0, out, unit * height * run, height * run, like, like)


def _tiled(lanes: int) -> tuple[Any, Any]:
    """The sums of a row of 2x2 tiles of a contiguous map, so many at once, and their adjoint."""
    load_pairs, load_some, repeat = loading_pairs(lanes), loading(lanes), spreading(lanes)

    @inlined
    def sums(
        x: Address, at: int, width: int, y: Address, out: int, columns: int, weight: Number, like: Number
    ) -> None:
        for c in range(0, columns, lanes):
            c = min(c, columns - lanes)
            (a, b), (d, e) = load_pairs(x, at + 2 * c, like), load_pairs(x, at + width + 2 * c, like)
            store(y, out + c, ((a + b) + (d + e)) * repeat(weight), like)

    @inlined
    def adjoint(
        grad: Address, at: int, out: Address, target: int, width: int, columns: int, weight: Number,
        like: Number,
    ) -> None:  # fmt: skip
        for c in range(0, columns, lanes):
            c = min(c, columns - lanes)
            value = load_some(grad, at + c, like) * repeat(weight)
            store_pairs(out, target + 2 * c, value, value, like)
            store_pairs(out, target + width + 2 * c, value, value, like)

    return sums, adjoint


_sums_of_eight, _adjoint_of_eight = _tiled(SOME)
_sums_of_four, _adjoint_of_four = _tiled(FEW)


@compiled
def _forward_tiles(
    start: int, stop: int, x: Address, y: Address, size: Pair, out_size: Pair, weight: Number, like: Number
) -> None:
    """Contiguous maps with rows of at least ``FEW`` tiles, planes ``start`` to ``stop``."""
    (height, width), (rows, columns) = size, out_size
    for plane in range(start, stop):
        at, out = plane * height * width, plane * rows * columns
        for _ in range(rows):
            if columns >= SOME:
                _sums_of_eight(x, at, width, y, out, columns, weight, like)
            else:
                _sums_of_four(x, at, width, y, out, columns, weight, like)
            at, out = at + 2 * width, out + columns


@compiled
def _adjoint_tiles(
    start: int, stop: int, grad: Address, out: Address, size: Pair, out_size: Pair, weight: Number,
    like: Number,
) -> None:  # fmt: skip
    """Gradients of the same planes."""
    (height, width), (rows, columns) = size, out_size
    for plane in range(start, stop):
        at, target = plane * rows * columns, plane * height * width
        for _ in range(rows):
            if columns >= SOME:
                _adjoint_of_eight(grad, at, out, target, width, columns, weight, like)
            else:
                _adjoint_of_four(grad, at, out, target, width, columns, weight, like)
            at, target = at + columns, target + 2 * width
        clear_edges(out, plane, size, like)


@lru_cache(maxsize=1024)
def plan(linear: Separable, channels: int, dtype: torch.dtype, adjoint: bool) -> Plan:
    last, size, out_size = linear.channels_last, linear.size, linear.output_size
    wide, sides = wide_of(torch.empty(0, dtype=dtype)), [linear.side(axis) for axis in (0, 1)]
    numbers = scalar(0.0, wide), scalar(0.0, dtype)
    result = size if adjoint else out_size
    if in_place(channels, last):
        # Not blurs: max_blur calls the kernel that gathers.
        alone = all(len(sums) == 1 for side in sides for sums in side.adjoint_entries())
        sent = adjoint and alone and len(sides[0].divisors) > 0
        gathered = adjoint and not sent
        sums = [side.adjoint_entries() if gathered else side.entries() for side in sides]
        many, few = (out_size, size) if gathered else (size, out_size)
        cells = Weights(scaled(sums[0], many[1] * channels), scaled(sums[1], channels), wide)
        rest: tuple[Any, ...] = many, few, channels, cells.pointers, *numbers
        return Plan(_send_last if sent else sum_last, result, few[0], 0, rest, (cells,))
    down, across = ((s.length, s.outputs, len(s.weights), s.stride, s.padding, 1) for s in sides)
    # Not blurs: the kernels of max_blur go on with planes.
    if are_tiles((down, across)) and not last and sides[0].divisors:
        kernel = _adjoint_tiles if adjoint else _forward_tiles
        rest = size, out_size, scalar(1 / sides[0].divisors[0] / sides[1].divisors[0], wide), numbers[1]
        return Plan(kernel, result, channels, 0, rest, ())
    # Sums of rows, whose columns are summed, are rows of windows.
    plane = planes(((down[1], down[1], 1, 1, 0, 1), across), channels, last)
    return _plan_of_planes(sides, plane, adjoint, dtype, 1 if last else channels)


def _plan_of_planes(sides: list[Side], plane: Planes, adjoint: bool, dtype: torch.dtype, units: int) -> Plan:
    (tall, broad), pixel, wide = sides, plane.pixel, wide_of(torch.empty(0, dtype=dtype))
    of, outputs = (tall.length, broad.length, pixel, pixel), (tall.outputs, broad.outputs, pixel, pixel)
    run, line = broad.length * pixel, broad.stride * plane.pitch * pixel
    weights, factors, size = broad.weights, torch.empty(0, dtype=wide, device=CPU), wide.itemsize
    if len(set(broad.divisors)) == 1:
        weights = tuple(w / broad.divisors[0] for w in weights)
    elif broad.divisors:
        factors = torch.zeros(tall.outputs + LANES, plane.pitch, pixel, dtype=wide, device=CPU)
        factors[:, : broad.outputs] = (1 / table(broad.divisors, torch.float64))[:, None]
    entries = tall.adjoint_entries() if adjoint else tall.entries()
    down = Weights(scaled(entries, line if adjoint or run < LANES else run), [[(0, 1.0)]], wide)
    cells = plane.adjoint_cells(1) if adjoint else plane.cells(1)
    columns = [[(place, weights[cell]) for place, cell in several] for several in cells]
    across = Weights([[(0, 1.0)]], columns, wide)
    border = table([(n + broad.padding) * pixel for copied in broad.border() for n in copied], torch.int64)
    dealt, short = broad.stride * plane.part, (tall.length * line if run < LANES else 0)
    numbers = dealt, dealt if broad.stride > 1 else 0, short + LANES, plane.part
    (lines, image, *others), scratch = scratch_layout(*(size * n for n in numbers))
    rest: tuple[Any, ...] = (
        *(of, outputs, plane.grid, down.pointers, across.pointers, (len(border) // 2, border.data_ptr())),
        factors.data_ptr() if len(factors) else 0,
        (lines, image if broad.stride > 1 else lines, *others, plane.before * pixel),
        *(scalar(0.0, wide), scalar(0.0, dtype)),
    )
    kernel, result = (adjoint_planes, of[:2]) if adjoint else (sum_planes, outputs[:2])
    return Plan(kernel, result, units, scratch, rest, (down, across, border, factors))


def pool(x: Tensor, linear: Separable, adjoint: bool) -> Tensor:
    """The map (N, C, H', W') of ``x`` (N, C, H, W), or the transpose; summed in float32 at least."""
    last = linear.channels_last
    if not last and are_small(x.shape[1], *linear.size):
        return as_planes(pool(with_channels_last(x), linear._replace(channels_last=True), adjoint))
    size = linear.size if adjoint else linear.output_size
    result = empty((*x.shape[:2], *size), x.dtype, stated_format(x, last))
    x = x.contiguous(memory_format=memory_format(last))
    how = plan(linear, x.shape[1], x.dtype, adjoint)
    moved, where = x.nbytes + result.nbytes, (x.data_ptr(), result.data_ptr())
    share(how.kernel, x.shape[0] * how.units, moved, *where, *how.rest, scratch=how.scratch)
    return result
