"""Rows of a map moved to and from padded scratch memory, eight numbers at a time.

Rows of real maps are short, so they are cut into eights, the last of which overlaps the one before, and
everything else works on many padded rows at once. With a stride of 2 a row is deinterleaved: its even and odd
columns, counted with the padding, go to one half each, so that neighbouring windows' cells are adjacent.
"""

from collections.abc import Iterable
from typing import Any

from numba import types, uint16
from numba.core import cgutils

from cnnpool.pool.cpu.loops.intrinsics import alike, larger, load, load_aliased, store, store_aliased, wide
from cnnpool.pool.cpu.loops.signatures import Address, Number, compiled, intrinsic

LANES = 8
STRIP, VECTOR = 16, 32
"""Channels whose maxima are found at once, and the numbers of a long vector of bfloat16."""


def vector_at(context: Any, builder: Any, address: Any, index: Any, element: Any, lanes: int) -> Any:
    kind = context.get_data_type(element)
    pointer = builder.gep(builder.inttoptr(address, kind.as_pointer()), [index])
    return builder.bitcast(pointer, cgutils.ir.VectorType(kind, lanes).as_pointer())


def pattern(numbers: list[int]) -> Any:
    whole = cgutils.ir.IntType(32)
    return cgutils.ir.Constant(cgutils.ir.VectorType(whole, len(numbers)), numbers)


def size_of(context: Any, element: Any) -> int:
    # Vectors are loaded and stored at any multiple of one element.
    size: int = context.get_abi_sizeof(context.get_data_type(element))
    return size


@intrinsic
def _move(typing: Any, source: Any, i: Any, target: Any, k: Any, like: Any) -> Any:
    """Copy eight elements of ``source`` from ``i`` on to ``target`` from ``k`` on."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        size = size_of(context, like)
        value = builder.load(vector_at(context, builder, args[0], args[1], like, LANES), align=size)
        builder.store(value, vector_at(context, builder, args[2], args[3], like, LANES), align=size)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 4, like), generate


@intrinsic
def part_pairs(typing: Any, source: Any, i: Any, even: Any, k: Any, odd: Any, m: Any, like: Any) -> Any:
    """Copy sixteen elements of ``source`` from ``i`` on alternately to ``even`` and ``odd``."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        size = size_of(context, like)
        both = builder.load(vector_at(context, builder, args[0], args[1], like, 2 * LANES), align=size)
        for first, where in enumerate((args[2:4], args[4:6])):
            half = builder.shuffle_vector(both, both, pattern(list(range(first, 2 * LANES, 2))))
            builder.store(half, vector_at(context, builder, where[0], where[1], like, LANES), align=size)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 6, like), generate


@intrinsic
def join_pairs(typing: Any, even: Any, i: Any, odd: Any, k: Any, target: Any, m: Any, like: Any) -> Any:
    """Copy eight elements of ``even`` and of ``odd`` alternately to ``target``: undoes ``part_pairs``."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        size = size_of(context, like)
        halves = [
            builder.load(vector_at(context, builder, where[0], where[1], like, LANES), align=size)
            for where in (args[:2], args[2:4])
        ]
        turns = [place for lane in range(LANES) for place in (lane, LANES + lane)]
        both = builder.shuffle_vector(*halves, pattern(turns))
        builder.store(both, vector_at(context, builder, args[4], args[5], like, 2 * LANES), align=size)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 6, like), generate


@compiled
def move(source: Address, i: int, target: Address, k: int, count: int, like: Number) -> None:
    """Copy ``count`` elements of ``source`` from ``i`` on to ``target`` from ``k`` on."""
    if count < LANES:
        for t in range(count):
            store_aliased(target, k + t, load_aliased(source, i + t, like))
        return
    for t in range(0, count, LANES):
        t = min(t, count - LANES)
        _move(source, i + t, target, k + t, like)


@compiled
def deal(
    source: Address, i: int, width: int, target: Address, k: int, half: int, padding: int, stride: int,
    like: Number,
) -> None:  # fmt: skip
    """Deinterleave a row of ``source``: column w goes to part (w + padding) % stride of ``target``, ``half``
    apart.
    """
    if stride == 1:
        move(source, i, target, k + padding, width, like)
        return
    if stride > 2:
        part, at = padding % stride, padding // stride
        for w in range(width):
            store_aliased(target, k + part * half + at, load_aliased(source, i + w, like))
            part += 1
            if part == stride:
                part, at = 0, at + 1
        return
    pairs, turn = width // 2, padding % 2
    first, second = k + turn * half + padding // 2, k + (1 - turn) * half + (padding + 1) // 2
    if pairs < LANES:
        for t in range(pairs):
            store_aliased(target, first + t, load_aliased(source, i + 2 * t, like))
            store_aliased(target, second + t, load_aliased(source, i + 2 * t + 1, like))
    else:
        for t in range(0, pairs, LANES):
            t = min(t, pairs - LANES)
            part_pairs(source, i + 2 * t, target, first + t, target, second + t, like)
    if width % 2:
        store_aliased(target, first + pairs, load_aliased(source, i + width - 1, like))


@compiled
def gather(
    source: Address, i: int, half: int, target: Address, k: int, width: int, padding: int, stride: int,
    like: Number,
) -> None:  # fmt: skip
    """Interleave the parts of ``source`` into a row, the inverse of ``deal``."""
    if stride == 1:
        move(source, i + padding, target, k, width, like)
        return
    if stride > 2:
        part, at = padding % stride, padding // stride
        for w in range(width):
            store(target, k + w, load(source, i + part * half + at, like))
            part += 1
            if part == stride:
                part, at = 0, at + 1
        return
    pairs, turn = width // 2, padding % 2
    first, second = i + turn * half + padding // 2, i + (1 - turn) * half + (padding + 1) // 2
    if pairs < LANES:
        for t in range(pairs):
            store(target, k + 2 * t, load(source, first + t, like))
            store(target, k + 2 * t + 1, load(source, second + t, like))
    else:
        for t in range(0, pairs, LANES):
            t = min(t, pairs - LANES)
            join_pairs(source, first + t, source, second + t, target, k + 2 * t, like)
    if width % 2:
        store_aliased(target, k + width - 1, load_aliased(source, first + pairs, like))


@compiled
def suit(channels: int, like: Number) -> bool:
    """Whether strips are faster than a loop over the channels: in bfloat16, if its vectors of 32 leave a
    remainder.
    """
    return alike(uint16(0), like) and channels >= STRIP and channels % VECTOR != 0


def _bytes(lanes: int, number: int) -> Any:
    return cgutils.ir.Constant(cgutils.ir.VectorType(cgutils.ir.IntType(8), lanes), [number] * lanes)


def _first_best(builder: Any, like: Any, cells: Iterable[Any], lanes: int) -> tuple[Any, Any]:
    """The maximum of vectors, and the index of the winner, a byte each, by the rule of ``beats``; each is
    loaded just before it is compared, since registers would not hold nine at once.
    """
    best = largest = place = None
    for n, value in enumerate(cells):
        among = value if isinstance(like, types.Float) else wide(builder, value)
        if n == 0:
            best, largest, place = value, among, _bytes(lanes, 0)
            continue
        take = larger(builder, among, largest)
        best, largest = builder.select(take, value, best), builder.select(take, among, largest)
        place = builder.select(take, _bytes(lanes, n), place)
    return best, place


@intrinsic
def best_of(typing: Any, x: Any, cells: Any, y: Any, winners: Any, out: Any, like: Any) -> Any:
    """The maxima of ``cells``, where a strip begins in each, and the winners, by the rule of ``beats``."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if like != types.uint16:
            # Branches that are never taken are compiled too.
            return context.get_dummy_value()
        x, starts, y, winners, out, _ = args
        size = size_of(context, like)
        cells = (
            builder.load(vector_at(context, builder, x, start, like, STRIP), align=size)
            for start in cgutils.unpack_tuple(builder, starts)
        )
        best, place = _first_best(builder, like, cells, STRIP)
        builder.store(best, vector_at(context, builder, y, out, like, STRIP), align=size)
        builder.store(place, vector_at(context, builder, winners, out, types.uint8, STRIP), align=1)
        return context.get_dummy_value()

    return types.void(types.int64, cells, *[types.int64] * 3, like), generate


def _best_of_tiles(lanes: int) -> Any:
    """The maxima and the winners of ``lanes`` neighbouring tiles of 2x2: the compiler leaves short rows
    scalar.
    """

    def best(typing: Any, x: Any, upper: Any, lower: Any, y: Any, winners: Any, out: Any, like: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            if like == types.int16:
                # Branches that are never taken are compiled too.
                return context.get_dummy_value()
            size, cells = size_of(context, like), []
            for row in args[1:3]:
                both = builder.load(vector_at(context, builder, args[0], row, like, 2 * lanes), align=size)
                for first in (0, 1):
                    places = pattern(list(range(first, 2 * lanes, 2)))
                    cells.append(builder.shuffle_vector(both, both, places))
            value, place = _first_best(builder, like, cells, lanes)
            builder.store(value, vector_at(context, builder, args[3], args[5], like, lanes), align=size)
            builder.store(place, vector_at(context, builder, args[4], args[5], types.uint8, lanes), align=1)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 6, like), generate

    return intrinsic(best)


def _gradient_of_tiles(lanes: int) -> Any:
    """The gradients of one row of ``lanes`` neighbouring tiles of 2x2."""
    turns = pattern([place for lane in range(lanes) for place in (lane, lanes + lane)])

    def given(
        typing: Any, grad: Any, winners: Any, source: Any, out: Any, target: Any, half: Any, zero: Any
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            size = size_of(context, zero)
            value = builder.load(vector_at(context, builder, args[0], args[2], zero, lanes), align=size)
            place = builder.load(vector_at(context, builder, args[1], args[2], types.uint8, lanes), align=1)
            nothing = cgutils.ir.Constant(value.type, [0] * lanes)
            # Winners are 0 and 1 in the upper row of a tile, 2 and 3 in the lower one.
            lower = builder.trunc(args[5], cgutils.ir.IntType(1))
            sides = []
            for column in (0, 1):
                mine = builder.select(lower, _bytes(lanes, 2 + column), _bytes(lanes, column))
                sides.append(builder.select(builder.icmp_unsigned("==", place, mine), value, nothing))
            both = builder.shuffle_vector(*sides, turns)
            builder.store(both, vector_at(context, builder, args[3], args[4], zero, 2 * lanes), align=size)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 6, zero), generate

    return intrinsic(given)


FEW = LANES // 2
best_of_eight_tiles, gradient_of_eight_tiles = _best_of_tiles(LANES), _gradient_of_tiles(LANES)
best_of_four_tiles, gradient_of_four_tiles = _best_of_tiles(FEW), _gradient_of_tiles(FEW)
