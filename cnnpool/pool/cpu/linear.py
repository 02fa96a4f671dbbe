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
    cut,
    deal,
    fetch_run,
    fill,
    fill_border,
    fold_border,
    next_row,
    origin,
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
from cnnpool.pool.cpu.memory import CPU, empty, scalar, table
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


def _weighing(lanes: int) -> Any:
    """The weighted sums of so many windows side by side, times ``factors`` if given."""
    load, spread = loading(lanes), spreading(lanes)

    @inlined
    def weigh(
        x: Address, at: int, cells: Terms, begin: int, end: int, factors: Address, t: int, out: Address,
        target: int, total: Number, like: Number, to: Number,
    ) -> None:  # fmt: skip
        sums = spread(total)
        for e in range(begin, end):
            value = load(x, at + t + read(cells[0], e, int64(0)), like)
            sums = sums + value * read(cells[1], e, total)
        if factors:
            sums = sums * load(factors, t, total)
        store(out, target + t, sums, to)

    return weigh


_weigh_some = _weighing(LANES)


def _runs(many: int) -> Any:
    """A run of weighted sums, ``many`` at once and then ``LANES``."""
    weigh_many = _weighing(many)

    @inlined
    def weigh(
        x: Address, at: int, cells: Terms, row: int, column: int, factors: Address, out: Address, target: int,
        count: int, total: Number, like: Number, to: Number,
    ) -> None:  # fmt: skip
        begin, end, base = cells_of(cells, row, column)
        at, done = at + base, count // many * many
        for t in range(0, done, many):
            weigh_many(x, at, cells, begin, end, factors, t, out, target, total, like, to)
        for t in range(done, count, LANES):
            t = max(0, min(t, count - LANES))
            _weigh_some(x, at, cells, begin, end, factors, t, out, target, total, like, to)

    return weigh


# Networks have 32 channels more often than planes have so few pixels.
_weigh, _weigh_last = _runs(4 * LANES), _runs(2 * LANES)


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
            _weigh_last(x, at, cells, row, c, 0, y, target, many * channels, total, like, like)
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
    down: Terms, across: Terms, border: Border, factors: Address, held: tuple[int, ...], total: Number,
    like: Number,
) -> None:  # fmt: skip
    """Planes ``start`` to ``stop``: for each row of results a sum of rows, then for all sums of columns."""
    image, sums, line, copy = scratch + held[0], scratch + held[1], scratch + held[2], scratch + held[3]
    (_, sw, _, pw, pitch, part), count = grid, outputs[0] * grid[4] * outputs[2]
    straight = pitch == outputs[1] and outputs[2] == outputs[3] and count >= LANES
    (_, width, pixel, _), run = of, of[1] * of[2]
    fill(image, sw * part, total)
    for unit in range(start, stop):
        source, (at, _) = x, origin(unit, of)
        if run < LANES:
            # A vector of the last row would end outside the map.
            read_rows(x, unit, of, copy, 0, width, like, like)
            source, at = copy, 0
        for row in range(outputs[0]):
            _weigh(source, at, down, row, 0, 0, line, 0, run, total, like, total)
            if pixel == 1 or sw == 1:
                deal(line, 0, run, image, row * pitch * pixel, part, pw * pixel, sw, total, total)
            else:
                cut(line, 0, (1, width, pixel, pixel), image, (1, sw, row, pw, pitch, part), total, total)
        fill_border(image, pixel, grid, border, total)
        if straight:
            out, _ = origin(unit, outputs)
            _weigh(image, 0, across, 0, 0, factors, y, out, count, total, total, like)
        else:
            _weigh(image, 0, across, 0, 0, factors, sums, 0, count, total, total, like)
            write_rows(sums, y, unit, outputs, pitch, like)


@compiled
def adjoint_planes(
    start: int, stop: int, scratch: Address, grad: Address, out: Address, of: Map, outputs: Map, grid: Grid,
    cells: Terms, border: Border, factors: Address, held: tuple[int, ...], begin: int, total: Number,
    like: Number,
) -> None:  # fmt: skip
    """As ``sum_planes``, from gradients of outputs to those of inputs."""
    image, grads, (some, count) = scratch + held[0], scratch + held[1], held[2:]
    (_, sw, _, _, pitch, part), parts = grid, grid[0] * grid[1]
    fill(grads, some, total)
    for unit in range(start, stop):
        read_rows(grad, unit, outputs, grads, begin, pitch, like, total)
        for t in range(0, some if factors else 0, LANES):
            store(grads, t, load(grads, t, total) * load(factors, t, total), total)
        for n in range(parts):
            _weigh(grads, begin, cells, n // sw, n % sw, 0, image, n * part, count, total, total, total)
        fold_border(image, of[2], grid, border, total)
        paste(image, out, unit, of, grid, total, like)


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


def _weights(sides: list[Side]) -> tuple[list[list[float]], Tensor | None]:
    """The weights of a window's rows and columns, and (H', W') the factors of sums with unequal divisors."""
    if all(len(set(side.divisors)) < 2 for side in sides):
        return [[w / n for w in side.weights] for side in sides for n in side.divisors[:1] or (1,)], None
    tall, broad = (table(side.divisors, torch.float64) for side in sides)
    return [list(side.weights) for side in sides], 1 / torch.outer(tall, broad)


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
        (tall, broad), _ = _weights(sides)
        rest = size, out_size, scalar(tall[0] * broad[0], wide), numbers[1]
        return Plan(kernel, result, channels, 0, rest, ())
    units = -(-channels // LANES) if last else channels
    if not adjoint:
        # Rows of results, whose columns are summed, are sums of rows.
        down = (down[1], down[1], 1, 1, 0, 1)
    return _plan_of_planes(sides, planes((down, across), channels, last), adjoint, dtype, result, units)


def _plan_of_planes(
    sides: list[Side], cut: Planes, adjoint: bool, dtype: torch.dtype, result: tuple[int, int], units: int
) -> Plan:
    (weights, factors), wide = _weights(sides), wide_of(torch.empty(0, dtype=dtype))
    numbers, item, size = (scalar(0.0, wide), scalar(0.0, dtype)), dtype.itemsize, wide.itemsize
    rows, columns = ([n + s.padding for copied in s.border() for n in copied] for s in sides)
    sh, sw = cut.grid[:2]
    rows = [(h % sh * sw * cut.part + h // sh * cut.pitch * cut.pixel) for h in rows if adjoint]
    columns = [w % sw * cut.part + w // sw * cut.pixel for w in columns]
    borders = [table(several, torch.int64) for several in (rows, columns)]
    border = (*(part for b in borders for part in (len(b) // 2, b.data_ptr())),)
    begin, count = (cut.begin, cut.pixels) if adjoint else (0, cut.windows)
    some = begin + count + LANES
    spaced = None if factors is None else torch.zeros(some + LANES, dtype=wide, device=CPU)
    if factors is not None and spaced is not None:
        gap = cut.pitch * cut.pixel
        for r, row in enumerate(factors):
            at = begin + r * gap
            spaced[at : at + len(row) * cut.pixel] = row.repeat_interleave(cut.pixel)
    pointer = 0 if spaced is None else spaced.data_ptr()
    held: tuple[int, ...]
    if not adjoint:
        side, run = sides[0], sides[1].length * cut.pixel
        entries = (side if factors is None else side._replace(divisors=())).entries()
        down = Weights(scaled(entries, run), [[(0, 1.0)]], wide)
        across = Weights([[(0, 1.0)]], _weighted(cut.cells(1), weights[1]), wide)
        copy = side.length * LANES * item
        held, scratch = scratch_layout(cut.image * size, some * item, (run + LANES) * size, copy)
        of = side.length, *cut.map[1:]
        where: tuple[Any, ...] = of, cut.outputs, cut.grid, down.pointers, across.pointers, border, pointer
        rest: tuple[Any, ...] = *where, held, *numbers
        return Plan(sum_planes, result, units, scratch, rest, (down, across, borders, spaced))
    lists = [_weighted(cut.adjoint_cells(axis), weights[axis]) for axis in (0, 1)]
    cells = Weights(lists[0], lists[1], wide)
    held, scratch = scratch_layout(cut.image * size, (some + LANES) * size)
    where = cut.map, cut.outputs, cut.grid, cells.pointers, border, pointer
    rest = *where, (*held, some, count), begin, *numbers
    return Plan(adjoint_planes, result, units, scratch, rest, (cells, borders, spaced))


def _weighted(cells: list[list[tuple[int, int]]], weights: list[float]) -> list[list[tuple[int, float]]]:
    return [[(place, weights[cell]) for place, cell in several] for several in cells]


def pool(x: Tensor, linear: Separable, adjoint: bool) -> Tensor:
    """The map (N, C, H', W') of ``x`` (N, C, H, W), or the transpose; summed in float32 at least."""
    last = linear.channels_last
    size = linear.size if adjoint else linear.output_size
    result = empty((*x.shape[:2], *size), x.dtype, stated_format(x, last))
    x = x.contiguous(memory_format=memory_format(last))
    how = plan(linear, x.shape[1], x.dtype, adjoint)
    moved, where = x.nbytes + result.nbytes, (x.data_ptr(), result.data_ptr())
    share(how.kernel, x.shape[0] * how.units, moved, *where, *how.rest, scratch=how.scratch)
    return result
