"""Power means of windows, (share * sum u^p)^(1/p), and their gradients; a band at a time (see ``bands``).

``cell`` says what u is: (0,) for |x|, (eps, absent) for max(x, eps), and 0 where x is ``absent``. The powers
2, 3 and 4, whole numbers here, are products, their roots found by Newton's steps; others take a logarithm.
The largest u of a window, kept to where its inverse is a normal number, is divided out first, for the whole
powers its power of 2.
"""

from typing import Any

from numba import types
from numba.extending import overload

from cnnpool.pool.kernels import bands
from cnnpool.pool.kernels.elementary import exp2, inverse_root, inverse_scale, log2, number, over
from cnnpool.pool.kernels.memory import compiled, keep, load, narrow, recall, store


def _weight(r: Any, p: Any, total: Any) -> Any:
    """(r^(p - 1), log2 r), the logarithm only where p is no whole number."""


@overload(_weight)
def _weight_of(r: Any, p: Any, total: Any) -> Any:
    def product(r: Any, p: Any, total: Any) -> Any:
        return (r if p == 2 else (r * r if p == 3 else r * r * r)), total

    def exponential(r: Any, p: Any, total: Any) -> Any:
        level = log2(r)
        # 0 also where r is no normal number: with p < 1 it would be infinitely steep.
        power = exp2((p - number(1, total)) * level)
        lowest = number(-4096, total)
        return (total if level < lowest else power), (level if level > lowest else lowest)

    return product if isinstance(p, types.Integer) else exponential


def _back(mean: Any, p: Any, inverse: Any, total: Any) -> Any:
    """mean^(1/p - 1)."""


@overload(_back)
def _back_of(mean: Any, p: Any, inverse: Any, total: Any) -> Any:
    def newton(mean: Any, p: Any, inverse: Any, total: Any) -> Any:
        z = inverse_root(mean, p, inverse)
        return z if p == 2 else (z * z if p == 3 else z * z * z)

    def exponential(mean: Any, p: Any, inverse: Any, total: Any) -> Any:
        return exp2((inverse - number(1, total)) * log2(mean))

    return newton if isinstance(p, types.Integer) else exponential


def _exponent(whole: Any, powers: Any, index: Any, total: Any) -> Any:
    """``whole``, or where there is none the power at ``index``."""


@overload(_exponent)
def _exponent_of(whole: Any, powers: Any, index: Any, total: Any) -> Any:
    def given(whole: Any, powers: Any, index: Any, total: Any) -> Any:
        return whole

    def held(whole: Any, powers: Any, index: Any, total: Any) -> Any:
        return load(powers, index, total)

    return given if isinstance(whole, types.Integer) else held


def _scale(top: Any, p: Any, total: Any) -> Any:
    """What makes ``top`` 1, or for a small power near 1."""


@overload(_scale)
def _scale_of(top: Any, p: Any, total: Any) -> Any:
    def near(top: Any, p: Any, total: Any) -> Any:
        return inverse_scale(top)

    def exact(top: Any, p: Any, total: Any) -> Any:
        return over(number(1, total), top)

    return near if isinstance(p, types.Integer) else exact


@compiled
def _size(v, cell, total):
    if len(cell) == 1:
        return abs(v)
    floor, absent = cell[0], cell[-1]
    return total if v == absent else (floor if v < floor else v)


@compiled
def _directed(weight, v, cell, total):
    if len(cell) == 1:
        return weight if v >= total else -weight
    return weight if v >= cell[0] else total


@compiled
def _limited(top, limits):
    smallest, largest = limits
    top = top if top > smallest else smallest
    return top if top < largest else largest


@compiled
def _scales(image, rule, pitch, part, target, count, cell, limits, p, total):
    for c in range(rule[2][0] * rule[2][1]):
        a = bands.cell_at(c, rule, pitch, part)
        if c == 0:
            for t in range(count):
                keep(target, t, _size(load(image, a + t, total), cell, total))
        else:
            for t in range(count):
                u, best = _size(load(image, a + t, total), cell, total), recall(target, t, total)
                keep(target, t, u if u > best else best)
    for t in range(count):
        keep(target, t, _scale(_limited(recall(target, t, total), limits), p, total))


@compiled
def _add(image, a, scales, sums, weights, moments, count, cell, p, total):
    for t in range(count):
        v = load(image, a + t, total)
        r = _size(v, cell, total) * load(scales, t, total)
        weight, level = _weight(r, p, total)
        power = weight * r
        keep(sums, t, recall(sums, t, total) + power)
        keep(moments, t, recall(moments, t, total) + power * level)
        store(weights, t, _directed(weight, v, cell, total))


@compiled
def _sum(image, rule, pitch, part, held, count, cell, limits, p, total):
    # 1 / largest, sums of powers and of powers times logarithms; weights are kept where there is a step.
    scales, sums, moments, weights, step = held
    _scales(image, rule, pitch, part, scales, count, cell, limits, p, total)
    bands.fill(sums, count, total)
    bands.fill(moments, count, total)
    for c in range(rule[2][0] * rule[2][1]):
        a = bands.cell_at(c, rule, pitch, part)
        _add(image, a, scales, sums, weights + c * step, moments, count, cell, p, total)


@compiled
def _root(mean, scale, cell, p, inverse, total):
    # Of nothing but what is absent the floor.
    root = over(mean * _back(mean, p, inverse, total), scale)
    root = mean if mean - mean != total else root
    return cell[0] if mean == total else root


@compiled
def _roots(sums, scales, share, count, cell, p, inverse, total):
    for t in range(count):
        mean = recall(sums, t, total) * load(share, t, total)
        keep(sums, t, _root(mean, load(scales, t, total), cell, p, inverse, total))


@compiled
def _four(image, part, t, cell, limits, p, total):
    # A window of four, what is read of it, scaled, and the scale.
    values = bands.four(image, part, t, total)
    a, b, c, d = values
    a, b, c, d = _size(a, cell, total), _size(b, cell, total), _size(c, cell, total), _size(d, cell, total)
    left, right = a if a > b else b, c if c > d else d
    scale = _scale(_limited(left if left > right else right, limits), p, total)
    return values, (a * scale, b * scale, c * scale, d * scale), scale


@compiled
def _mean_of_four(image, part, share, means, count, cell, limits, p, inverse, total):
    for t in range(count):
        _, (a, b, c, d), scale = _four(image, part, t, cell, limits, p, total)
        sum_ = _weight(a, p, total)[0] * a + _weight(b, p, total)[0] * b
        mean = (sum_ + (_weight(c, p, total)[0] * c + _weight(d, p, total)[0] * d)) * load(share, t, total)
        keep(means, t, _root(mean, scale, cell, p, inverse, total))


@compiled
def forward(
    start, stop, scratch, x, y, shares, powers, rule, room, cell, limits, whole, four, total, like, nothing
):
    """Bands ``start`` to ``stop`` of means, by the p of each channel and the share of each window."""
    (
        (band, several, above, pitch, part, images, channels, even),
        (image, half, _, _, scales, weights, step, _),
    ) = room
    image, half, scales, weights = scratch + image, scratch + half, scratch + scales, scratch + weights
    sums, share, count = scales + step, scales + 3 * step, band * pitch * rule[5]
    held = scales, sums, sums + step, weights, 0
    bands.fill(scratch, images, nothing)
    bands.fill(share, count, load(shares, 0, total))
    for item in range(start, stop):
        unit, first = item // several, item % several * band
        inverse = over(number(1, total), load(powers, unit % channels, total))
        p = _exponent(whole, powers, unit % channels, total)
        bands.cut(x, unit, first, band + above, scratch, rule, pitch, part, nothing)
        bands.widened(scratch, image, images, total, like)
        if not even:
            bands.spread_shares(shares, first, band, share, rule, pitch, total)
        if four is None:
            _sum(image, rule, pitch, part, held, count, cell, limits, p, total)
            _roots(sums, scales, share, count, cell, p, inverse, total)
        else:
            _mean_of_four(image, part, share, sums, count, cell, limits, p, inverse, total)
        bands.narrowed(sums, half, count, total, like)
        bands.write_outputs(half, y, unit, first, band, rule, pitch, like)


@compiled
def _factor(g, powers, share, p, inverse, total):
    # What the weights of a window are multiplied by.
    powers = total if g == total else powers
    mean = powers * share
    back = total if mean == mean and mean - mean != total else _back(mean, p, inverse, total)
    return total if powers == total else g * share * back


@compiled
def _slope(g, powers, moment, share, scale, inverse, total):
    # What the output changes with p, over log 2.
    powers = total if g == total else powers
    level = inverse * log2(powers * share)
    slope = g * over(exp2(level), scale) * inverse * (over(moment, powers) - level)
    return total if powers == total else slope


@compiled
def _send(image, rule, pitch, part, held, grads, share, totals, slots, slopes, count, p, inverse, total):
    scales, sums, moments, weights, step = held
    if slots is not None:
        for t in range(count):
            g, powers, moment = load(grads, t, total), load(sums, t, total), load(moments, t, total)
            some = _slope(g, powers, moment, load(share, t, total), load(scales, t, total), inverse, total)
            keep(slopes, t, some)
    for t in range(count):
        g, powers = load(grads, t, total), recall(sums, t, total)
        keep(sums, t, _factor(g, powers, load(share, t, total), p, inverse, total))
    for c in range(rule[2][0] * rule[2][1]):
        a, at = bands.cell_at(c, rule, pitch, part), weights + c * step
        for t in range(count):
            sent = recall(at, t, total) * load(sums, t, total)
            keep(totals, a + t, recall(totals, a + t, total) + sent)


@compiled
def _slopes_of_four(image, part, grads, share, slopes, count, cell, limits, p, inverse, total):
    for t in range(count):
        _, (a, b, c, d), scale = _four(image, part, t, cell, limits, p, total)
        (wa, la), (wb, lb) = _weight(a, p, total), _weight(b, p, total)
        (wc, lc), (wd, ld) = _weight(c, p, total), _weight(d, p, total)
        wa, wb, wc, wd = wa * a, wb * b, wc * c, wd * d
        moment = (wa * la + wb * lb) + (wc * lc + wd * ld)
        g, powers = load(grads, t, total), (wa + wb) + (wc + wd)
        keep(slopes, t, _slope(g, powers, moment, load(share, t, total), scale, inverse, total))


@compiled
def _send_to_four(image, part, grads, share, totals, count, cell, limits, p, inverse, total):
    for t in range(count):
        (va, vb, vc, vd), (a, b, c, d), _ = _four(image, part, t, cell, limits, p, total)
        wa, wb = _weight(a, p, total)[0], _weight(b, p, total)[0]
        wc, wd = _weight(c, p, total)[0], _weight(d, p, total)[0]
        powers = (wa * a + wb * b) + (wc * c + wd * d)
        f = _factor(load(grads, t, total), powers, load(share, t, total), p, inverse, total)
        a, b = f * _directed(wa, va, cell, total), f * _directed(wb, vb, cell, total)
        c, d = f * _directed(wc, vc, cell, total), f * _directed(wd, vd, cell, total)
        bands.put_four(totals, part, t, (a, b, c, d))


@compiled
def backward(
    start,
    stop,
    scratch,
    x,
    grad,
    out,
    slots,
    shares,
    powers,
    rule,
    room,
    cell,
    limits,
    whole,
    four,
    total,
    like,
    nothing,
):
    """Bands of gradients of inputs; in ``slots``, if there are any, what p gets of each band, over log 2."""
    (band, several, above, pitch, part, images, channels, even), places = room
    image, half, totals, rounded, scales, weights, step, wide = places
    image, half, totals, scales = scratch + image, scratch + half, scratch + totals, scratch + scales
    sums, share, grads = scales + step, scales + 3 * step, scales + 4 * step
    slopes, windows, zero = scales + 5 * step, band + above, narrow(total, like)
    held = scales, sums, sums + step, scratch + weights, step
    count = windows * pitch * rule[5]
    bands.fill(scratch, images, nothing)
    bands.fill(half, count, zero)
    bands.fill(share, count, load(shares, 0, total))
    for item in range(start, stop):
        unit, first = item // several, item % several * band - above
        inverse = over(number(1, total), load(powers, unit % channels, total))
        p = _exponent(whole, powers, unit % channels, total)
        bands.cut(x, unit, first, windows + above, scratch, rule, pitch, part, nothing)
        bands.widened(scratch, image, images, total, like)
        bands.read_outputs(grad, unit, first, windows, half, rule, pitch, zero)
        bands.widened(half, grads, count, total, like)
        if not even:
            bands.spread_shares(shares, first, windows, share, rule, pitch, total)
        if four is None:
            bands.fill(totals, images, total)
            _sum(image, rule, pitch, part, held, count, cell, limits, p, total)
            _send(
                image, rule, pitch, part, held, grads, share, totals, slots, slopes, count, p, inverse, total
            )
        else:
            if slots is not None:
                _slopes_of_four(image, part, grads, share, slopes, count, cell, limits, p, inverse, total)
            _send_to_four(image, part, grads, share, totals, count, cell, limits, p, inverse, total)
        if slots is not None:
            # The windows above the band belong to another one.
            skipped = above * pitch * rule[5]
            keep(slots, item, bands.folded(slopes + skipped * wide, count - skipped, total))
        bands.narrowed(totals, scratch + rounded, images, total, like)
        bands.paste(scratch + rounded, above, out, unit, first + above, band, rule, pitch, part, zero)
