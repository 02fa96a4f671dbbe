"""Planes in scratch memory, where a cell of all windows is one run of numbers, whatever the memory format.

A plane is a map of one channel, or of a few of a channels-last map: a pixel is as many numbers, side by side.
In scratch it is dealt into stride x stride parts (space to depth), with a border for the padding, so that the
same cell of neighbouring windows is adjacent. Runs may be read and written past their end, up to ``LANES``.
"""

from numba import int64

from cnnpool.pool.cpu.loops.lanes import LANES, copying, fetch, joining, parting, read, write
from cnnpool.pool.cpu.loops.signatures import (
    Address,
    Border,
    Grid,
    Map,
    Number,
    Pair,
    Terms,
    inlined,
    linked,
)

FEW, SOME = 4, 8
AHEAD = 1024
"""How far in front numbers are asked for: planes are too small for the hardware to do it in time."""
_copy, _copy_some, _copy_few, _copy_one = (copying(n) for n in (LANES, SOME, FEW, 1))
_part, _part_few, _join, _join_few = parting(SOME), parting(FEW), joining(SOME), joining(FEW)


@linked
def fill(target: Address, count: int, value: Number) -> None:
    """Write ``value`` ``count`` times."""
    for t in range(count):
        write(target, t, value)


@inlined
def move(source: Address, i: int, target: Address, k: int, count: int, like: Number, to: Number) -> None:
    """Copy ``count`` elements of ``source`` from ``i`` on to ``target`` from ``k`` on, from the type of
    ``like`` to that of ``to``; the last vector overlaps the one before.
    """
    if count == LANES:
        _copy(source, i, target, k, like, to)
    elif count >= LANES:
        for t in range(0, count, LANES):
            t = min(t, count - LANES)
            _copy(source, i + t, target, k + t, like, to)
    elif count >= SOME:
        for t in (0, count - SOME):
            _copy_some(source, i + t, target, k + t, like, to)
    elif count >= FEW:
        for t in (0, count - FEW):
            _copy_few(source, i + t, target, k + t, like, to)
    else:
        for t in range(count):
            _copy_one(source, i + t, target, k + t, like, to)


@inlined
def deal(
    source: Address, i: int, width: int, target: Address, k: int, part: int, padding: int, stride: int,
    like: Number, to: Number,
) -> None:  # fmt: skip
    """Deinterleave a row of ``source``: column w goes to part (w + padding) % stride of ``target``."""
    pairs, turn = width >> 1, padding & 1
    if stride == 1:
        move(source, i, target, k + padding, width, like, to)
    elif stride > 2 or pairs < FEW:
        v, k = padding % stride, k + padding // stride
        for w in range(width):
            _copy_one(source, i + w, target, k + v * part, like, to)
            v += 1
            if v == stride:
                v, k = 0, k + 1
    else:
        even, odd = k + turn * part + (padding >> 1), k + (1 - turn) * part + (padding + 1 >> 1)
        for t in range(0, pairs if pairs >= SOME else 0, SOME):
            t = min(t, pairs - SOME)
            _part(source, i + 2 * t, even + t, odd + t, target, like, to)
        for t in range(0, 0 if pairs >= SOME else pairs, FEW):
            t = min(t, pairs - FEW)
            _part_few(source, i + 2 * t, even + t, odd + t, target, like, to)
        if width & 1:
            _copy_one(source, i + width - 1, target, even + pairs, like, to)


@inlined
def gather(
    source: Address, i: int, part: int, target: Address, k: int, width: int, padding: int, stride: int,
    like: Number, to: Number,
) -> None:  # fmt: skip
    """Interleave the parts of ``source`` to a row, the inverse of ``deal``."""
    pairs, turn = width >> 1, padding & 1
    if stride == 1:
        move(source, i + padding, target, k, width, like, to)
    elif stride > 2 or pairs < FEW:
        v, i = padding % stride, i + padding // stride
        for w in range(width):
            _copy_one(source, i + v * part, target, k + w, like, to)
            v += 1
            if v == stride:
                v, i = 0, i + 1
    else:
        even, odd = i + turn * part + (padding >> 1), i + (1 - turn) * part + (padding + 1 >> 1)
        for t in range(0, pairs if pairs >= SOME else 0, SOME):
            t = min(t, pairs - SOME)
            _join(source, even + t, odd + t, target, k + 2 * t, like, to)
        for t in range(0, 0 if pairs >= SOME else pairs, FEW):
            t = min(t, pairs - FEW)
            _join_few(source, even + t, odd + t, target, k + 2 * t, like, to)
        if width & 1:
            _copy_one(source, even + pairs, target, k + width - 1, like, to)


@linked
def next_row(line: int, size: Pair, out_size: Pair, channels: int) -> tuple[int, int]:
    """Where in a map the part begins that the next row of results reads, and how many numbers a result has
    of it: read in turn with others, they arrive too late unless they are asked for.
    """
    row, (height, _), (rows, columns) = size[1] * channels, size, out_size
    return (line + 1) * height * row // rows + row, height * row // (rows * columns)


@inlined
def fetch_run(source: Address, i: int, count: int, like: Number) -> None:
    """Ask for ``count`` elements of ``source`` from ``i`` on."""
    t = 0
    while t < count:
        t += fetch(source, i + t, like)


@linked
def origin(unit: int, of: Map) -> tuple[int, int]:
    """Where a plane begins in a map, and the numbers of a pixel that it has."""
    height, width, pixel, channels = of
    # Divisions take as long as pooling a few rows.
    if pixel == channels:
        return unit * height * width * pixel, pixel
    groups = -(-channels // pixel)
    first = unit % groups * pixel
    return unit // groups * height * width * channels + first, min(pixel, channels - first)


@linked
def cut(x: Address, unit: int, of: Map, image: Address, grid: Grid, like: Number, to: Number) -> None:
    """Deal a plane of ``x`` into ``image``, of the type of ``to``."""
    (height, width, pixel, channels), (sh, sw, ph, pw, pitch, part) = of, grid
    (source, count), u, line = origin(unit, of), ph % sh, ph // sh
    for _ in range(height):
        target = u * sw * part + line * pitch * pixel
        if pixel == channels and (pixel == 1 or sw == 1):
            deal(x, source, width * pixel, image, target, part, pw * pixel, sw, like, to)
        else:
            v, at = pw % sw, target + pw // sw * pixel
            for w in range(width):
                move(x, source + w * channels, image, at + v * part, count, like, to)
                v += 1
                if v == sw:
                    v, at = 0, at + pixel
        source += width * channels
        u += 1
        if u == sh:
            u, line = 0, line + 1


@linked
def paste(image: Address, out: Address, unit: int, of: Map, grid: Grid, like: Number, to: Number) -> None:
    """Undo ``cut``."""
    (height, width, pixel, channels), (sh, sw, ph, pw, pitch, part) = of, grid
    (target, count), u, line = origin(unit, of), ph % sh, ph // sh
    for _ in range(height):
        source = u * sw * part + line * pitch * pixel
        if pixel == channels and (pixel == 1 or sw == 1):
            gather(image, source, part, out, target, width * pixel, pw * pixel, sw, like, to)
        else:
            v, at = pw % sw, source + pw // sw * pixel
            for w in range(width):
                move(image, at + v * part, out, target + w * channels, count, like, to)
                v += 1
                if v == sw:
                    v, at = 0, at + pixel
        target += width * channels
        u += 1
        if u == sh:
            u, line = 0, line + 1


@linked
def read_rows(
    source: Address, unit: int, of: Map, target: Address, at: int, pitch: int, like: Number, to: Number
) -> None:
    """Copy a plane to ``target`` from ``at`` on, its rows ``pitch`` pixels apart."""
    (height, width, pixel, channels), (begin, count) = of, origin(unit, of)
    if pixel == channels and pitch == width:
        height, width = 1, height * width
    for h in range(height):
        first, k = begin + h * width * channels, at + h * pitch * pixel
        if pixel == channels:
            move(source, first, target, k, width * pixel, like, to)
        else:
            for w in range(width):
                move(source, first + w * channels, target, k + w * pixel, count, like, to)


@linked
def write_rows(source: Address, out: Address, unit: int, of: Map, pitch: int, like: Number) -> None:
    """Copy a plane to a map from rows that lie ``pitch`` pixels apart."""
    (height, width, pixel, channels), (begin, count) = of, origin(unit, of)
    if pixel == channels and pitch == width:
        height, width = 1, height * width
    for h in range(height):
        first, k = begin + h * width * channels, h * pitch * pixel
        if pixel == channels:
            move(source, k, out, first, width * pixel, like, like)
        else:
            for w in range(width):
                move(source, k + w * pixel, out, first + w * channels, count, like, like)


@linked
def shift(image: Address, part: int, count: int, pixel: int, pitch: int, nothing: Number) -> None:
    """Copy a plane one pixel to the left, to ``part`` numbers further on; ``nothing`` in the last column."""
    move(image, pixel, image, part, count, nothing, nothing)
    for column in range((pitch - 1) * pixel, count, pitch * pixel):
        for t in range(column, column + pixel):
            write(image, part + t, nothing)


@linked
def clear_edges(out: Address, plane: int, size: Pair, zero: Number) -> None:
    """Write zeros to the pixels to the right of and below all 2x2 tiles of a plane."""
    height, width = size
    at = plane * height * width
    for row in range(1, height + 1 if width & 1 else 0):
        write(out, at + row * width - 1, zero)
    for w in range((height - 1) * width, height * width if height & 1 else 0):
        write(out, at + w, zero)


@inlined
def cells_of(cells: Terms, row: int, column: int) -> tuple[int, int, int]:
    """The entries of a result, from the first to before the last, and where their places count from."""
    _, _, starts, rows, columns, few = cells
    base = read(rows, 2 * row + 1, int64(0)) + read(columns, 2 * column + 1, int64(0))
    if len(few):
        return 0, len(few), base
    result = read(rows, 2 * row, int64(0)) + read(columns, 2 * column, int64(0))
    return read(starts, result, int64(0)), read(starts, result + 1, int64(0)), base


@inlined
def run_of(cells: Terms, column: int, columns: int, pixel: int) -> int:
    """How many results of a row, from ``column`` on, have the same cells, each a pixel after those before."""
    kinds = cells[4]
    for end in range(column + 1, columns):
        alike = read(kinds, 2 * end, int64(0)) == read(kinds, 2 * end - 2, int64(0))
        if not alike or read(kinds, 2 * end + 1, int64(0)) != read(kinds, 2 * end - 1, int64(0)) + pixel:
            return end - column
    return columns - column


@linked
def copy_border(
    image: Address, count: int, pixel: int, pitch: int, border: Border, adjoint: bool, like: Number
) -> None:
    """Copy to columns around a map those that its padding mode puts there, or add them to these."""
    columns, places = border
    for e in range(columns):
        k, at = read(places, 2 * e, int64(0)), read(places, 2 * e + 1, int64(0))
        for n in range(pixel):
            for row in range(n, count, pitch * pixel):
                around, value = read(image, row + k, like), read(image, row + at, like)
                write(image, row + (at if adjoint else k), value + around if adjoint else value)
