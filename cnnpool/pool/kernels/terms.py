"""The arithmetic of power means: one cell, one window, and what they change.

``cell`` says what u is: (0,) for |x|, (eps, absent) for max(x, eps), and 0 where x is ``absent``. The powers
2, 3 and 4, whole numbers here, are products, their roots found by Newton's steps; others take a logarithm.
"""

from typing import Any

from numba import types
from numba.extending import overload

from cnnpool.pool.kernels.elementary import exp2, inverse_root, inverse_scale, log2, number, over
from cnnpool.pool.kernels.memory import compiled, load


def weight(r: Any, p: Any, total: Any) -> Any:
    """(r^(p - 1), log2 r), the logarithm only where p is no whole number."""


@overload(weight)
def weight_of(r: Any, p: Any, total: Any) -> Any:
    def product(r: Any, p: Any, total: Any) -> Any:
        return (r if p == 2 else (r * r if p == 3 else r * r * r)), total

    def exponential(r: Any, p: Any, total: Any) -> Any:
        level = log2(r)
        # 0 also where r is no normal number: with p < 1 it would be infinitely steep.
        power = exp2((p - number(1, total)) * level)
        lowest = number(-4096, total)
        return (total if level < lowest else power), (level if level > lowest else lowest)

    return product if isinstance(p, types.Integer) else exponential


def back(mean: Any, p: Any, inverse: Any, total: Any) -> Any:
    """mean^(1/p - 1)."""


@overload(back)
def back_of(mean: Any, p: Any, inverse: Any, total: Any) -> Any:
    def newton(mean: Any, p: Any, inverse: Any, total: Any) -> Any:
        z = inverse_root(mean, p, inverse)
        return z if p == 2 else (z * z if p == 3 else z * z * z)

    def exponential(mean: Any, p: Any, inverse: Any, total: Any) -> Any:
        return exp2((inverse - number(1, total)) * log2(mean))

    return newton if isinstance(p, types.Integer) else exponential


def exponent(whole: Any, powers: Any, index: Any, total: Any) -> Any:
    """``whole``, or where there is none the power at ``index``."""


@overload(exponent)
def exponent_of(whole: Any, powers: Any, index: Any, total: Any) -> Any:
    def given(whole: Any, powers: Any, index: Any, total: Any) -> Any:
        return whole

    def held(whole: Any, powers: Any, index: Any, total: Any) -> Any:
        return load(powers, index, total)

    return given if isinstance(whole, types.Integer) else held


def scale(top: Any, p: Any, total: Any) -> Any:
    """What makes ``top`` 1, or for a small power near 1."""


@overload(scale)
def scale_of(top: Any, p: Any, total: Any) -> Any:
    def near(top: Any, p: Any, total: Any) -> Any:
        return inverse_scale(top)

    def exact(top: Any, p: Any, total: Any) -> Any:
        return over(number(1, total), top)

    return near if isinstance(p, types.Integer) else exact


@compiled
def size(v, cell, total):
    if len(cell) == 1:
        return abs(v)
    floor, absent = cell[0], cell[-1]
    return total if v == absent else (floor if v < floor else v)


@compiled
def directed(weight, v, cell, total):
    if len(cell) == 1:
        return weight if v >= total else -weight
    return weight if v >= cell[0] else total


@compiled
def limited(top, limits):
    smallest, largest = limits
    top = top if top > smallest else smallest
    return top if top < largest else largest


@compiled
def root(mean, scale, cell, p, inverse, total):
    # Of nothing but what is absent the floor.
    found = over(mean * back(mean, p, inverse, total), scale)
    found = mean if mean - mean != total else found
    return cell[0] if mean == total else found


@compiled
def factor(g, powers, share, p, inverse, total):
    # What the weights of a window are multiplied by.
    powers = total if g == total else powers
    mean = powers * share
    steep = total if mean == mean and mean - mean != total else back(mean, p, inverse, total)
    return total if powers == total else g * share * steep


@compiled
def slope(g, powers, moment, share, scale, inverse, total):
    # What the output changes with p, over log 2.
    powers = total if g == total else powers
    level = inverse * log2(powers * share)
    found = g * over(exp2(level), scale) * inverse * (over(moment, powers) - level)
    return total if powers == total else found
