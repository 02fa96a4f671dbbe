"""Means of 2x2 tiles weighted by softmax(beta x), and their gradients; ``means_2x2`` goes over the tiles.
Cells enter by their distance to the largest, all distances at which weights are 0 replaced by one.
"""

from typing import Any

from cnnpool.pool.cpu.loops.intrinsics import load, narrow, store, widen
from cnnpool.pool.cpu.loops.signatures import Address, Cells, Number, compiled, inlined
from cnnpool.pool.cpu.loops.vector_math import either, number, over, plus_product, shrink


@compiled
def prepare(
    numbers: Address, index: int, rule: tuple[Any, ...], total: Number
) -> tuple[Number, Number, Number]:
    """beta / log 2, beta, and the largest distance."""
    bound, log_2 = rule
    slope = load(numbers, index, total)
    slope = slope if slope < bound else bound
    most = over(number(200, total), slope)
    return slope, slope * log_2, -most if most < bound else -bound


@inlined
def _away(v: Number, peak: Number, lowest: Number) -> Number:
    # The lowest for NaN, which infinity minus infinity also gives.
    d = v - peak
    return d if d > lowest else lowest


@inlined
def _read(
    x: Address, at: tuple[int, int, int, int], t: int, given: tuple[Any, ...], total: Number, like: Number
) -> tuple[Cells, Cells, Number, bool, bool]:
    # Distances and weights of a tile's cells, their largest, whether it is infinite, and whether any is NaN.
    slope, _, lowest = given
    a, b = widen(load(x, at[0] + t, like)), widen(load(x, at[1] + t, like))
    c, d = widen(load(x, at[2] + t, like)), widen(load(x, at[3] + t, like))
    left, right = a if a > b else b, c if c > d else d
    peak = left if left > right else right
    endless, unknown = peak - peak != total, a != a or b != b or c != c or d != d
    a, b = _away(a, peak, lowest), _away(b, peak, lowest)
    c, d = _away(c, peak, lowest), _away(d, peak, lowest)
    weights = shrink(slope * a), shrink(slope * b), shrink(slope * c), shrink(slope * d)
    return (a, b, c, d), weights, peak, endless, unknown


@inlined
def _centre(away: tuple[Number, ...], weights: tuple[Number, ...], total: Number) -> tuple[Number, Number]:
    # The inverse of the sum of weights, and the mean distance.
    (a, b, c, d), (e, f, g, h) = away, weights
    sum_, one = (e + f) + (g + h), number(1, total)
    # The largest weighs 1, unless it is infinite.
    inverse = over(one, sum_ if sum_ > one else one)
    return inverse, (plus_product(e * a, f, b) + plus_product(g * c, h, d)) * inverse


@compiled
def means(
    x: Address, at: tuple[int, int, int, int], y: Address, out: int, count: int, given: tuple[Any, ...],
    rule: tuple[Any, ...], total: Number, like: Number,
) -> None:  # fmt: skip
    """Write the means of ``count`` tiles, whose cells begin at ``at``, to ``y`` from ``out`` on."""
    nan = over(total, total)
    for t in range(count):
        away, weights, peak, endless, unknown = _read(x, at, t, given, total, like)
        mean = either(endless, peak, peak + _centre(away, weights, total)[1])
        store(y, out + t, narrow(either(unknown, nan, mean), like))


@inlined
def _sent(f: Number, weight: Number, away: Number, beta: Number, total: Number) -> Number:
    return f * weight * plus_product(number(1, total), beta, away)


@compiled
def gradients(
    x: Address, at: tuple[int, int, int, int], grad: Address, above: int, out: Address,
    to: tuple[int, int, int, int], slots: Address | None, slopes: Address, count: int, given: tuple[Any, ...],
    rule: tuple[Any, ...], total: Number, like: Number,
) -> None:  # fmt: skip
    """Write the cells' gradients to ``out`` from ``to`` on and, if wanted, beta's to ``slopes``."""
    (_, beta, _), nan = given, over(total, total)
    for t in range(count):
        (a, b, c, d), (wa, wb, wc, wd), _, endless, unknown = _read(x, at, t, given, total, like)
        inverse, mean = _centre((a, b, c, d), (wa, wb, wc, wd), total)
        upstream = widen(load(grad, above + t, like))
        f = either(endless or upstream == total, total, upstream * inverse)
        f = either(unknown, nan, f)
        a, b, c, d = a - mean, b - mean, c - mean, d - mean
        if slots is not None:
            store(slopes, t, f * ((wa * a * a + wb * b * b) + (wc * c * c + wd * d * d)))
        store(out, to[0] + t, narrow(_sent(f, wa, a, beta, total), like))
        store(out, to[1] + t, narrow(_sent(f, wb, b, beta, total), like))
        store(out, to[2] + t, narrow(_sent(f, wc, c, beta, total), like))
        store(out, to[3] + t, narrow(_sent(f, wd, d, beta, total), like))
