"""The arithmetic of power means and soft means on a GPU: of a cell, of a window, and of gradients.

``kind`` is 0 for means of |x|, 1 for those of max(x, floor), 2 for those weighted by softmax, 4 for sums of
odd powers of x itself.
"""

import triton
import triton.language as tl

from cnnpool.pool.gpu.places import cell_of

LOG_2, LOG2_E = tl.constexpr(0.6931471805599453), tl.constexpr(1.4426950408889634)


@triton.jit
def read(x, inside, floor, kind: tl.constexpr, wide: tl.constexpr):
    """|x|, max(x, floor), or x for a soft mean; outside the map 0, or -infinity for a soft mean."""
    value = tl.load(x, inside, other=float("-inf") if kind == 2 else 0.0).to(wide)
    if kind == 0:
        return tl.abs(value)
    if kind == 1:
        return tl.where(inside, tl.where(value < floor, floor, value), 0.0)
    return value


@triton.jit
def _weight(value, top, number, kind: tl.constexpr):
    # For a power mean (u / top)^(p - 1), 0 at 0; for a soft mean e^(beta (x - top)).
    if kind == 2:
        return tl.where(value == float("-inf"), 0.0, tl.exp2(number * (value - top) * LOG2_E))
    ratio = tl.abs(value / top)
    return tl.where(ratio == 0, 0.0, tl.exp2((number - 1) * tl.log2(tl.where(ratio == 0, 1.0, ratio))))


@triton.jit
def _largest(
    x, plane, r, c, along, real, floor, height, width, channels,
    kh: tl.constexpr, kw: tl.constexpr, sh: tl.constexpr, sw: tl.constexpr,
    ph: tl.constexpr, pw: tl.constexpr, kind: tl.constexpr,
    last: tl.constexpr, wide: tl.constexpr, down: tl.constexpr, across: tl.constexpr,
):  # fmt: skip
    top = tl.full((down, across), float("-inf"), wide)
    for i in tl.static_range(kh):
        for j in tl.static_range(kw):
            source, inside = cell_of(
                plane, r, c, along, real, i, j, height, width, channels, sh, sw, ph, pw, last
            )
            value = read(x + source, inside, floor, kind, wide)
            value = tl.abs(value) if kind == 4 else value
            top = tl.where((value > top) | (value != value), value, top)
    return top


@triton.jit
def _soft_slope(
    x, value, scale, factor, plane, r, c, along, real, number, floor, height, width, channels,
    kh: tl.constexpr, kw: tl.constexpr, sh: tl.constexpr, sw: tl.constexpr,
    ph: tl.constexpr, pw: tl.constexpr, kind: tl.constexpr,
    last: tl.constexpr, wide: tl.constexpr, down: tl.constexpr, across: tl.constexpr,
):  # fmt: skip
    slope = tl.zeros((down, across), wide)
    for i in tl.static_range(kh):
        for j in tl.static_range(kw):
            source, inside = cell_of(
                plane, r, c, along, real, i, j, height, width, channels, sh, sw, ph, pw, last
            )
            cell = read(x + source, inside, floor, kind, wide)
            weight = _weight(cell, scale, number, kind) * factor
            slope += tl.where(weight == 0, 0.0, weight * (cell - value) * (cell - value))
    return slope


@triton.jit
def window(
    x, plane, r, c, along, real, number, floor, height, width, channels,
    kh: tl.constexpr, kw: tl.constexpr, sh: tl.constexpr, sw: tl.constexpr,
    ph: tl.constexpr, pw: tl.constexpr, kind: tl.constexpr, mean: tl.constexpr, learnt: tl.constexpr,
    last: tl.constexpr, wide: tl.constexpr, down: tl.constexpr, across: tl.constexpr,
):  # fmt: skip
    """Mean, scale, factor of the weights, and derivative by the number."""
    top = _largest(
        x, plane, r, c, along, real, floor, height, width, channels,
        kh, kw, sh, sw, ph, pw, kind, last, wide, down, across,
    )  # fmt: skip
    infinite = (top == float("inf")) | (top == float("-inf"))
    scale = tl.where(infinite | ((top == 0) & (kind != 2)), 1.0, top)
    total, weighted = tl.zeros((down, across), wide), tl.zeros((down, across), wide)
    cells, moment = tl.zeros((down, across), wide), tl.zeros((down, across), wide)
    for i in tl.static_range(kh):
        for j in tl.static_range(kw):
            source, inside = cell_of(
                plane, r, c, along, real, i, j, height, width, channels, sh, sw, ph, pw, last
            )
            value = read(x + source, inside, floor, kind, wide)
            weight = _weight(value, scale, number, kind)
            if kind == 2:
                total += weight
                weighted += tl.where(weight == 0, 0.0, weight * value)
            else:
                power = weight * (value / scale)
                total += power
                cells += tl.where(inside, 1.0, 0.0)
                if learnt:
                    moment += tl.where(power == 0, 0.0, power * tl.log2(value / scale))
    slope = tl.zeros((down, across), wide)
    if kind == 2:
        value = tl.where(infinite, top, weighted / total)
        factor = tl.where(infinite, 0.0, 1 / total)
        if learnt:
            slope = _soft_slope(
                x, value, scale, factor, plane, r, c, along, real, number, floor, height, width, channels,
                kh, kw, sh, sw, ph, pw, kind, last, wide, down, across,
            )  # fmt: skip
    else:
        share = 1 / cells if mean else 1.0
        power = tl.where(total == 0, 1.0, total * share)
        level = tl.log2(power)
        value = tl.where(total == 0, 0.0, tl.exp2(level / number) * scale)
        value = tl.where(infinite, tl.abs(total) if kind == 4 else top, value)  # Both infinities give NaN.
        factor = tl.where(infinite | (total == 0), 0.0, share * tl.exp2((1 / number - 1) * level))
        if learnt:
            slope = (share * moment / power - level / number) * LOG_2 / number * value
            slope = tl.where(total == 0, 0.0, slope)
    return value, scale, factor, tl.where(real & ~infinite, slope, 0.0)


@triton.jit
def sent_to(value, raw, factor, scale, average, number, floor, kind: tl.constexpr):
    """The gradient that an input gets from a window."""
    sent = factor * _weight(value, scale, number, kind)
    if kind == 2:
        sent *= 1 + number * tl.where(sent == 0, 0.0, value - average)
    if kind == 0:
        sent = tl.where(raw < 0, -sent, tl.where(raw == 0, 0.0, sent))
    if kind == 1:
        sent = tl.where(raw < floor, 0.0, sent)
    return tl.where(factor == 0, 0.0, sent)
