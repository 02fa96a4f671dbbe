"""Powers and logarithms that a compiler can vectorise: series of arithmetic alone, for float32 and float64.

The error of a truncated series is below the rounding of the type: relative to the result less than 3e-9 and
5e-18 for ``exp2`` (|f| <= 1/2), 3e-9 and 1e-18 for ``log2`` (the inverse hyperbolic tangent's, t^2 < 0.0295).
"""

from collections.abc import Callable
from math import factorial, log, sqrt
from struct import pack, unpack
from typing import Any

from numba import types

from cnnpool.pool.cpu.loops.signatures import intrinsic, intrinsic_of_literals

# Of exp2: in float32 a polynomial through the roots of Chebyshev's, a term shorter than Taylor's series.
SINGLE = [
    1.0,
    0.6931472067028329,
    0.24022650922289554,
    0.05550327226669895,
    0.00961805667843204,
    0.0013400428177711937,
    0.00015461444724808513,
]
DOUBLE = [log(2) ** k / factorial(k) for k in range(14)]
# Bits of the mantissa, coefficients of exp2, terms of log2.
PLANS = {types.float32: (23, SINGLE, 5), types.float64: (52, DOUBLE, 11)}
# Whole numbers as wide, and for ``struct`` the number and the whole one.
WHOLES = {types.float32: (types.int32, "f", "i"), types.float64: (types.int64, "d", "q")}
FAST = ("contract",)


def _horner(builder: Any, kind: Any, x: Any, coefficients: list[float]) -> Any:
    total = kind(coefficients[-1])
    for c in coefficients[-2::-1]:
        total = builder.fadd(builder.fmul(total, x, flags=FAST), kind(c), flags=FAST)
    return total


def _of_one(build: Callable[..., Any]) -> Any:
    """An intrinsic of one floating number."""

    def function(typing: Any, x: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            whole, number, integer = WHOLES[x]
            kind, bits = context.get_value_type(x), context.get_value_type(whole)
            return build(
                builder, kind, bits, PLANS[x], lambda v: unpack(integer, pack(number, v))[0], args[0]
            )

        return x(x), generate

    return intrinsic(function)


def _shrink(builder: Any, kind: Any, bits: Any, plan: tuple[Any, ...], _: Any, x: Any) -> Any:
    mantissa, coefficients, _ = plan
    top = 2.0 ** (10 if mantissa == 52 else 7)
    # So large a number has no places behind the point: the sum rounds to a whole number, in its lowest bits.
    shifter = kind(1.5 * 2.0**mantissa)
    shifted = builder.fadd(x, shifter)
    fraction = builder.fsub(x, builder.fsub(shifted, shifter))
    series = _horner(builder, kind, fraction, coefficients)
    exponent = builder.shl(builder.bitcast(shifted, bits), bits(mantissa))
    value = builder.bitcast(builder.add(builder.bitcast(series, bits), exponent), kind)
    return builder.select(builder.fcmp_ordered(">=", x, kind(2 - top)), value, kind(0.0))


def _exp2(builder: Any, kind: Any, bits: Any, plan: tuple[Any, ...], _: Any, x: Any) -> Any:
    value, top = _shrink(builder, kind, bits, plan, _, x), 2.0 ** (10 if plan[0] == 52 else 7)
    beyond = builder.fmul(x, kind(float("inf")))
    return builder.select(builder.fcmp_unordered(">=", x, kind(top)), beyond, value)


def _log2(builder: Any, kind: Any, bits: Any, plan: tuple[Any, ...], as_bits: Any, x: Any) -> Any:
    mantissa, _, terms = plan
    # Into an exponent and a number from sqrt(1/2) to sqrt(2).
    base = bits(as_bits(sqrt(0.5)))
    offset = builder.sub(builder.bitcast(x, bits), base)
    exponent = builder.sitofp(builder.ashr(offset, bits(mantissa)), kind)
    rest = builder.bitcast(builder.add(builder.and_(offset, bits((1 << mantissa) - 1)), base), kind)
    t = builder.fdiv(builder.fsub(rest, kind(1.0)), builder.fadd(rest, kind(1.0)))
    square = builder.fmul(t, t)
    series = _horner(builder, kind, square, [2 / log(2) / (2 * k + 1) for k in range(terms)])
    value = builder.fadd(builder.fmul(t, series, flags=FAST), exponent, flags=FAST)
    smallest = 2.0 ** (-1022 if mantissa == 52 else -126)
    value = builder.select(builder.fcmp_ordered("<", x, kind(smallest)), kind(float("-inf")), value)
    return builder.select(builder.fcmp_unordered(">=", x, kind(float("inf"))), x, value)


exp2 = _of_one(_exp2)
"""2^x; 0 where that is not a normal number, infinity where it overflows."""

shrink = _of_one(_shrink)
"""2^x for -2^20 < x <= 0; 0 where that is not a normal number, and for NaN."""

log2 = _of_one(_log2)
"""The logarithm of x >= 0 to base 2; -infinity where x is not a normal number."""


@intrinsic
def over(typing: Any, a: Any, b: Any) -> Any:
    """a / b, where a division by zero gives infinity or NaN and does not leave the loop."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fdiv(*args)

    return a(a, a), generate


def _bits_of(context: Any, x: Any) -> tuple[Any, Any, int]:
    # A number, its bits, and the exponent that 1 has there.
    return context.get_value_type(x), context.get_value_type(WHOLES[x][0]), 1023 if x.bitwidth == 64 else 127


@intrinsic
def either(typing: Any, condition: Any, a: Any, b: Any) -> Any:
    """``a`` or ``b``, of which both are computed: a select, not a branch."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.select(*args)

    return a(condition, a, a), generate


@intrinsic
def plus_product(typing: Any, sum_: Any, a: Any, b: Any) -> Any:
    """sum_ + a b, rounded once where that is faster."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fadd(args[0], builder.fmul(*args[1:], flags=FAST), flags=FAST)

    return sum_(sum_, sum_, sum_), generate


@intrinsic
def inverse_scale(typing: Any, x: Any) -> Any:
    """The power of 2 that brings x > 0 into [1, 2), where x and its inverse are normal numbers."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind, bits, one = _bits_of(context, x)
        mantissa = PLANS[x][0]
        exponent = builder.and_(builder.bitcast(args[0], bits), bits((2 * one + 1) << mantissa))
        return builder.bitcast(builder.sub(bits(2 * one << mantissa), exponent), kind)

    return x(x), generate


@intrinsic
def whole_scale(typing: Any, x: Any) -> Any:
    """The inverse of ``inverse_scale``: the power of 2 at or below a normal x > 0."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind, bits, one = _bits_of(context, x)
        exponent = bits((2 * one + 1) << PLANS[x][0])
        return builder.bitcast(builder.and_(builder.bitcast(args[0], bits), exponent), kind)

    return x(x), generate


@intrinsic
def with_sign(typing: Any, size: Any, v: Any) -> Any:
    """``size`` >= 0 with the sign of ``v``."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind, bits, _ = _bits_of(context, size)
        sign = builder.and_(builder.bitcast(args[1], bits), bits(1 << (bits.width - 1)))
        return builder.bitcast(builder.or_(builder.bitcast(args[0], bits), sign), kind)

    return size(size, size), generate


@intrinsic
def inverse_root(typing: Any, x: Any, p: Any) -> Any:
    """x^(-1/n) of a normal x > 0, for a tuple ``p`` of n = 2, 3 or 4 members, by Halley's steps."""
    n = len(p)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind, bits, one = _bits_of(context, x)
        value, inverse = args[0], kind(1 / n)
        # Bits are nearly a logarithm. Without the sign, which NaN can have, they stay in the range.
        size = builder.and_(builder.bitcast(value, bits), bits((1 << (bits.width - 1)) - 1))
        # Of one, less the mean error of that logarithm: the first guess is within 4 %.
        base = kind((one - 0.05) * 2.0 ** PLANS[x][0])
        away = builder.fmul(builder.fsub(builder.sitofp(size, kind), base), inverse)
        z = builder.bitcast(builder.fptosi(builder.fsub(base, away), bits), kind)
        # Of 1 - x z^n are left 0.13, 1e-3, 5e-10, 1e-28.
        for _ in range(2 if x.bitwidth == 32 else 3):
            square = builder.fmul(z, z)
            power = square if n == 2 else builder.fmul(square, z if n == 3 else square)
            rest = builder.fsub(kind(1.0), builder.fmul(value, power, flags=FAST), flags=FAST)
            bend = builder.fmul(rest, kind((1 + 1 / n) / (2 * n)), flags=FAST)
            step = builder.fmul(builder.fmul(z, rest), builder.fadd(bend, inverse, flags=FAST), flags=FAST)
            z = builder.fadd(z, step, flags=FAST)
        return z

    return x(x, p), generate


@intrinsic_of_literals
def number(typing: Any, value: Any, like: Any) -> Any:
    """The literal ``value`` in the type of ``like``: sums with plain numbers would be float64."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return context.get_constant(like, value.literal_value)

    return like(value, like), generate
