"""Means of windows weighted by softmax(beta x), and their gradients; a band at a time (see
``band_buffers``)."""

from cnnpool.pool.cpu.loops import band_buffers
from cnnpool.pool.cpu.loops.intrinsics import load, load_aliased, narrow, store, store_aliased
from cnnpool.pool.cpu.loops.signatures import Address, Band, Number, Room, compiled
from cnnpool.pool.cpu.loops.vector_math import exp2, number, over


@compiled
def _bounded(v: Number, bound: Number) -> Number:
    # Bounded so that differences and products are finite.
    v = bound if v > bound else v
    return -bound if v < -bound else v


@compiled
def _peak(
    image: Address, rule: Band, pitch: int, part: int, target: Address, count: int, total: Number
) -> None:
    for c in range(rule[2][0] * rule[2][1]):
        a = band_buffers.cell_at(c, rule, pitch, part)
        if c == 0:
            for t in range(count):
                store_aliased(target, t, load(image, a + t, total))
        else:
            for t in range(count):
                v, best = load(image, a + t, total), load_aliased(target, t, total)
                store_aliased(target, t, v if v > best or v != v else best)


@compiled
def _add(
    image: Address, a: int, peaks: Address, weights: Address, values: Address, held: Address, count: int,
    slope: Number, bound: Number, total: Number,
) -> None:  # fmt: skip
    for t in range(count):
        v, peak = load(image, a + t, total), load(peaks, t, total)
        v = _bounded(v, bound)
        e = exp2(slope * (v - _bounded(peak, bound)))
        store_aliased(weights, t, load_aliased(weights, t, total) + e)
        store_aliased(values, t, load_aliased(values, t, total) + e * v)
        store(held, t, e)


@compiled
def _mean(
    image: Address, rule: Band, pitch: int, part: int, stretches: tuple[int, int, int, int, int], count: int,
    slope: Number, bound: Number, total: Number,
) -> None:  # fmt: skip
    # Largest values, sums of weights and means; the weights of every cell are kept if ``step`` is not 0.
    peaks, weights, values, held, step = stretches
    _peak(image, rule, pitch, part, peaks, count, total)
    band_buffers.fill(weights, count, total)
    band_buffers.fill(values, count, total)
    for c in range(rule[2][0] * rule[2][1]):
        a = band_buffers.cell_at(c, rule, pitch, part)
        _add(image, a, peaks, weights, values, held + c * step, count, slope, bound, total)
    for t in range(count):
        peak, mean = load(peaks, t, total), over(load_aliased(values, t, total), load(weights, t, total))
        # An infinite window gives its maximum.
        store_aliased(values, t, peak if peak - peak != total and peak == peak else mean)


@compiled
def _sent(share: Number, v: Number, mean: Number, beta: Number, total: Number) -> Number:
    # Far below the mean the product may be infinite, but not where the share is 0.
    sent = share * (number(1, total) + beta * (v - mean))
    return total if share == total else sent


@compiled
def forward(
    start: int, stop: int, scratch: Address, x: Address, y: Address, slopes: Address, rule: Band, room: Room,
    bound: Number, log_2: Number, total: Number, like: Number, nothing: Number,
) -> None:  # fmt: skip
    """Bands ``start`` to ``stop`` of means; ``slopes`` has the beta / log 2 of every channel."""
    (band, several, above, pitch, part, images, channels, _), held_at = room
    image, half, _, _, peaks, held, step, _ = held_at
    image, half, peaks, held = scratch + image, scratch + half, scratch + peaks, scratch + held
    values, count = peaks + 2 * step, band * pitch * rule[5]
    band_buffers.fill(scratch, images, nothing)
    for item in range(start, stop):
        unit, first = item // several, item % several * band
        band_buffers.cut(x, unit, first, band + above, scratch, rule, pitch, part, nothing)
        band_buffers.widened(scratch, image, images, total, like)
        stretches = peaks, peaks + step, values, held, 0
        slope = load(slopes, unit % channels, total)
        _mean(image, rule, pitch, part, stretches, count, slope, bound, total)
        band_buffers.narrowed(values, half, count, total, like)
        band_buffers.write_outputs(half, y, unit, first, band, rule, pitch, like)


@compiled
def _factor(
    grads: Address, weights: Address, values: Address, count: int, bound: Number, total: Number
) -> None:
    # An infinite window has no gradient; its mean is bounded, so that 0 times it is 0.
    for t in range(count):
        g, mean = load(grads, t, total), load_aliased(values, t, total)
        infinite = mean > bound or mean < -bound
        share = over(g, load_aliased(weights, t, total))
        store_aliased(weights, t, total if infinite or g == total else share)
        store_aliased(values, t, total if infinite else mean)


@compiled
def _send(
    image: Address, a: int, held: Address, weights: Address, values: Address, totals: Address, count: int,
    beta: Number, bound: Number, total: Number,
) -> None:  # fmt: skip
    for t in range(count):
        share = load_aliased(held, t, total) * load(weights, t, total)
        sent = _sent(share, _bounded(load(image, a + t, total), bound), load(values, t, total), beta, total)
        store_aliased(totals, a + t, load_aliased(totals, a + t, total) + sent)


@compiled
def _vary(
    image: Address, a: int, held: Address, weights: Address, values: Address, moments: Address, count: int,
    bound: Number, total: Number,
) -> None:  # fmt: skip
    for t in range(count):
        share = load_aliased(held, t, total) * load(weights, t, total)
        away = _bounded(load(image, a + t, total), bound) - load(values, t, total)
        moment = share * away * away if share != total else total
        store_aliased(moments, t, load_aliased(moments, t, total) + moment)


@compiled
def backward(
    start: int, stop: int, scratch: Address, x: Address, grad: Address, out: Address, slots: Address | None,
    slopes: Address, rule: Band, room: Room, bound: Number, log_2: Number, total: Number, like: Number,
    nothing: Number,
) -> None:  # fmt: skip
    """Bands of gradients of inputs, and in ``slots``, if given, that of beta from each band."""
    (band, several, above, pitch, part, images, channels, _), held_at = room
    image, half, totals, rounded, peaks, held, step, wide = held_at
    image, half, totals, peaks, held = (
        scratch + image,
        scratch + half,
        scratch + totals,
        scratch + peaks,
        scratch + held,
    )
    weights, values, moments, grads = peaks + step, peaks + 2 * step, peaks + 3 * step, peaks + 4 * step
    windows, zero = band + above, narrow(total, like)
    count = windows * pitch * rule[5]
    band_buffers.fill(scratch, images, nothing)
    band_buffers.fill(half, count, zero)
    for item in range(start, stop):
        unit, first = item // several, item % several * band - above
        band_buffers.cut(x, unit, first, windows + above, scratch, rule, pitch, part, nothing)
        band_buffers.widened(scratch, image, images, total, like)
        band_buffers.read_outputs(grad, unit, first, windows, half, rule, pitch, zero)
        band_buffers.widened(half, grads, count, total, like)
        slope = load(slopes, unit % channels, total)
        beta = slope * log_2
        _mean(image, rule, pitch, part, (peaks, weights, values, held, step), count, slope, bound, total)
        _factor(grads, weights, values, count, bound, total)
        band_buffers.fill(totals, images, total)
        band_buffers.fill(moments, count, total)
        for c in range(rule[2][0] * rule[2][1]):
            a, at = band_buffers.cell_at(c, rule, pitch, part), held + c * step
            _send(image, a, at, weights, values, totals, count, beta, bound, total)
            if slots is not None:
                _vary(image, a, at, weights, values, moments, count, bound, total)
        if slots is not None:
            # Windows above the band belong to another band.
            skipped = above * pitch * rule[5]
            store_aliased(slots, item, band_buffers.folded(moments + skipped * wide, count - skipped, total))
        band_buffers.narrowed(totals, scratch + rounded, images, total, like)
        band_buffers.paste(scratch + rounded, above, out, unit, first + above, band, rule, pitch, part, zero)
