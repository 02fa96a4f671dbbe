"""Weighted sums of rows, split into even and odd columns or joined from them, without leaving registers.

Rows of real maps are short: loops over them that a compiler vectorises spend their time on checks for
overlapping addresses and on remainders. So a row is cut into stretches of 16, the last of which overlaps the
one before it, and sums have up to three terms.
"""

from typing import Any

from numba import int64, types
from numba.core import cgutils

from cnnpool.pool.cpu.compiling import compiled
from cnnpool.pool.cpu.loops.intrinsics import load, store_aliased
from cnnpool.pool.cpu.loops.signatures import Address, Number, Table, intrinsic
from cnnpool.pool.cpu.loops.simd_rows import LANES, pattern, size_of, vector_at

SPAN = 2 * LANES
"""Length of the shortest row that is cut so."""
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
    """Sixteen sums, in turn to ``even`` and ``odd`` from ``k`` on."""

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
    """Eight sums of what is at ``even`` and eight of ``odd``, in turn to ``target`` from ``k`` on."""

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
    """Of ``table``'s first ``count`` sums the largest number of terms."""
    starts, most = table[0], 0
    for result in range(count):
        most = max(most, load(starts, result + 1, int64(0)) - load(starts, result, int64(0)))
    return most


@compiled
def mix_apart(
    source: Address, origin: int, width: int, table: Table, result: int, even: Address, odd: Address, k: int,
    like: Number,
) -> None:  # fmt: skip
    """Sum ``result`` of ``table``, of rows of ``source`` from ``origin`` on, to ``even`` and ``odd``.

    ``width``: of a row, even, at least ``SPAN``; a sum has at most ``TERMS`` terms.
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
    """Sum ``result`` of ``table``, of rows of ``even`` and of ``odd``, in turn to ``target`` from ``k`` on.

    ``pitch``: of their rows, at least half of ``SPAN``; a sum has at most ``TERMS`` terms.
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
