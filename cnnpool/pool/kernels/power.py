"""Power means of windows, (share * sum u^p)^(1/p), and their gradients; a band at a time (see ``bands``).

What u is and how it is raised is in ``terms``. The largest u of a window, kept to where its inverse is a
normal number, is divided out first, for the whole powers its power of 2.
"""

from cnnpool.pool.kernels import bands, terms
from cnnpool.pool.kernels.elementary import number, over
from cnnpool.pool.kernels.memory import compiled, keep, load, narrow, recall, store


@compiled
def _scales(image, rule, pitch, part, target, count, cell, limits, p, total):
    for c in range(rule[2][0] * rule[2][1]):
        a = bands.cell_at(c, rule, pitch, part)
        if c == 0:
            for t in range(count):
                keep(target, t, terms.size(load(image, a + t, total), cell, total))
        else:
            for t in range(count):
                u, best = terms.size(load(image, a + t, total), cell, total), recall(target, t, total)
                keep(target, t, u if u > best else best)
    for t in range(count):
        keep(target, t, terms.scale(terms.limited(recall(target, t, total), limits), p, total))


@compiled
def _add(image, a, scales, sums, weights, moments, count, cell, p, total):
    for t in range(count):
        v = load(image, a + t, total)
        r = terms.size(v, cell, total) * load(scales, t, total)
        weight, level = terms.weight(r, p, total)
        power = weight * r
        keep(sums, t, recall(sums, t, total) + power)
        keep(moments, t, recall(moments, t, total) + power * level)
        store(weights, t, terms.directed(weight, v, cell, total))


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
def _roots(sums, scales, share, count, cell, p, inverse, total):
    for t in range(count):
        mean = recall(sums, t, total) * load(share, t, total)
        keep(sums, t, terms.root(mean, load(scales, t, total), cell, p, inverse, total))


@compiled
def _four(image, part, t, cell, limits, p, total):
    # A window of four, what is read of it, scaled, and the scale.
    values = bands.four(image, part, t, total)
    a, b, c, d = values
    a, b = terms.size(a, cell, total), terms.size(b, cell, total)
    c, d = terms.size(c, cell, total), terms.size(d, cell, total)
    left, right = a if a > b else b, c if c > d else d
    scale = terms.scale(terms.limited(left if left > right else right, limits), p, total)
    return values, (a * scale, b * scale, c * scale, d * scale), scale


@compiled
def _mean_of_four(image, part, share, means, count, cell, limits, p, inverse, total):
    for t in range(count):
        _, (a, b, c, d), scale = _four(image, part, t, cell, limits, p, total)
        sum_ = terms.weight(a, p, total)[0] * a + terms.weight(b, p, total)[0] * b
        sum_ += terms.weight(c, p, total)[0] * c + terms.weight(d, p, total)[0] * d
        mean = sum_ * load(share, t, total)
        keep(means, t, terms.root(mean, scale, cell, p, inverse, total))


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
        p = terms.exponent(whole, powers, unit % channels, total)
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
def _send(image, rule, pitch, part, held, grads, share, totals, slots, slopes, count, p, inverse, total):
    scales, sums, moments, weights, step = held
    if slots is not None:
        for t in range(count):
            g, powers, moment = load(grads, t, total), load(sums, t, total), load(moments, t, total)
            some = terms.slope(
                g, powers, moment, load(share, t, total), load(scales, t, total), inverse, total
            )
            keep(slopes, t, some)
    for t in range(count):
        g, powers = load(grads, t, total), recall(sums, t, total)
        keep(sums, t, terms.factor(g, powers, load(share, t, total), p, inverse, total))
    for c in range(rule[2][0] * rule[2][1]):
        a, at = bands.cell_at(c, rule, pitch, part), weights + c * step
        for t in range(count):
            sent = recall(at, t, total) * load(sums, t, total)
            keep(totals, a + t, recall(totals, a + t, total) + sent)


@compiled
def _slopes_of_four(image, part, grads, share, slopes, count, cell, limits, p, inverse, total):
    for t in range(count):
        _, (a, b, c, d), scale = _four(image, part, t, cell, limits, p, total)
        (wa, la), (wb, lb) = terms.weight(a, p, total), terms.weight(b, p, total)
        (wc, lc), (wd, ld) = terms.weight(c, p, total), terms.weight(d, p, total)
        wa, wb, wc, wd = wa * a, wb * b, wc * c, wd * d
        moment = (wa * la + wb * lb) + (wc * lc + wd * ld)
        g, powers = load(grads, t, total), (wa + wb) + (wc + wd)
        keep(slopes, t, terms.slope(g, powers, moment, load(share, t, total), scale, inverse, total))


@compiled
def _send_to_four(image, part, grads, share, totals, count, cell, limits, p, inverse, total):
    for t in range(count):
        (va, vb, vc, vd), (a, b, c, d), _ = _four(image, part, t, cell, limits, p, total)
        wa, wb = terms.weight(a, p, total)[0], terms.weight(b, p, total)[0]
        wc, wd = terms.weight(c, p, total)[0], terms.weight(d, p, total)[0]
        powers = (wa * a + wb * b) + (wc * c + wd * d)
        f = terms.factor(load(grads, t, total), powers, load(share, t, total), p, inverse, total)
        a, b = f * terms.directed(wa, va, cell, total), f * terms.directed(wb, vb, cell, total)
        c, d = f * terms.directed(wc, vc, cell, total), f * terms.directed(wd, vd, cell, total)
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
        p = terms.exponent(whole, powers, unit % channels, total)
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
