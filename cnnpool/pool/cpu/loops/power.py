"""Power means of windows, (share * sum u^p)^(1/p), and their gradients; a band at a time (see
``band_buffers``). ``power_terms`` defines u and its power, and the scale that is divided out first.
"""

from typing import Any

from cnnpool.pool.cpu.loops import band_buffers, power_terms
from cnnpool.pool.cpu.loops.intrinsics import load, load_aliased, narrow, store, store_aliased
from cnnpool.pool.cpu.loops.signatures import Address, Band, Number, Room, compiled
from cnnpool.pool.cpu.loops.vector_math import number, over


@compiled
def _scales(
    image: Address, rule: Band, pitch: int, part: int, target: Address, count: int, cell: tuple[Number, ...],
    limits: tuple[Number, Number], p: Any, total: Number,
) -> None:  # fmt: skip
    for c in range(rule[2][0] * rule[2][1]):
        a = band_buffers.cell_at(c, rule, pitch, part)
        if c == 0:
            for t in range(count):
                store_aliased(target, t, power_terms.size(load(image, a + t, total), cell, total))
        else:
            for t in range(count):
                u = power_terms.size(load(image, a + t, total), cell, total)
                best = load_aliased(target, t, total)
                store_aliased(target, t, u if u > best else best)
    for t in range(count):
        top = power_terms.limited(load_aliased(target, t, total), limits)
        store_aliased(target, t, power_terms.scale(top, p, total)[0])


@compiled
def _add(
    image: Address, a: int, scales: Address, sums: Address, weights: Address, moments: Address, count: int,
    cell: tuple[Number, ...], p: Any, total: Number,
) -> None:  # fmt: skip
    for t in range(count):
        v = load(image, a + t, total)
        r = power_terms.size(v, cell, total) * load(scales, t, total)
        weight, level = power_terms.weight(r, p, total)
        power = weight * r
        store_aliased(sums, t, load_aliased(sums, t, total) + power)
        store_aliased(moments, t, load_aliased(moments, t, total) + power * level)
        store(weights, t, power_terms.directed(weight, v, cell, total))


@compiled
def _sum(
    image: Address, rule: Band, pitch: int, part: int, held: tuple[int, int, int, int, int], count: int,
    cell: tuple[Number, ...], limits: tuple[Number, Number], p: Any, total: Number,
) -> None:  # fmt: skip
    # 1 / largest, sums of powers, and of powers times logarithms; weights are kept if ``step`` is not 0.
    scales, sums, moments, weights, step = held
    _scales(image, rule, pitch, part, scales, count, cell, limits, p, total)
    band_buffers.fill(sums, count, total)
    band_buffers.fill(moments, count, total)
    for c in range(rule[2][0] * rule[2][1]):
        a = band_buffers.cell_at(c, rule, pitch, part)
        _add(image, a, scales, sums, weights + c * step, moments, count, cell, p, total)


@compiled
def _roots(
    sums: Address, scales: Address, share: Address, count: int, cell: tuple[Number, ...],
    limits: tuple[Number, Number], p: Any, inverse: Number, total: Number,
) -> None:  # fmt: skip
    for t in range(count):
        mean = load_aliased(sums, t, total) * load(share, t, total)
        unscaled = over(number(1, total), load(scales, t, total))
        store_aliased(sums, t, power_terms.root(mean, unscaled, cell, limits, p, inverse, total))


@compiled
def forward(
    start: int, stop: int, scratch: Address, x: Address, y: Address, shares: Address, powers: Address,
    rule: Band, room: Room, cell: tuple[Number, ...], limits: tuple[Number, Number], _: Number, whole: Any,
    total: Number, like: Number, nothing: Number,
) -> None:  # fmt: skip
    """Means of bands ``start`` to ``stop``, by the p of each channel and the share of each window."""
    (
        (band, several, above, pitch, part, images, channels, even),
        (image, half, _, _, scales, weights, step, _),
    ) = room
    image, half, scales, weights = scratch + image, scratch + half, scratch + scales, scratch + weights
    sums, share, count = scales + step, scales + 3 * step, band * pitch * rule[5]
    held = scales, sums, sums + step, weights, 0
    band_buffers.fill(scratch, images, nothing)
    band_buffers.fill(share, count, load(shares, 0, total))
    for item in range(start, stop):
        unit, first = item // several, item % several * band
        inverse = over(number(1, total), load(powers, unit % channels, total))
        p = power_terms.exponent(whole, powers, unit % channels, total)
        band_buffers.cut(x, unit, first, band + above, scratch, rule, pitch, part, nothing)
        band_buffers.widened(scratch, image, images, total, like)
        if not even:
            band_buffers.spread_shares(shares, first, band, share, rule, pitch, total)
        _sum(image, rule, pitch, part, held, count, cell, limits, p, total)
        _roots(sums, scales, share, count, cell, limits, p, inverse, total)
        band_buffers.narrowed(sums, half, count, total, like)
        band_buffers.write_outputs(half, y, unit, first, band, rule, pitch, like)


@compiled
def _send(
    image: Address, rule: Band, pitch: int, part: int, held: tuple[int, int, int, int, int], grads: Address,
    share: Address, totals: Address, slots: Address | None, slopes: Address, count: int,
    limits: tuple[Number, Number], p: Any, inverse: Number, total: Number,
) -> None:  # fmt: skip
    scales, sums, moments, weights, step = held
    if slots is not None:
        for t in range(count):
            g, powers, moment = load(grads, t, total), load(sums, t, total), load(moments, t, total)
            unscaled = over(number(1, total), load(scales, t, total))
            some = power_terms.slope(g, powers, moment, load(share, t, total), unscaled, inverse, total)
            store_aliased(slopes, t, some)
    for t in range(count):
        g, powers = load(grads, t, total), load_aliased(sums, t, total)
        f = power_terms.factor(g, powers, load(share, t, total), limits, p, inverse, total)
        store_aliased(sums, t, f)
    for c in range(rule[2][0] * rule[2][1]):
        a, at = band_buffers.cell_at(c, rule, pitch, part), weights + c * step
        for t in range(count):
            sent = load_aliased(at, t, total) * load(sums, t, total)
            store_aliased(totals, a + t, load_aliased(totals, a + t, total) + sent)


@compiled
def backward(
    start: int, stop: int, scratch: Address, x: Address, grad: Address, out: Address, slots: Address | None,
    shares: Address, powers: Address, rule: Band, room: Room, cell: tuple[Number, ...],
    limits: tuple[Number, Number], _: Number, whole: Any, total: Number, like: Number, nothing: Number,
) -> None:  # fmt: skip
    """Gradients of inputs, by band, and in ``slots``, if given, those of p by band, over log 2."""
    (band, several, above, pitch, part, images, channels, even), places = room
    image, half, totals, rounded, scales, weights, step, wide = places
    image, half, totals, scales = scratch + image, scratch + half, scratch + totals, scratch + scales
    sums, share, grads = scales + step, scales + 3 * step, scales + 4 * step
    slopes, windows, zero = scales + 5 * step, band + above, narrow(total, like)
    held = scales, sums, sums + step, scratch + weights, step
    count = windows * pitch * rule[5]
    band_buffers.fill(scratch, images, nothing)
    band_buffers.fill(half, count, zero)
    band_buffers.fill(share, count, load(shares, 0, total))
    for item in range(start, stop):
        unit, first = item // several, item % several * band - above
        inverse = over(number(1, total), load(powers, unit % channels, total))
        p = power_terms.exponent(whole, powers, unit % channels, total)
        band_buffers.cut(x, unit, first, windows + above, scratch, rule, pitch, part, nothing)
        band_buffers.widened(scratch, image, images, total, like)
        band_buffers.read_outputs(grad, unit, first, windows, half, rule, pitch, zero)
        band_buffers.widened(half, grads, count, total, like)
        if not even:
            band_buffers.spread_shares(shares, first, windows, share, rule, pitch, total)
        band_buffers.fill(totals, images, total)
        _sum(image, rule, pitch, part, held, count, cell, limits, p, total)
        _send(
            image, rule, pitch, part, held, grads, share, totals, slots, slopes, count, limits, p, inverse,
            total,
        )  # fmt: skip
        if slots is not None:
            # Windows above the band belong to another band.
            skipped = above * pitch * rule[5]
            store_aliased(slots, item, band_buffers.folded(slopes + skipped * wide, count - skipped, total))
        band_buffers.narrowed(totals, scratch + rounded, images, total, like)
        band_buffers.paste(scratch + rounded, above, out, unit, first + above, band, rule, pitch, part, zero)
