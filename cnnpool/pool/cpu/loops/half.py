"""Vectors of half-precision bits to float32 and back, rounded to nearest, ties to even."""

from typing import Any

from numba import types
from numba.core import cgutils

ir = cgutils.ir
BFLOAT16, FLOAT16 = types.uint16, types.int16
"""What kernels take their bits for."""


def vector(bits: int, like: Any) -> Any:
    """The type of as many whole numbers of so many ``bits`` as the vector ``like`` has."""
    return ir.VectorType(ir.IntType(bits), like.type.count)


def _single(like: Any) -> Any:
    return ir.VectorType(ir.FloatType(), like.type.count)


def widened(builder: Any, value: Any, like: Any) -> Any:
    """Numbers of the type of ``like``, in float32 if that is half precision."""
    if like == BFLOAT16:
        kind = vector(32, value)
        return builder.bitcast(builder.shl(builder.zext(value, kind), kind(16)), _single(value))
    return _from_float16(builder, value) if like == FLOAT16 else value


def converted(builder: Any, value: Any, like: Any, to: Any) -> Any:
    """``value``, of the type of ``like``, in the type of ``to``: the same, or one is half precision."""
    if like == to:
        return value
    if to in (BFLOAT16, FLOAT16):
        return _to_bfloat16(builder, value) if to == BFLOAT16 else _to_float16(builder, value)
    return widened(builder, value, like)


def _from_float16(builder: Any, value: Any) -> Any:
    whole, single = vector(32, value), _single(value)
    bits = builder.zext(value, whole)
    size = builder.shl(builder.and_(bits, whole(0x7FFF)), whole(13))
    # The exponent is too small by the difference of the biases: a product corrects and normalises it.
    scaled = builder.fmul(builder.bitcast(size, single), single(2.0**112))
    special = builder.icmp_unsigned(">=", size, whole(0x7C00 << 13))
    full = builder.or_(builder.bitcast(scaled, whole), builder.select(special, whole(0x7F800000), whole(0)))
    sign = builder.shl(builder.and_(bits, whole(0x8000)), whole(16))
    return builder.bitcast(builder.or_(full, sign), single)


def _to_bfloat16(builder: Any, value: Any) -> Any:
    whole, half = vector(32, value), vector(16, value)
    bits = builder.bitcast(value, whole)
    even = builder.and_(builder.lshr(bits, whole(16)), whole(1))
    rounded = builder.lshr(builder.add(bits, builder.add(whole(0x7FFF), even)), whole(16))
    nan = builder.fcmp_unordered("uno", value, value)
    return builder.trunc(builder.select(nan, whole(0x7FC0), rounded), half)


def _to_float16(builder: Any, value: Any) -> Any:
    whole, half, single = vector(32, value), vector(16, value), _single(value)
    bits = builder.bitcast(value, whole)
    sign = builder.and_(builder.lshr(bits, whole(16)), whole(0x8000))
    size = builder.and_(bits, whole(0x7FFFFFFF))
    # Below the smallest normal number, adding one half rounds to the last place.
    little = builder.fadd(builder.bitcast(size, single), single(0.5))
    subnormal = builder.sub(builder.bitcast(little, whole), whole(0x3F000000))
    even = builder.and_(builder.lshr(size, whole(13)), whole(1))
    normal = builder.lshr(builder.add(builder.add(size, whole(0xFFF - (112 << 23))), even), whole(13))
    rounded = builder.select(builder.icmp_unsigned("<", size, whole(113 << 23)), subnormal, normal)
    rounded = builder.select(builder.icmp_unsigned(">=", size, whole(143 << 23)), whole(0x7C00), rounded)
    rounded = builder.select(builder.icmp_unsigned(">", size, whole(0x7F800000)), whole(0x7E00), rounded)
    return builder.trunc(builder.or_(rounded, sign), half)
