"""Weighted sums of stretches of memory; a table lists the places and weights of every result."""

from numba import int64

from cnnpool.pool.cpu.loops.intrinsics import load, load_aliased, narrow, store, store_aliased, widen
from cnnpool.pool.cpu.loops.signatures import Address, Number, Table, compiled


@compiled
def _put(target: Address, t: int, value: Number, rounded: Number) -> None:
    # Store to memory that is read again or, if ``rounded``, to the result in its type.
    if rounded is None:
        store_aliased(target, t, value)
    else:
        store(target, t, narrow(value, rounded))


@compiled
def mix(
    source: Address, origin: int, pitch: int, table: Table, result: int, target: Address, at: int, count: int,
    total: Number, like: Number, rounded: Number, spare: Address,
) -> None:  # fmt: skip
    """Write the weighted sum of the stretches of ``result``, ``pitch`` elements apart in ``source``, to
    ``target`` from ``at`` on; more than three are summed in ``spare``, which may be the target.
    """
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
        store_aliased(spare, t, value + wc * widen(load(source, c + t, like)))
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
            store_aliased(spare, t, load_aliased(spare, t, total) + wa * widen(load(source, a + t, like)))


@compiled
def mix_column(
    source: Address, origin: int, pitch: int, half: int, table: Table, result: int, target: Address,
    rows: int, total: Number,
) -> None:  # fmt: skip
    """``mix`` for single numbers of all rows; odd places lie ``half`` after the even ones, if not 0."""
    starts, places, weights = table
    for row in range(rows):
        store_aliased(target, row, total)
    for entry in range(load(starts, result, int64(0)), load(starts, result + 1, int64(0))):
        place, weight = load(places, entry, int64(0)), load(weights, entry, total)
        at = origin + (place % 2 * half + place // 2 if half else place)
        for row in range(rows):
            value = weight * load(source, at + row * pitch, total)
            store_aliased(target, row, load_aliased(target, row, total) + value)


@compiled
def divide(
    source: Address, at: int, divisors: Address, target: Address, count: int, total: Number, like: Number
) -> None:
    """Convert ``count`` numbers from ``at`` on to the type of ``total``; divide by ``divisors`` if given."""
    if divisors:
        for t in range(count):
            store_aliased(target, t, widen(load(source, at + t, like)) / load(divisors, t, total))
    else:
        for t in range(count):
            store_aliased(target, t, widen(load(source, at + t, like)))
