"""Powers and logarithms of ``Lanes`` of float32 and float64, as series.

The error of a truncated series is below the rounding of the type: relative to the result less than 3e-9 and
5e-18 for ``exp2`` (|f| <= 1/2), 3e-9 and 1e-18 for ``log2`` (the inverse hyperbolic tangent's, t^2 < 0.0295).
"""

from collections.abc import Callable
from math import factorial, log, sqrt
from struct import pack, unpack
from typing import Any

from numba import types
from numba.core import cgutils

from cnnpool.pool.cpu.loops.lanes import FAST
from cnnpool.pool.cpu.loops.signatures import Number, inlined, intrinsic, intrinsic_of_literals

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
# Bits of the mantissa, coefficients of exp2, terms of log2, and the ``struct`` codes of the number and of an
# integer of its width.
PLANS = {types.float32: (23, SINGLE, 5, "f", "i"), types.float64: (52, DOUBLE, 11, "d", "q")}


def _horner(builder: Any, kind: Any, x: Any, coefficients: list[float]) -> Any:
    total = kind(coefficients[-1])
    for c in coefficients[-2::-1]:
        total = builder.fadd(builder.fmul(total, x, flags=FAST), kind(c), flags=FAST)
    return total


def _of_lanes(build: Callable[..., Any]) -> Any:
    """An intrinsic of one ``Lanes``; ``build`` generates code for its type and that of its bits."""

    def function(typing: Any, x: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            kind = context.get_value_type(x)
            bits = cgutils.ir.VectorType(cgutils.ir.IntType(x.element.bitwidth), x.count)
            return build(builder, kind, bits, PLANS[x.element], args[0])

        return x(x), generate

    return intrinsic(function)


def _exp2(builder: Any, kind: Any, bits: Any, plan: Any, x: Any) -> Any:
    mantissa, coefficients, *_ = plan
    top = 2.0 ** (10 if mantissa == 52 else 7)
    # A number this large has no fraction: the sum rounds to a whole number, in its lowest bits.
    shifter = kind(1.5 * 2.0**mantissa)
    shifted = builder.fadd(x, shifter)
    fraction = builder.fsub(x, builder.fsub(shifted, shifter))
    series = _horner(builder, kind, fraction, coefficients)
    exponent = builder.shl(builder.bitcast(shifted, bits), bits(mantissa))
    value = builder.bitcast(builder.add(builder.bitcast(series, bits), exponent), kind)
    value = builder.select(builder.fcmp_ordered(">=", x, kind(2 - top)), value, kind(0.0))
    beyond = builder.fmul(x, kind(float("inf")))
    return builder.select(builder.fcmp_unordered(">=", x, kind(top)), beyond, value)


def _log2(builder: Any, kind: Any, bits: Any, plan: Any, x: Any) -> Any:
    mantissa, _, terms, number, integer = plan
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


def _absolute(builder: Any, kind: Any, bits: Any, plan: Any, x: Any) -> Any:
    mantissa = plan[0]
    mask = bits((1 << (63 if mantissa == 52 else 31)) - 1)
    return builder.bitcast(builder.and_(builder.bitcast(x, bits), mask), kind)


exp2 = _of_lanes(_exp2)
"""2^x; 0 where that is not a normal number, infinity where it overflows."""
log2 = _of_lanes(_log2)
"""The logarithm of x >= 0 to base 2; -infinity where x is not a normal number."""
absolute = _of_lanes(_absolute)
"""|x|."""


@intrinsic
def _guess(typing: Any, x: Any, inverse: Any) -> Any:
    """Within 4 % x^-inverse, of a normal x > 0: its bits approximate a logarithm."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = context.get_value_type(x)
        bits = cgutils.ir.VectorType(cgutils.ir.IntType(x.element.bitwidth), x.count)
        mantissa, one = (52, 1023) if x.element.bitwidth == 64 else (23, 127)
        # Without the sign, which NaN can have, they stay in the range.
        size = builder.and_(builder.bitcast(args[0], bits), bits((1 << (x.element.bitwidth - 1)) - 1))
        # The bits of one, less the mean error of that logarithm.
        base = kind((one - 0.05) * 2.0**mantissa)
        away = builder.fmul(builder.fsub(builder.sitofp(size, kind), base), args[1])
        return builder.bitcast(builder.fptosi(builder.fsub(base, away), bits), kind)

    return x(x, x), generate


@intrinsic_of_literals
def number(typing: Any, value: Any, like: Any) -> Any:
    """The literal ``value`` in the type of ``like``: sums with plain numbers would be float64."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return context.get_constant(like, value.literal_value)

    return like(value, like), generate


@inlined
def root_power(x: Number, n: int, inverse: Number, steps: int, total: Number) -> Number:
    """x^(1/n - 1) of a normal x > 0, with ``inverse`` = 1/n, by Halley's method: for n up to 4 the error of
    x^(-1/n) falls to 0.13, 1e-3, 5e-10, 1e-28.
    """
    one = number(1, total)
    z, bend = _guess(x, inverse), (one + inverse) * inverse * (one / number(2, total))
    for _ in range(steps):
        power = z
        for _ in range(n - 1):
            power = power * z
        rest = one - x * power
        z = z + z * rest * (bend * rest + inverse)
    power = z
    for _ in range(n - 2):
        power = power * z
    return power
