"""Strides that need not be whole numbers."""

from fractions import Fraction
from typing import Annotated

from annotated_types import Ge, Gt, Le

from cnnpool.pool.base import ceil_div

Step = Annotated[float, Ge(1), Le(1024)]
Stride = Step | tuple[Step, Step]
StepAboveOne = Annotated[float, Gt(1), Le(1024)]
StrideAboveOne = StepAboveOne | tuple[StepAboveOne, StepAboveOne]
Fractions = tuple[tuple[int, int], tuple[int, int]]

LARGEST_DENOMINATOR = 1000


def fractions(stride: Stride) -> Fractions:
    """(numerator, denominator) of the vertical and the horizontal stride.

    A number is read as the nearest fraction with a denominator of at most 1000, so that 32/11 written as
    2.909090909090909 makes 11 of 32.
    """
    both = (stride, stride) if isinstance(stride, int | float) else stride
    down, across = (Fraction(s).limit_denominator(LARGEST_DENOMINATOR) for s in both)
    return down.as_integer_ratio(), across.as_integer_ratio()


def rounded_up(height: int, width: int, stride: Fractions) -> tuple[int, int]:
    """(ceil(H/s), ceil(W/s))."""
    (p, q), (r, s) = stride
    return ceil_div(height * q, p), ceil_div(width * s, r)


def rounded_down(height: int, width: int, stride: Fractions) -> tuple[int, int]:
    """(floor(H/s), floor(W/s))."""
    (p, q), (r, s) = stride
    return height * q // p, width * s // r


def whole(stride: Fractions) -> tuple[int, int]:
    """The nearest whole strides: the cell of pixels that one output stands for."""
    (p, q), (r, s) = stride
    return round(p / q), round(r / s)
