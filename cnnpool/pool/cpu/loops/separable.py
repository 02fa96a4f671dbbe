"""Sums over windows with a weight per row and per column: averages and blurs, and their adjoints.

Tables give for every result of an axis the pixels that it sums, with their weights. The rows of a map are
mixed first (last in the adjoint). Columns of contiguous maps whose width is a multiple of the stride are
mixed for a whole plane at once, as if they had no ends; the few results that reach past an end are computed
again.

On short rows a compiler's vector loops spend their time on remainders. So with a stride of 2 a row is cut
into stretches of 16, the last of which overlaps the one before it, and is split into even and odd columns or
joined from them without leaving registers, as sums of up to three terms.
"""

from typing import Any

from numba import int64, types
from numba.core import cgutils

from cnnpool.pool.cpu.loops.intrinsics import alike, load, narrow, store, store_aliased, widen
from cnnpool.pool.cpu.loops.mixing import divide, mix, mix_column
from cnnpool.pool.cpu.loops.signatures import Address, Number, Pair, Table, compiled, intrinsic
from cnnpool.pool.cpu.loops.simd_rows import LANES, deal, gather, pattern, size_of, vector_at

SPAN = 2 * LANES
"""Length of the shortest row that is cut in this way."""
TERMS = 3


def _sum(
    context: Any, builder: Any, source: Any, places: list[Any], weights: list[Any], like: Any, lanes: int
) -> Any:
    """The sum of each of ``weights`` times the ``lanes`` numbers of ``source`` at its place."""
    vector = cgutils.ir.VectorType(context.get_value_type(like), lanes)
    unknown, total = vector(cgutils.ir.Undefined), None
    for place, weight in zip(places, weights, strict=True):
        one = builder.insert_element(unknown, weight, cgutils.ir.IntType(32)(0))
        spread = builder.shuffle_vector(one, unknown, pattern([0] * lanes))
        address = vector_at(context, builder, source, place, like, lanes)
        term = builder.fmul(spread, builder.load(address, align=size_of(context, like)))
        total = term if total is None else builder.fadd(total, term)
    return total


@intrinsic
def _part(typing: Any, source: Any, places: Any, weights: Any, even: Any, odd: Any, k: Any, like: Any) -> Any:
    """Write sixteen sums alternately to ``even`` and ``odd`` from ``k`` on."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        places, weights = (cgutils.unpack_tuple(builder, several) for several in args[1:3])
        both = _sum(context, builder, args[0], places, weights, like, SPAN)
        for first, target in enumerate(args[3:5]):
            half = builder.shuffle_vector(both, both, pattern(list(range(first, SPAN, 2))))
            address = vector_at(context, builder, target, args[5], like, LANES)
            builder.store(half, address, align=size_of(context, like))
        return context.get_dummy_value()

    return types.void(int64, places, weights, int64, int64, int64, like), generate


@intrinsic
def _join(typing: Any, even: Any, odd: Any, places: Any, weights: Any, target: Any, k: Any, like: Any) -> Any:
    """Write eight sums of ``even`` and eight of ``odd`` alternately to ``target`` from ``k`` on."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        places, weights = (cgutils.unpack_tuple(builder, several) for several in args[2:4])
        halves = [_sum(context, builder, source, places, weights, like, LANES) for source in args[:2]]
        both = builder.shuffle_vector(*halves, pattern([p for n in range(LANES) for p in (n, LANES + n)]))
        address = vector_at(context, builder, args[4], args[5], like, SPAN)
        builder.store(both, address, align=size_of(context, like))
        return context.get_dummy_value()

    return types.void(int64, int64, places, weights, int64, int64, like), generate


@compiled
def most_terms(table: Table, count: int) -> int:
    """The largest number of terms in the first ``count`` sums of ``table``."""
    starts, most = table[0], 0
    for result in range(count):
        most = max(most, load(starts, result + 1, int64(0)) - load(starts, result, int64(0)))
    return most


@compiled
def mix_apart(
    source: Address, origin: int, width: int, table: Table, result: int, even: Address, odd: Address, k: int,
    like: Number,
) -> None:  # fmt: skip
    """Write sum ``result`` of ``table``, of at most ``TERMS`` rows of ``source`` from ``origin`` on, of an
    even ``width`` of at least ``SPAN``, to ``even`` and ``odd``.
    """
    starts, places, weights = table
    entry, end, half = load(starts, result, int64(0)), load(starts, result + 1, int64(0)), width // 2
    if entry == end:
        for t in range(half):
            store_aliased(even, k + t, like)
            store_aliased(odd, k + t, like)
        return
    a, wa = origin + load(places, entry, int64(0)) * width, load(weights, entry, like)
    if end - entry == 1:
        for t in range(0, half, LANES):
            t = min(t, half - LANES)
            _part(source, (a + 2 * t,), (wa,), even, odd, k + t, like)
        return
    b, wb = origin + load(places, entry + 1, int64(0)) * width, load(weights, entry + 1, like)
    if end - entry == 2:
        for t in range(0, half, LANES):
            t = min(t, half - LANES)
            _part(source, (a + 2 * t, b + 2 * t), (wa, wb), even, odd, k + t, like)
        return
    c, wc = origin + load(places, entry + 2, int64(0)) * width, load(weights, entry + 2, like)
    for t in range(0, half, LANES):
        t = min(t, half - LANES)
        _part(source, (a + 2 * t, b + 2 * t, c + 2 * t), (wa, wb, wc), even, odd, k + t, like)


@compiled
def mix_joined(
    even: Address, odd: Address, pitch: int, table: Table, result: int, target: Address, k: int, like: Number
) -> None:
    """Write sum ``result`` of ``table``, of at most ``TERMS`` rows of ``even`` and ``odd`` in turn, ``pitch``
    apart, at least half of ``SPAN``, to ``target`` from ``k``.
    """
    starts, places, weights = table
    entry, end = load(starts, result, int64(0)), load(starts, result + 1, int64(0))
    if entry == end:
        for t in range(2 * pitch):
            store_aliased(target, k + t, like)
        return
    a, wa = load(places, entry, int64(0)) * pitch, load(weights, entry, like)
    if end - entry == 1:
        for t in range(0, pitch, LANES):
            t = min(t, pitch - LANES)
            _join(even, odd, (a + t,), (wa,), target, k + 2 * t, like)
        return
    b, wb = load(places, entry + 1, int64(0)) * pitch, load(weights, entry + 1, like)
    if end - entry == 2:
        for t in range(0, pitch, LANES):
            t = min(t, pitch - LANES)
            _join(even, odd, (a + t, b + t), (wa, wb), target, k + 2 * t, like)
        return
    c, wc = load(places, entry + 2, int64(0)) * pitch, load(weights, entry + 2, like)
    for t in range(0, pitch, LANES):
        t = min(t, pitch - LANES)
        _join(even, odd, (a + t, b + t, c + t), (wa, wb, wc), target, k + 2 * t, like)


@compiled
def forward(
    start: int, stop: int, scratch: Address, x: Address, y: Address, size: Pair, out_size: Pair, down: Table,
    across: Table, common: Table, ends: tuple[int, int, int], divisors: Address, room: tuple[int, ...],
    total: Number, like: Number,
) -> None:  # fmt: skip
    """Contiguous maps, planes ``start`` to ``stop``; ``common`` is the table of a column away from the ends,
    or nothing if ``ends``, the stride and the results past the left and the right end, begins with 0.
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
            divide(x, first, 0, whole, height * width, total, like)
            source, first = whole, 0
        for row in range(rows):
            if at_once:
                mix_apart(source, first, width, down, row, dealt, dealt + count * wide, row * columns, total)
            else:
                line = mixed + row * width * wide
                mix(source, first, width, down, row, line, 0, width, total, total, None, line)
        if stride == 2 and not at_once:
            deal(mixed, 0, rows * width, dealt, 0, count, 0, stride, total)
        if stride:
            mix(mixed_rows, 0, 1, common, 0, sums, 0, count, total, total, None, sums)
        for end in range(anew):
            c = end if end < left else end + columns - anew
            mix_column(mixed_rows, 0, pitch, half, across, c, whole, rows, total)
            for row in range(rows):
                store_aliased(sums, row * columns + c, load(whole, row, total))
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
    # A column of the map; with a stride of 2, which deinterleaves columns, among the even or the odd ones.
    for row in range(rows):
        if stride == 2:
            store_aliased(dealt, w % 2 * rows * columns + row * columns + w // 2, load(column, row, total))
        else:
            store_aliased(mixed, row * width + w, load(column, row, total))


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
            divide(grad, first, divisors, sums, count, total, like)
            source, first = sums, 0
        if stride == 1:
            mix(source, first, 1, common, 0, mixed, 0, count, total, total, None, mixed)
        elif stride:
            mix(source, first, 1, common, 0, dealt, 0, count, total, total, None, dealt)
            mix(source, first, 1, common, 1, odd, 0, count, total, total, None, odd)
        for end in range(anew):
            w = end if end < left else end + width - anew
            mix_column(source, first, columns, 0, across, w, whole, rows, total)
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
                mix(mixed, 0, width, down, h, line, 0, width, total, total, None, line)
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
        mix(x, sample * height * stretch, stretch, down, row, mixed, 0, stretch, total, like, None, mixed)
        for c in range(columns):
            at = (line * columns + c) * channels
            if divisors:
                mix(mixed, 0, channels, across, c, sums, 0, channels, total, total, None, sums)
                divisor = load(divisors, row * columns + c, total)
                for k in range(channels):
                    store(y, at + k, narrow(load(sums, k, total) / divisor, like))
            else:
                mix(mixed, 0, channels, across, c, y, at, channels, total, total, like, sums)


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
            divide(grad, first, 0, scaled, 0 if divisors else rows * stretch, total, like)
            for pixel in range(rows * columns if divisors else 0):
                divisor, at = load(divisors, pixel, total), pixel * channels
                for k in range(channels):
                    store_aliased(scaled, at + k, widen(load(grad, first + at + k, like)) / divisor)
            source, first = scaled, 0
        for h in range(height):
            mix(source, first, stretch, down, h, mixed, 0, stretch, total, total, None, mixed)
            for w in range(width):
                at = ((sample * height + h) * width + w) * channels
                mix(mixed, 0, channels, across, w, out, at, channels, total, total, like, sums)
