"""Powers and logarithms that a compiler can vectorise: series of arithmetic alone, for float32 and float64.

The error of a truncated series is below the rounding of the type: relative to the result less than 3e-9 and
5e-18 for ``exp2`` (|f| <= 1/2), 3e-9 and 1e-18 for ``log2`` (the inverse hyperbolic tangent's, t^2 < 0.0295).
"""

from collections.abc import Callable
from inspect import Parameter, Signature, signature
from math import factorial, log, sqrt
from struct import pack, unpack
from typing import Any

from numba import types

from cnnpool.pool.cpu.loops.signatures import intrinsic, intrinsic_of_literals

# Coefficients of exp2: in float32 a polynomial through Chebyshev's nodes, a term shorter than Taylor's.
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
# Bits of the mantissa, coefficients of exp2, terms of log2, the exponent of 1, and the ``struct`` codes of
# the number and of an integer of its width.
PLANS = {types.float32: (23, SINGLE, 5, 127, "f", "i"), types.float64: (52, DOUBLE, 11, 1023, "d", "q")}
WHOLES = {types.float32: types.int32, types.float64: types.int64}
FAST = ("contract",)


def _horner(builder: Any, kind: Any, x: Any, coefficients: list[float]) -> Any:
    total = kind(coefficients[-1])
    for c in coefficients[-2::-1]:
        total = builder.fadd(builder.fmul(total, x, flags=FAST), kind(c), flags=FAST)
    return total


def _of_numbers(build: Callable[..., Any]) -> Any:
    """An intrinsic for floating numbers of one type; ``build`` generates code for that type and its bits."""

    def function(typing: Any, x: Any, *others: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            kind, bits = context.get_value_type(x), context.get_value_type(WHOLES[x])
            return build(builder, kind, bits, PLANS[x], *args)

        return x(*[x] * (1 + len(others))), generate

    # Numba requires every parameter.
    names = "typing", *[*signature(build).parameters][4:]
    parameters = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in names]
    function.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return intrinsic(function)


def _shrink(builder: Any, kind: Any, bits: Any, plan: Any, x: Any) -> Any:
    mantissa, coefficients, *_ = plan
    top = 2.0 ** (10 if mantissa == 52 else 7)
    # A number this large has no fraction: the sum rounds to a whole number, in its lowest bits.
    shifter = kind(1.5 * 2.0**mantissa)
    shifted = builder.fadd(x, shifter)
    fraction = builder.fsub(x, builder.fsub(shifted, shifter))
    series = _horner(builder, kind, fraction, coefficients)
    exponent = builder.shl(builder.bitcast(shifted, bits), bits(mantissa))
    value = builder.bitcast(builder.add(builder.bitcast(series, bits), exponent), kind)
    return builder.select(builder.fcmp_ordered(">=", x, kind(2 - top)), value, kind(0.0))


def _exp2(builder: Any, kind: Any, bits: Any, plan: Any, x: Any) -> Any:
    value, top = _shrink(builder, kind, bits, plan, x), 2.0 ** (10 if plan[0] == 52 else 7)
    beyond = builder.fmul(x, kind(float("inf")))
    return builder.select(builder.fcmp_unordered(">=", x, kind(top)), beyond, value)


def _log2(builder: Any, kind: Any, bits: Any, plan: Any, x: Any) -> Any:
    mantissa, _, terms, _, number, integer = plan
    # Into an exponent and a number from sqrt(1/2) to sqrt(2).
    base = bits(unpack(integer, pack(number, sqrt(0.5)))[0])
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


def _inverse_scale(builder: Any, kind: Any, bits: Any, plan: Any, x: Any) -> Any:
    mantissa, _, _, one, *_ = plan
    exponent = builder.and_(builder.bitcast(x, bits), bits((2 * one + 1) << mantissa))
    return builder.bitcast(builder.sub(bits(2 * one << mantissa), exponent), kind)


def _whole_scale(builder: Any, kind: Any, bits: Any, plan: Any, x: Any) -> Any:
    mantissa, _, _, one, *_ = plan
    return builder.bitcast(builder.and_(builder.bitcast(x, bits), bits((2 * one + 1) << mantissa)), kind)


def _with_sign(builder: Any, kind: Any, bits: Any, plan: Any, size: Any, v: Any) -> Any:
    sign = builder.and_(builder.bitcast(v, bits), bits(1 << (bits.width - 1)))
    return builder.bitcast(builder.or_(builder.bitcast(size, bits), sign), kind)


exp2 = _of_numbers(_exp2)
"""2^x; 0 where that is not a normal number, infinity where it overflows."""

shrink = _of_numbers(_shrink)
"""2^x for -2^20 < x <= 0; 0 where that is not a normal number, and for NaN."""

log2 = _of_numbers(_log2)
"""The logarithm of x >= 0 to base 2; -infinity where x is not a normal number."""

over = _of_numbers(lambda builder, kind, bits, plan, a, b: builder.fdiv(a, b))
"""a / b; division by zero gives infinity or NaN and does not leave the loop."""

plus_product = _of_numbers(
    lambda builder, kind, bits, plan, sum_, a, b: builder.fadd(
        sum_, builder.fmul(a, b, flags=FAST), flags=FAST
    )
)
"""sum_ + a b, rounded once where that is faster."""

inverse_scale = _of_numbers(_inverse_scale)
"""The power of 2 that brings x > 0 into [1, 2), where x and its inverse are normal numbers."""

whole_scale = _of_numbers(_whole_scale)
"""The inverse of ``inverse_scale``: the power of 2 at or below a normal x > 0."""

with_sign = _of_numbers(_with_sign)
"""``size`` >= 0 with the sign of ``v``."""


@intrinsic
def either(typing: Any, condition: Any, a: Any, b: Any) -> Any:
    """``a`` or ``b``, both computed: a select, not a branch."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.select(*args)

    return a(condition, a, a), generate


@intrinsic
def inverse_root(typing: Any, x: Any, p: Any) -> Any:
    """x^(-1/n) of a normal x > 0, for a tuple ``p`` of n = 2, 3 or 4 members, by Halley's method."""
    n = len(p)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind, bits = context.get_value_type(x), context.get_value_type(WHOLES[x])
        mantissa, _, _, one, *_ = PLANS[x]
        value, inverse = args[0], kind(1 / n)
        # The bits approximate a logarithm. Without the sign, which NaN can have, they stay in the range.
        size = builder.and_(builder.bitcast(value, bits), bits((1 << (bits.width - 1)) - 1))
        # The bits of one, less the mean error of that logarithm: the first guess is within 4 %.
        base = kind((one - 0.05) * 2.0**mantissa)
        away = builder.fmul(builder.fsub(builder.sitofp(size, kind), base), inverse)
        z = builder.bitcast(builder.fptosi(builder.fsub(base, away), bits), kind)
        # 1 - x z^n falls to 0.13, 1e-3, 5e-10, 1e-28.
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
