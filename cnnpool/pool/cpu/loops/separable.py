"""Sums over windows with a weight per row and per column: averages and blurs, and their adjoints.

Both axes are given as tables: for every result the pixels that it sums, with their weights. The rows of a map
are mixed first (last in the adjoint). Columns of contiguous maps whose width is a multiple of the stride are
mixed for a whole plane at once, as if they had no ends; the few results that reach past an end are then
computed again.
"""

from numba import int64

from cnnpool.pool.cpu.disk_cache import compiled
from cnnpool.pool.cpu.loops.intrinsics import (
    alike,
    keep,
    load,
    narrow,
    recall,
    store,
    widen,
)
from cnnpool.pool.cpu.loops.separable_simd import SPAN, TERMS, mix_apart, mix_joined, most_terms
from cnnpool.pool.cpu.loops.signatures import Address, Number, Pair, Table
from cnnpool.pool.cpu.loops.simd_rows import deal, gather


@compiled
def _put(target: Address, t: int, value: Number, rounded: Number) -> None:
    # To memory that is read again; or, if ``rounded``, to the result in its type.
    if rounded is None:
        keep(target, t, value)
    else:
        store(target, t, narrow(value, rounded))


@compiled
def _mix(
    source: Address, origin: int, pitch: int, table: Table, result: int, target: Address, at: int, count: int,
    total: Number, like: Number, rounded: Number, spare: Address,
) -> None:  # fmt: skip
    # The weighted sum of the stretches that ``result`` is made of, ``pitch`` elements apart in ``source``, to
    # ``target`` from ``at`` on; by way of ``spare``, which may be the target, if they are more than three.
    starts, places, weights = table
    entry, end = load(starts, result, int64(0)), load(starts, result + 1, int64(0))
    if entry == end:
        for t in range(count):
            _put(target, at + t, total, rounded)
        return
    a, wa = origin + load(places, entry, int64(0)) * pitch, load(weights, entry, total)
    if end - entry == 1:
        for t in range(count):
            _put(target, at + t, wa * widen(load(source, a + t, like)), rounded)
        return
    b, wb = origin + load(places, entry + 1, int64(0)) * pitch, load(weights, entry + 1, total)
    if end - entry == 2:
        for t in range(count):
            value = wa * widen(load(source, a + t, like)) + wb * widen(load(source, b + t, like))
            _put(target, at + t, value, rounded)
        return
    c, wc = origin + load(places, entry + 2, int64(0)) * pitch, load(weights, entry + 2, total)
    if end - entry == 3:
        for t in range(count):
            value = wa * widen(load(source, a + t, like)) + wb * widen(load(source, b + t, like))
            _put(target, at + t, value + wc * widen(load(source, c + t, like)), rounded)
        return
    for t in range(count):
        value = wa * widen(load(source, a + t, like)) + wb * widen(load(source, b + t, like))
        keep(spare, t, value + wc * widen(load(source, c + t, like)))
    _mix_more(source, origin, pitch, table, entry + 3, end, count, total, like, spare)
    if rounded is not None:
        for t in range(count):
            store(target, at + t, narrow(load(spare, t, total), rounded))


@compiled
def _mix_more(
    source: Address, origin: int, pitch: int, table: Table, entry: int, end: int, count: int, total: Number,
    like: Number, spare: Address,
) -> None:  # fmt: skip
    for more in range(entry, end):
        a, wa = origin + load(table[1], more, int64(0)) * pitch, load(table[2], more, total)
        for t in range(count):
            keep(spare, t, recall(spare, t, total) + wa * widen(load(source, a + t, like)))


@compiled
def _sum(
    source: Address, origin: int, pitch: int, half: int, table: Table, result: int, target: Address,
    rows: int, total: Number,
) -> None:  # fmt: skip
    # As ``_mix``, of single numbers of all rows; odd places lie ``half`` behind the even ones, if not 0.
    starts, places, weights = table
    for row in range(rows):
        keep(target, row, total)
    for entry in range(load(starts, result, int64(0)), load(starts, result + 1, int64(0))):
        place, weight = load(places, entry, int64(0)), load(weights, entry, total)
        at = origin + (place % 2 * half + place // 2 if half else place)
        for row in range(rows):
            keep(target, row, recall(target, row, total) + weight * load(source, at + row * pitch, total))


@compiled
def _divide(
    source: Address, at: int, divisors: Address, target: Address, count: int, total: Number, like: Number
) -> None:
    if divisors:
        for t in range(count):
            keep(target, t, widen(load(source, at + t, like)) / load(divisors, t, total))
    else:
        for t in range(count):
            keep(target, t, widen(load(source, at + t, like)))


@compiled
def forward(
    start: int, stop: int, scratch: Address, x: Address, y: Address, size: Pair, out_size: Pair, down: Table,
    across: Table, common: Table, ends: tuple[int, int, int], divisors: Address, room: tuple[int, ...],
    total: Number, like: Number,
) -> None:  # fmt: skip
    """Contiguous maps, planes ``start`` to ``stop``.

    ``down`` and ``across`` are the tables of rows and columns; ``common`` that of a column away from the
    ends, or nothing if ``ends``, the stride and the results that reach past the left and the right end,
    begins with 0.
    """
    (height, width), (rows, columns), (stride, left, right) = size, out_size, ends
    wide, mixed, dealt, sums, whole = room
    mixed, dealt, sums, whole = scratch + mixed, scratch + dealt, scratch + sums, scratch + whole
    count, anew = rows * columns, left + right if stride else columns
    mixed_rows, pitch, half = (dealt, columns, count) if stride == 2 else (mixed, width, 0)
    at_once = stride == 2 and width >= SPAN and most_terms(down, rows) <= TERMS
    for plane in range(start, stop):
        source, first, at = x, plane * height * width, plane * count
        if not alike(total, like):
            _divide(x, first, 0, whole, height * width, total, like)
            source, first = whole, 0
        for row in range(rows):
            if at_once:
                mix_apart(source, first, width, down, row, dealt, dealt + count * wide, row * columns, total)
            else:
                line = mixed + row * width * wide
                _mix(source, first, width, down, row, line, 0, width, total, total, None, line)
        if stride == 2 and not at_once:
            deal(mixed, 0, rows * width, dealt, 0, count, 0, stride, total)
        if stride:
            _mix(mixed_rows, 0, 1, common, 0, sums, 0, count, total, total, None, sums)
        for end in range(anew):
            c = end if end < left else end + columns - anew
            _sum(mixed_rows, 0, pitch, half, across, c, whole, rows, total)
            for row in range(rows):
                keep(sums, row * columns + c, load(whole, row, total))
        if divisors:
            for t in range(count):
                store(y, at + t, narrow(load(sums, t, total) / load(divisors, t, total), like))
        else:
            for t in range(count):
                store(y, at + t, narrow(load(sums, t, total), like))


@compiled
def _put_column(
    column: Address, dealt: Address, mixed: Address, w: int, stride: int, rows: int, columns: int,
    width: int, total: Number,
) -> None:  # fmt: skip
    # A column of the map: with a stride of 2, whose columns are dealt, among the even ones or the odd ones.
    for row in range(rows):
        if stride == 2:
            keep(dealt, w % 2 * rows * columns + row * columns + w // 2, load(column, row, total))
        else:
            keep(mixed, row * width + w, load(column, row, total))


@compiled
def adjoint(
    start: int, stop: int, scratch: Address, grad: Address, out: Address, size: Pair, out_size: Pair,
    down: Table, across: Table, common: Table, ends: tuple[int, int, int], divisors: Address,
    room: tuple[int, ...], total: Number, like: Number,
) -> None:  # fmt: skip
    """As ``forward``, from gradients of outputs to those of inputs; the tables are those of the inputs."""
    (height, width), (rows, columns), (stride, left, right) = size, out_size, ends
    wide, mixed, dealt, sums, whole = room
    mixed, dealt, sums, whole = scratch + mixed, scratch + dealt, scratch + sums, scratch + whole
    count, anew, odd = rows * columns, left + right if stride else width, dealt + rows * columns * wide
    at_once = stride == 2 and width >= SPAN and most_terms(down, height) <= TERMS
    for plane in range(start, stop):
        source, first, at = grad, plane * count, plane * height * width
        if divisors or not alike(total, like):
            _divide(grad, first, divisors, sums, count, total, like)
            source, first = sums, 0
        if stride == 1:
            _mix(source, first, 1, common, 0, mixed, 0, count, total, total, None, mixed)
        elif stride:
            _mix(source, first, 1, common, 0, dealt, 0, count, total, total, None, dealt)
            _mix(source, first, 1, common, 1, odd, 0, count, total, total, None, odd)
        for end in range(anew):
            w = end if end < left else end + width - anew
            _sum(source, first, columns, 0, across, w, whole, rows, total)
            _put_column(whole, dealt, mixed, w, stride, rows, columns, width, total)
        if at_once:
            target, k = (out, at) if alike(total, like) else (whole, 0)
            for h in range(height):
                mix_joined(dealt, odd, columns, down, h, target, k + h * width, total)
            if alike(total, like):
                continue
        else:
            if stride == 2:
                gather(dealt, 0, count, mixed, 0, rows * width, 0, stride, total)
            for h in range(height):
                line = whole + h * width * wide
                _mix(mixed, 0, width, down, h, line, 0, width, total, total, None, line)
        for t in range(height * width):
            store(out, at + t, narrow(load(whole, t, total), like))


@compiled
def forward_last(
    start: int, stop: int, scratch: Address, x: Address, y: Address, size: Pair, out_size: Pair,
    channels: int, down: Table, across: Table, divisors: Address, room: tuple[int, ...], total: Number,
    like: Number,
) -> None:  # fmt: skip
    """Channels-last maps, rows ``start`` to ``stop`` of all samples' outputs."""
    (height, width), (rows, columns) = size, out_size
    mixed, sums = scratch + room[1], scratch + room[2]
    for line in range(start, stop):
        sample, row = line // rows, line % rows
        stretch = width * channels
        _mix(x, sample * height * stretch, stretch, down, row, mixed, 0, stretch, total, like, None, mixed)
        for c in range(columns):
            at = (line * columns + c) * channels
            if divisors:
                _mix(mixed, 0, channels, across, c, sums, 0, channels, total, total, None, sums)
                divisor = load(divisors, row * columns + c, total)
                for k in range(channels):
                    store(y, at + k, narrow(load(sums, k, total) / divisor, like))
            else:
                _mix(mixed, 0, channels, across, c, y, at, channels, total, total, like, sums)


@compiled
def adjoint_last(
    start: int, stop: int, scratch: Address, grad: Address, out: Address, size: Pair, out_size: Pair,
    channels: int, down: Table, across: Table, divisors: Address, room: tuple[int, ...], total: Number,
    like: Number,
) -> None:  # fmt: skip
    """Channels-last maps, samples ``start`` to ``stop``."""
    (height, width), (rows, columns) = size, out_size
    scaled, mixed, sums = scratch + room[1], scratch + room[2], scratch + room[3]
    stretch = columns * channels
    for sample in range(start, stop):
        source, first = grad, sample * rows * stretch
        if divisors or not alike(total, like):
            _divide(grad, first, 0, scaled, 0 if divisors else rows * stretch, total, like)
            for pixel in range(rows * columns if divisors else 0):
                divisor, at = load(divisors, pixel, total), pixel * channels
                for k in range(channels):
                    keep(scaled, at + k, widen(load(grad, first + at + k, like)) / divisor)
            source, first = scaled, 0
        for h in range(height):
            _mix(source, first, stretch, down, h, mixed, 0, stretch, total, total, None, mixed)
            for w in range(width):
                at = ((sample * height + h) * width + w) * channels
                _mix(mixed, 0, channels, across, w, out, at, channels, total, total, like, sums)
