"""Power means of 2x2 tiles, (share * sum u^p)^(1/p), with their gradients; ``means_2x2`` goes over them."""

from typing import Any

from cnnpool.pool.cpu.loops import power_terms
from cnnpool.pool.cpu.loops.intrinsics import load, narrow, store, widen
from cnnpool.pool.cpu.loops.signatures import Address, Cells, Number, compiled, inlined
from cnnpool.pool.cpu.loops.vector_math import number, over, plus_product


@compiled
def prepare(numbers: Address, index: int, rule: tuple[Any, ...], total: Number) -> tuple[Any, Number]:
    """p and its inverse, shared by all tiles."""
    _, _, _, whole = rule
    return power_terms.exponent(whole, numbers, index, total), over(
        number(1, total), load(numbers, index, total)
    )


@inlined
def _read(
    x: Address, at: tuple[int, int, int, int], t: int, rule: tuple[Any, ...], p: Any, total: Number,
    like: Number,
) -> tuple[Cells, Cells, Number]:  # fmt: skip
    # The cells of a tile, their scaled u, and the inverse of the scale.
    cell, limits, _, _ = rule
    va, vb = widen(load(x, at[0] + t, like)), widen(load(x, at[1] + t, like))
    vc, vd = widen(load(x, at[2] + t, like)), widen(load(x, at[3] + t, like))
    a, b = power_terms.size(va, cell, total), power_terms.size(vb, cell, total)
    c, d = power_terms.size(vc, cell, total), power_terms.size(vd, cell, total)
    left, right = a if a > b else b, c if c > d else d
    scale, unscaled = power_terms.scale(
        power_terms.limited(left if left > right else right, limits), p, total
    )
    return (va, vb, vc, vd), (a * scale, b * scale, c * scale, d * scale), unscaled


@compiled
def means(
    x: Address, at: tuple[int, int, int, int], y: Address, out: int, count: int, given: tuple[Any, ...],
    rule: tuple[Any, ...], total: Number, like: Number,
) -> None:  # fmt: skip
    """Write the means of ``count`` tiles, whose cells begin at ``at``, to ``y`` from ``out`` on."""
    (p, inverse), (cell, limits, share, _) = given, rule
    for t in range(count):
        _, (a, b, c, d), unscaled = _read(x, at, t, rule, p, total, like)
        left = plus_product(power_terms.weight(a, p, total)[0] * a, power_terms.weight(b, p, total)[0], b)
        right = plus_product(power_terms.weight(c, p, total)[0] * c, power_terms.weight(d, p, total)[0], d)
        mean = power_terms.root((left + right) * share, unscaled, cell, limits, p, inverse, total)
        store(y, out + t, narrow(mean, like))


@compiled
def gradients(
    x: Address, at: tuple[int, int, int, int], grad: Address, above: int, out: Address,
    to: tuple[int, int, int, int], slots: Address | None, slopes: Address, count: int, given: tuple[Any, ...],
    rule: tuple[Any, ...], total: Number, like: Number,
) -> None:  # fmt: skip
    """Write the cells' gradients to ``out`` from ``to`` on and, if wanted, p's, over log 2, to ``slopes``."""
    (p, inverse), (cell, limits, share, _) = given, rule
    for t in range(count):
        (va, vb, vc, vd), (a, b, c, d), unscaled = _read(x, at, t, rule, p, total, like)
        (wa, la), (wb, lb) = power_terms.weight(a, p, total), power_terms.weight(b, p, total)
        (wc, lc), (wd, ld) = power_terms.weight(c, p, total), power_terms.weight(d, p, total)
        a, b, c, d = wa * a, wb * b, wc * c, wd * d
        powers, upstream = (a + b) + (c + d), widen(load(grad, above + t, like))
        if slots is not None:
            moment = (a * la + b * lb) + (c * lc + d * ld)
            store(slopes, t, power_terms.slope(upstream, powers, moment, share, unscaled, inverse, total))
        f = power_terms.factor(upstream, powers, share, limits, p, inverse, total)
        store(out, to[0] + t, narrow(f * power_terms.directed(wa, va, cell, total), like))
        store(out, to[1] + t, narrow(f * power_terms.directed(wb, vb, cell, total), like))
        store(out, to[2] + t, narrow(f * power_terms.directed(wc, vc, cell, total), like))
        store(out, to[3] + t, narrow(f * power_terms.directed(wd, vd, cell, total), like))
