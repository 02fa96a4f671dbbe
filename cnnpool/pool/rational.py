"""Strides that need not be whole numbers."""

import math
from fractions import Fraction

Stride = float | tuple[float, float]
Fractions = tuple[tuple[int, int], tuple[int, int]]

LARGEST_DENOMINATOR = 1000


def fractions(stride: Stride, *, least: float, excluded: bool = False) -> Fractions:
    """(numerator, denominator) of the vertical and the horizontal stride.

    A number is read as the nearest fraction with a denominator of at most 1000, so that 32/11 written as
    2.909090909090909 makes 11 of 32.

    Raises:
        ValueError: if a number is below ``least``, or equals it where that is ``excluded``.
    """
    both = (stride, stride) if isinstance(stride, int | float) else tuple(stride)
    if len(both) != 2 or not all(
        _is_number(s) and s >= least and not (excluded and s == least) for s in both
    ):
        bound = f"above {least:g}" if excluded else f"of at least {least:g}"
        raise ValueError(f"stride must be a number {bound}, or two of them, got {stride!r}")
    down, across = (Fraction(s).limit_denominator(LARGEST_DENOMINATOR) for s in both)
    return down.as_integer_ratio(), across.as_integer_ratio()


def rounded_up(height: int, width: int, stride: Fractions) -> tuple[int, int]:
    """(ceil(H/s), ceil(W/s))."""
    (p, q), (r, s) = stride
    return -(-height * q // p), -(-width * s // r)


def rounded_down(height: int, width: int, stride: Fractions) -> tuple[int, int]:
    """(floor(H/s), floor(W/s))."""
    (p, q), (r, s) = stride
    return height * q // p, width * s // r


def whole(stride: Fractions) -> tuple[int, int]:
    """The nearest whole strides: the cell of pixels that one output stands for."""
    (p, q), (r, s) = stride
    return round(p / q), round(r / s)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
