"""Rows of a map moved to and from padded scratch memory, eight numbers at a time.

Rows of real maps are short, so they are cut into eights, the last of which overlaps the one before, and
everything else works on many padded rows at once. With a stride of 2 a row is deinterleaved: its even and odd
columns, counted with the padding, go to one half each, so that neighbouring windows' cells are adjacent.
"""

from typing import Any

from numba import types
from numba.core import cgutils

from cnnpool.pool.cpu.loops.intrinsics import load, load_aliased, store, store_aliased
from cnnpool.pool.cpu.loops.signatures import Address, Number, compiled, intrinsic

LANES = 8


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
