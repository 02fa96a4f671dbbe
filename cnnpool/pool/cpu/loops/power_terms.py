"""The arithmetic of power means: of one cell, of one window, and of their gradients.

``cell`` defines u: (0,) for |x|, (eps, absent) for max(x, eps), and 0 where x is ``absent``. The largest u of
a window, limited so that its inverse is a normal number, is divided out first. A ``p`` of 2, 3 or 4 is passed
as a tuple of that length, so that kernels are compiled for it: powers are products, the scale the power of 2
below, and roots are found by Halley's method. Any other p is a number and needs logarithms.
"""

from typing import Any

from numba import types

from cnnpool.pool.cpu.loops.intrinsics import load
from cnnpool.pool.cpu.loops.signatures import Number, by_types, inlined
from cnnpool.pool.cpu.loops.vector_math import (
    exp2,
    inverse_root,
    inverse_scale,
    log2,
    number,
    over,
    whole_scale,
    with_sign,
)


@by_types
def weight(r: Any, p: Any, total: Any) -> Any:
    """(r^(p - 1), log2 r), the logarithm only if p is not a tuple."""

    def exponential(r: Any, p: Any, total: Any) -> Any:
        # Infinity counts as 1: times infinity that is infinite for any p, and times 0 it is 0. All others are
        # at most 1, up to rounding.
        level = log2(r)
        level = total if level > total else level
        # 0 also where r is not a normal number: with p < 1 it would be infinitely steep.
        power = exp2((p - number(1, total)) * level)
        lowest = number(-4096, total)
        return (total if level < lowest else power), (level if level > lowest else lowest)

    def product(r: Any, p: Any, total: Any) -> Any:
        # For the same reason: 0 times infinity is NaN.
        highest = number(64, total)
        r = highest if r > highest else r
        return (r if len(p) == 2 else (r * r if len(p) == 3 else r * r * r)), total

    return product if isinstance(p, types.BaseTuple) else exponential


@by_types
def back(mean: Any, p: Any, inverse: Any, total: Any) -> Any:
    """mean^(1/p - 1)."""

    def halley(mean: Any, p: Any, inverse: Any, total: Any) -> Any:
        return weight(inverse_root(mean, p), p, total)[0]

    def exponential(mean: Any, p: Any, inverse: Any, total: Any) -> Any:
        return exp2((inverse - number(1, total)) * log2(mean))

    return halley if isinstance(p, types.BaseTuple) else exponential


@by_types
def exponent(whole: Any, powers: Any, index: Any, total: Any) -> Any:
    """``whole``, or if that is None the power at ``index``."""

    def given(whole: Any, powers: Any, index: Any, total: Any) -> Any:
        return whole

    def held(whole: Any, powers: Any, index: Any, total: Any) -> Any:
        return load(powers, index, total)

    return given if isinstance(whole, types.BaseTuple) else held


@by_types
def scale(top: Any, p: Any, total: Any) -> Any:
    """The factor that makes ``top`` 1, or for a whole power near 1, and its inverse."""

    def near(top: Any, p: Any, total: Any) -> Any:
        return inverse_scale(top), whole_scale(top)

    def exact(top: Any, p: Any, total: Any) -> Any:
        return over(number(1, total), top), top

    return near if isinstance(p, types.BaseTuple) else exact


@inlined
def size(v: Number, cell: tuple[Number, ...], total: Number) -> Number:
    if len(cell) == 1:
        return abs(v)
    floor, absent = cell[0], cell[-1]
    return total if v == absent else (floor if v < floor else v)


@inlined
def directed(weight: Number, v: Number, cell: tuple[Number, ...], total: Number) -> Number:
    if len(cell) == 1:
        return with_sign(weight, v)
    return weight if v >= cell[0] else total


@inlined
def limited(top: Number, limits: tuple[Number, Number]) -> Number:
    # NaN gives the smallest.
    smallest, largest = limits
    top = top if top > smallest else smallest
    return top if top < largest else largest


@inlined
def _clear(mean: Number, limits: tuple[Number, Number]) -> Number:
    # Restrict to numbers with a computable root; NaN stays.
    smallest, largest = limits
    mean = smallest if mean < smallest else mean
    return largest if mean > largest else mean


@inlined
def root(
    mean: Number, unscaled: Number, cell: tuple[Number, ...], limits: tuple[Number, Number], p: Any,
    inverse: Number, total: Number,
) -> Number:  # fmt: skip
    # The floor, if all cells are absent.
    found = mean * back(_clear(mean, limits), p, inverse, total) * unscaled
    return cell[0] if mean == total else found


@inlined
def factor(
    g: Number, powers: Number, share: Number, limits: tuple[Number, Number], p: Any, inverse: Number,
    total: Number,
) -> Number:  # fmt: skip
    # The factor of a window's weights.
    mean = powers * share
    f = g * share * back(_clear(mean, limits), p, inverse, total)
    endless = mean == mean and mean - mean != total
    return total if g == total or powers == total or endless else f


@inlined
def slope(
    g: Number, powers: Number, moment: Number, share: Number, unscaled: Number, inverse: Number, total: Number
) -> Number:
    # The derivative of the output by p, over log 2.
    powers = total if g == total else powers
    level = inverse * log2(powers * share)
    found = g * (exp2(level) * unscaled) * inverse * (over(moment, powers) - level)
    endless = powers == powers and powers - powers != total
    return total if powers == total or endless else found
