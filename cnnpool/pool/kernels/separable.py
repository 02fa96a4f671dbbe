"""Sums over windows with a weight per row and per column: averages and blurs, and their adjoints.

Both axes are given as tables: for every result the pixels that it adds up, and with which weights. The rows
of a map are mixed first (last in the adjoint). Columns of contiguous maps whose width is a multiple of the
stride are mixed for a whole plane at once, as if they had no ends; the few results that reach past an end
are then made anew.
"""

from numba import int64

from cnnpool.pool.kernels.memory import compiled, keep, load, narrow, recall, store, widen
from cnnpool.pool.kernels.rows import deal, gather


@compiled
def _mix(source, origin, pitch, table, result, target, count, total, like):
    # The weighted sum of the stretches that ``result`` is made of, ``pitch`` elements apart in ``source``.
    starts, places, weights = table
    entry, end = load(starts, result, int64(0)), load(starts, result + 1, int64(0))
    if entry == end:
        for t in range(count):
            keep(target, t, total)
        return
    a, wa = origin + load(places, entry, int64(0)) * pitch, load(weights, entry, total)
    if end - entry == 1:
        for t in range(count):
            keep(target, t, wa * widen(load(source, a + t, like)))
        return
    b, wb = origin + load(places, entry + 1, int64(0)) * pitch, load(weights, entry + 1, total)
    if end - entry == 2:
        for t in range(count):
            keep(target, t, wa * widen(load(source, a + t, like)) + wb * widen(load(source, b + t, like)))
        return
    c, wc = origin + load(places, entry + 2, int64(0)) * pitch, load(weights, entry + 2, total)
    for t in range(count):
        value = wa * widen(load(source, a + t, like)) + wb * widen(load(source, b + t, like))
        keep(target, t, value + wc * widen(load(source, c + t, like)))
    for more in range(entry + 3, end):
        a, wa = origin + load(places, more, int64(0)) * pitch, load(weights, more, total)
        for t in range(count):
            keep(target, t, recall(target, t, total) + wa * widen(load(source, a + t, like)))


@compiled
def _sum(source, origin, table, result, total):
    # As ``_mix``, of single numbers.
    starts, places, weights = table
    value = total
    for entry in range(load(starts, result, int64(0)), load(starts, result + 1, int64(0))):
        at = origin + load(places, entry, int64(0))
        value += load(weights, entry, total) * load(source, at, total)
    return value


@compiled
def _finish(values, divisors, out, at, count, total, like):
    if divisors:
        for t in range(count):
            store(out, at + t, narrow(load(values, t, total) / load(divisors, t, total), like))
    else:
        for t in range(count):
            store(out, at + t, narrow(load(values, t, total), like))


@compiled
def _divide(source, at, divisors, target, count, total, like):
    if divisors:
        for t in range(count):
            keep(target, t, widen(load(source, at + t, like)) / load(divisors, t, total))
    else:
        for t in range(count):
            keep(target, t, widen(load(source, at + t, like)))


@compiled
def forward(
    start, stop, scratch, x, y, size, out_size, down, across, common, ends, divisors, room, total, like
):
    """Contiguous maps, planes ``start`` to ``stop``.

    ``down`` and ``across`` are the tables of rows and columns; ``common`` that of a column away from the
    ends, or nothing if ``ends``, the stride and the results that reach past the left and the right end,
    begins with 0.
    """
    (height, width), (rows, columns), (stride, left, right) = size, out_size, ends
    wide, mixed, dealt, sums = room[0], scratch + room[1], scratch + room[2], scratch + room[3]
    anew = left + right if stride else columns
    for plane in range(start, stop):
        for row in range(rows):
            _mix(x, plane * height * width, width, down, row, mixed + row * width * wide, width, total, like)
        if stride == 1:
            _mix(mixed, 0, 1, common, 0, sums, rows * columns, total, total)
        elif stride:
            deal(mixed, 0, rows * width, dealt, 0, rows * columns, 0, stride, total)
            _mix(dealt, 0, 1, common, 0, sums, rows * columns, total, total)
        for row in range(rows):
            for end in range(anew):
                c = end if end < left else end + columns - anew
                keep(sums, row * columns + c, _sum(mixed, row * width, across, c, total))
        _finish(sums, divisors, y, plane * rows * columns, rows * columns, total, like)


@compiled
def adjoint(
    start, stop, scratch, grad, out, size, out_size, down, across, common, ends, divisors, room, total, like
):
    """As ``forward``, from gradients of outputs to those of inputs; the tables are those of the inputs."""
    (height, width), (rows, columns), (stride, left, right) = size, out_size, ends
    wide, mixed, dealt, sums = room[0], scratch + room[1], scratch + room[2], scratch + room[3]
    anew = left + right if stride else width
    for plane in range(start, stop):
        _divide(grad, plane * rows * columns, divisors, sums, rows * columns, total, like)
        if stride == 1:
            _mix(sums, 0, 1, common, 0, mixed, rows * width, total, total)
        elif stride:
            for phase in range(stride):
                part = dealt + phase * rows * columns * wide
                _mix(sums, 0, 1, common, phase, part, rows * columns, total, total)
            gather(dealt, 0, rows * columns, mixed, 0, rows * width, 0, stride, total)
        for row in range(rows):
            for end in range(anew):
                w = end if end < left else end + width - anew
                keep(mixed, row * width + w, _sum(sums, row * columns, across, w, total))
        for h in range(height):
            _mix(mixed, 0, width, down, h, dealt + h * width * wide, width, total, total)
        _finish(dealt, 0, out, plane * height * width, height * width, total, like)


@compiled
def forward_last(
    start, stop, scratch, x, y, size, out_size, channels, down, across, divisors, room, total, like
):
    """Channels-last maps, rows ``start`` to ``stop`` of all samples' outputs."""
    (height, width), (rows, columns) = size, out_size
    mixed, sums = scratch + room[1], scratch + room[2]
    for line in range(start, stop):
        sample, row = line // rows, line % rows
        stretch = width * channels
        _mix(x, sample * height * stretch, stretch, down, row, mixed, stretch, total, like)
        for c in range(columns):
            _mix(mixed, 0, channels, across, c, sums, channels, total, total)
            at = (line * columns + c) * channels
            if divisors:
                divisor = load(divisors, row * columns + c, total)
                for k in range(channels):
                    store(y, at + k, narrow(load(sums, k, total) / divisor, like))
            else:
                for k in range(channels):
                    store(y, at + k, narrow(load(sums, k, total), like))


@compiled
def adjoint_last(
    start, stop, scratch, grad, out, size, out_size, channels, down, across, divisors, room, total, like
):
    """Channels-last maps, samples ``start`` to ``stop``."""
    (height, width), (rows, columns) = size, out_size
    scaled, mixed, sums = scratch + room[1], scratch + room[2], scratch + room[3]
    stretch = columns * channels
    for sample in range(start, stop):
        if not divisors:
            _divide(grad, sample * rows * stretch, 0, scaled, rows * stretch, total, like)
        for pixel in range(rows * columns if divisors else 0):
            divisor, at = load(divisors, pixel, total), pixel * channels
            for k in range(channels):
                share = widen(load(grad, sample * rows * stretch + at + k, like))
                keep(scaled, at + k, share / divisor)
        for h in range(height):
            _mix(scaled, 0, stretch, down, h, mixed, stretch, total, total)
            for w in range(width):
                _mix(mixed, 0, channels, across, w, sums, channels, total, total)
                at = ((sample * height + h) * width + w) * channels
                for k in range(channels):
                    store(out, at + k, narrow(load(sums, k, total), like))
