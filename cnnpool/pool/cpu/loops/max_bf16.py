"""Maxima of sixteen channels at once, for numbers of channels that longer vectors do not divide.

For bfloat16, whose vectors hold 32: a loop over 16 or 48 channels leaves a remainder to vectors of eight.
"""

from typing import Any

from numba import types, uint16
from numba.core import cgutils

from cnnpool.pool.cpu.compiling import compiled
from cnnpool.pool.cpu.loops.intrinsics import alike, larger, wide
from cnnpool.pool.cpu.loops.signatures import Number, intrinsic
from cnnpool.pool.cpu.loops.simd_rows import size_of, vector_at

STRIP, VECTOR = 16, 32


@compiled
def suit(channels: int, like: Number) -> bool:
    """Whether strips are faster than a loop over the channels."""
    return alike(uint16(0), like) and channels >= STRIP and channels % VECTOR != 0


@intrinsic
def best_of(typing: Any, x: Any, cells: Any, y: Any, winners: Any, out: Any, like: Any) -> Any:
    """The maxima of ``cells``, where a strip begins in each, and which cell wins, as ``beats`` has it."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if like != types.uint16:
            # Branches that are never taken are compiled too.
            return context.get_dummy_value()
        x, starts, y, winners, out, _ = args
        size, byte = size_of(context, like), cgutils.ir.VectorType(cgutils.ir.IntType(8), STRIP)
        best = number = place = None
        for n, start in enumerate(cgutils.unpack_tuple(builder, starts)):
            value = builder.load(vector_at(context, builder, x, start, like, STRIP), align=size)
            among, here = wide(builder, value), cgutils.ir.Constant(byte, [n] * STRIP)
            if best is None:
                best, number, place = value, among, here
                continue
            take = larger(builder, among, number)
            best, number = builder.select(take, value, best), builder.select(take, among, number)
            place = builder.select(take, here, place)
        builder.store(best, vector_at(context, builder, y, out, like, STRIP), align=size)
        builder.store(place, vector_at(context, builder, winners, out, types.uint8, STRIP), align=1)
        return context.get_dummy_value()

    return types.void(types.int64, cells, *[types.int64] * 3, like), generate
