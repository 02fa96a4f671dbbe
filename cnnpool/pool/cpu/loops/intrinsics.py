"""Building blocks of compiled kernels: typed memory access, and arithmetic on half-precision bits.

A kernel takes addresses, and a ``like`` of the element's type: float32, float64, or the bits of half
precision, uint16 for bfloat16 and int16 for float16. ``load`` and ``store`` are for memory that a kernel only
reads or only writes, all other goes through ``load_aliased`` and ``store_aliased``: so the compiler
vectorises loops without asking at run time whether two addresses overlap.
"""

from collections.abc import Callable
from typing import Any

from numba import types
from numba.core import cgutils

from cnnpool.pool.cpu.loops.signatures import intrinsic

INFINITY = {types.uint16: 0x7F80, types.int16: 0x7C00}


def _scopes(module: Any) -> tuple[Any, Any]:
    domain = module.add_metadata(["cnnpool"])
    read, written = (module.add_metadata([name, domain]) for name in ("read", "written"))
    return module.add_metadata([read]), module.add_metadata([written])


def _pointer(context: Any, builder: Any, address: Any, index: Any, element: Any) -> Any:
    kind = context.get_data_type(element)
    return builder.gep(builder.inttoptr(address, kind.as_pointer()), [index])


def _loading(scoped: bool) -> Callable[[Any, int, int, Any], Any]:
    def load(typing: Any, address: Any, index: Any, like: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            value = builder.load(_pointer(context, builder, args[0], args[1], like))
            if scoped:
                read, written = _scopes(builder.module)
                value.set_metadata("alias.scope", read)
                value.set_metadata("noalias", written)
            return value

        return like(types.int64, types.int64, like), generate

    return load


def _storing(scoped: bool) -> Callable[[Any, int, int, Any], Any]:
    def store(typing: Any, address: Any, index: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            done = builder.store(args[2], _pointer(context, builder, args[0], args[1], value))
            if scoped:
                read, written = _scopes(builder.module)
                done.set_metadata("alias.scope", written)
                done.set_metadata("noalias", read)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, value), generate

    return store


load, load_aliased = intrinsic(_loading(True)), intrinsic(_loading(False))
store, store_aliased = intrinsic(_storing(True)), intrinsic(_storing(False))


def wide(builder: Any, bits: Any) -> Any:
    """The float32 whose upper half is a bfloat16, or a vector of them."""
    whole, number = cgutils.ir.IntType(32), cgutils.ir.FloatType()
    places = whole(16)
    if isinstance(bits.type, cgutils.ir.VectorType):
        whole, number = (cgutils.ir.VectorType(kind, bits.type.count) for kind in (whole, number))
        places = cgutils.ir.Constant(whole, [16] * bits.type.count)
    return builder.bitcast(builder.shl(builder.zext(bits, whole), places), number)


@intrinsic
def widen(typing: Any, value: Any) -> Any:
    """``value`` in its arithmetic type: float32 for half-precision bits, else unchanged."""

    def same(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return args[0]

    def of_bfloat16(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return wide(builder, args[0])

    def of_float16(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        whole, number = (context.get_value_type(t) for t in (types.int32, types.float32))
        bits = builder.zext(args[0], whole)
        size = builder.shl(builder.and_(bits, whole(0x7FFF)), whole(13))
        # The exponent is too small by the difference of the biases: a product corrects and normalises it.
        scaled = builder.fmul(builder.bitcast(size, number), number(2.0**112))
        special = builder.icmp_unsigned(">=", size, whole(INFINITY[types.int16] << 13))
        full = builder.or_(
            builder.bitcast(scaled, whole), builder.select(special, whole(0x7F800000), whole(0))
        )
        sign = builder.shl(builder.and_(bits, whole(0x8000)), whole(16))
        return builder.bitcast(builder.or_(full, sign), number)

    if isinstance(value, types.Float):
        return value(value), same
    return types.float32(value), of_bfloat16 if value == types.uint16 else of_float16


@intrinsic
def narrow(typing: Any, value: Any, like: Any) -> Any:
    """``value`` rounded to nearest, ties to even, as the type of ``like``."""

    def same(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return args[0]

    def to_bfloat16(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        whole, half = (context.get_value_type(t) for t in (types.int32, types.int16))
        bits = builder.bitcast(args[0], whole)
        even = builder.and_(builder.lshr(bits, whole(16)), whole(1))
        rounded = builder.lshr(builder.add(bits, builder.add(whole(0x7FFF), even)), whole(16))
        nan = builder.fcmp_unordered("uno", args[0], args[0])
        return builder.trunc(builder.select(nan, whole(0x7FC0), rounded), half)

    def to_float16(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        whole, half, number = (context.get_value_type(t) for t in (types.int32, types.int16, types.float32))
        bits = builder.bitcast(args[0], whole)
        sign = builder.and_(builder.lshr(bits, whole(16)), whole(0x8000))
        size = builder.and_(bits, whole(0x7FFFFFFF))
        # Below the smallest normal number, adding one half rounds to the last place.
        half_bits = whole(0x3F000000)
        little = builder.fadd(builder.bitcast(size, number), builder.bitcast(half_bits, number))
        subnormal = builder.sub(builder.bitcast(little, whole), half_bits)
        even = builder.and_(builder.lshr(size, whole(13)), whole(1))
        shifted = builder.add(builder.add(size, whole(0xFFF - (112 << 23))), even)
        normal = builder.lshr(shifted, whole(13))
        infinity = whole(INFINITY[types.int16])
        small = builder.icmp_unsigned("<", size, whole(113 << 23))
        rounded = builder.select(small, subnormal, normal)
        huge = builder.icmp_unsigned(">=", size, whole(143 << 23))
        rounded = builder.select(huge, infinity, rounded)
        nan = builder.icmp_unsigned(">", size, whole(0x7F800000))
        rounded = builder.select(nan, whole(0x7E00), rounded)
        return builder.trunc(builder.or_(rounded, sign), half)

    if isinstance(like, types.Float):
        return like(like, like), same
    return like(types.float32, like), to_bfloat16 if like == types.uint16 else to_float16
