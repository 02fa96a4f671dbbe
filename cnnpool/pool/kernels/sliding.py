"""Maxima of sliding windows of any kind, and their gradients.

On contiguous maps a plane is worked at in bands of rows that fit into the nearest cache: rows are dealt
into parts (see ``rows``), one part per row and column modulo the strides, all padded alike. Then one cell
of all windows of a band is one stretch of memory, and so is its contribution to the gradient.
"""

from numba import uint8

from cnnpool.pool.kernels.memory import beats, compiled, keep, load, narrow, recall, store, widen
from cnnpool.pool.kernels.rows import deal, gather, move

# The place of no cell: windows here have at most 255.
NOWHERE = uint8(255)


@compiled
def _beat(images, source, y, winners, count, place, like):
    # One cell of every window.
    for t in range(count):
        best, value = recall(y, t, like), load(images, source + t, like)
        take, held = beats(value, best), recall(winners, t, place)
        keep(y, t, value if take else best)
        keep(winners, t, place if take else held)


@compiled
def _beat_three(images, a, b, c, y, winners, count, place, like):
    # Three neighbouring cells in one go.
    second, third = uint8(place + 1), uint8(place + 2)
    for t in range(count):
        best, value = recall(y, t, like), load(images, a + t, like)
        take, held = beats(value, best), recall(winners, t, place)
        best, held, value = value if take else best, place if take else held, load(images, b + t, like)
        take = beats(value, best)
        best, held, value = value if take else best, second if take else held, load(images, c + t, like)
        take = beats(value, best)
        keep(y, t, value if take else best)
        keep(winners, t, third if take else held)


@compiled
def _start(y, winners, band, pitch, top, columns, window, lowest):
    # A window of nothing but -inf is won by its first cell inside the map.
    (_, kw), (sh, sw), (_, pw), (dh, dw) = window
    for t in range(band * pitch):
        keep(y, t, lowest)
        keep(winners, t, uint8(0))
    for r in range(band):
        above = top + r * sh
        first = -(above // dh) * kw if above < 0 else 0
        for c in range(columns if first else min(columns, -(-pw // sw))):
            left = c * sw - pw
            keep(winners, r * pitch + c, uint8(first + (-(left // dw) if left < 0 else 0)))


@compiled
def forward(start, stop, scratch, x, y, winners, size, out_size, window, room, lowest):
    """Contiguous maps, planes ``start`` to ``stop``; ``room``: band, pitch, part, offsets."""
    (height, width), (rows, columns) = size, out_size
    (kh, kw), (sh, sw), (ph, pw), (dh, dw) = window
    bands, pitch, part, best, places = room
    best, places, images = scratch + best, scratch + places, scratch
    for t in range(sh * sw * part):
        keep(images, t, lowest)
    for plane in range(start, stop):
        for begin in range(0, rows, bands):
            band = min(bands, rows - begin)
            top = begin * sh - ph
            for row in range((band - 1) * sh + (kh - 1) * dh + 1):
                target = row % sh * sw * part + row // sh * pitch
                if 0 <= top + row < height:
                    source = (plane * height + top + row) * width
                    deal(x, source, width, images, target, part, pw, sw, lowest)
                else:
                    for phase in range(sw):
                        for t in range(pitch):
                            keep(images, target + phase * part + t, lowest)
            _start(best, places, band, pitch, top, columns, window, lowest)
            for i in range(kh):
                line = i * dh % sh * sw * part + i * dh // sh * pitch
                j = 0
                while j < kw:
                    a = line + j * dw % sw * part + j * dw // sw
                    if j + 3 <= kw:
                        b = line + (j + 1) * dw % sw * part + (j + 1) * dw // sw
                        c = line + (j + 2) * dw % sw * part + (j + 2) * dw // sw
                        _beat_three(images, a, b, c, best, places, band * pitch, uint8(i * kw + j), lowest)
                        j += 3
                    else:
                        _beat(images, a, best, places, band * pitch, uint8(i * kw + j), lowest)
                        j += 1
            for r in range(band):
                out = (plane * rows + begin + r) * columns
                move(best, r * pitch, y, out, columns, lowest)
                move(places, r * pitch, winners, out, columns, uint8(0))


@compiled
def _send(grads, winners, a, place_a, b, place_b, sums, count, fresh, total, like):
    # What two cells of every window get: the first or only ones, or ones more.
    if fresh:
        for t in range(count):
            one, two = widen(load(grads, a + t, like)), widen(load(grads, b + t, like))
            one = one if load(winners, a + t, place_a) == place_a else total
            two = two if load(winners, b + t, place_b) == place_b else total
            keep(sums, t, total + one + two)
    else:
        for t in range(count):
            one, two = widen(load(grads, a + t, like)), widen(load(grads, b + t, like))
            one = one if load(winners, a + t, place_a) == place_a else total
            two = two if load(winners, b + t, place_b) == place_b else total
            keep(sums, t, recall(sums, t, total) + one + two)


@compiled
def _collect(grads, winners, nothing, sums, count, rest, window, pitch, origin, total, like):
    # What all cells of all windows send to the part of a band that has these rows and columns modulo strides.
    (kh, kw), (sh, sw), _, (dh, dw) = window
    fresh, waiting, place = True, nothing, uint8(0)
    for i in range(kh - 1, -1, -1):
        for j in range(kw - 1, -1, -1):
            if i * dh % sh != rest[0] or j * dw % sw != rest[1]:
                continue
            source, here = origin - i * dh // sh * pitch - j * dw // sw, uint8(i * kw + j)
            if waiting == nothing:
                waiting, place = source, here
                continue
            _send(grads, winners, waiting, place, source, here, sums, count, fresh, total, like)
            fresh, waiting = False, nothing
    if fresh or waiting != nothing:
        _send(grads, winners, waiting, place, nothing, place, sums, count, fresh, total, like)


@compiled
def backward(start, stop, scratch, grad, winners, out, size, out_size, window, room, total, like):
    """Contiguous maps, planes ``start`` to ``stop``; sums are kept in the type of ``total``.

    Every input adds up what the windows over it send, in the order of the windows.
    """
    (height, width), (rows, columns) = size, out_size
    (kh, kw), (sh, sw), (ph, pw), (dh, dw) = window
    bands, pitch, part, nothing, places, sums, wide, halves = room
    above, before = (kh - 1) * dh // sh, (kw - 1) * dw // sw
    grads, places, sums, halves = scratch, scratch + places, scratch + sums, scratch + halves
    origin = above * pitch + before
    for t in range(nothing + part):
        keep(grads, t, like)
        keep(places, t, uint8(0))
    lines = (height - 1 + ph) // sh + 1
    for plane in range(start, stop):
        for begin in range(0, lines, bands):
            band = min(bands, lines - begin)
            for r in range(band + above):
                row, target = begin - above + r, r * pitch + before
                if 0 <= row < rows:
                    source = (plane * rows + row) * columns
                    move(grad, source, grads, target, columns, like)
                    move(winners, source, places, target, columns, uint8(0))
                else:
                    for t in range(columns):
                        keep(grads, target + t, like)
            for v in range(sh):
                for phase in range(sw):
                    target, rest = sums + phase * part * wide, (v, phase)
                    _collect(
                        grads, places, nothing, target, band * pitch, rest, window, pitch, origin, total, like
                    )
                if halves != sums:
                    for t in range(sw * part):
                        keep(halves, t, narrow(load(sums, t, total), like))
                for r in range(band):
                    h = (begin + r) * sh + v - ph
                    if 0 <= h < height:
                        gather(
                            halves, r * pitch, part, out, (plane * height + h) * width, width, pw, sw, like
                        )


@compiled
def forward_last(start, stop, scratch, x, y, winners, size, out_size, window, channels, like):
    """Channels-last maps, rows ``start`` to ``stop`` of all samples' outputs."""
    (height, width), (rows, columns) = size, out_size
    (kh, kw), (sh, sw), (ph, pw), (dh, dw) = window
    for line in range(start, stop):
        sample, top = line // rows, line % rows * sh - ph
        for c in range(columns):
            out, left, fresh = (line * columns + c) * channels, c * sw - pw, True
            begin, end = -(left // dw) if left < 0 else 0, min(kw, (width - 1 - left) // dw + 1)
            for i in range(-(top // dh) if top < 0 else 0, min(kh, (height - 1 - top) // dh + 1)):
                origin, j = ((sample * height + top + i * dh) * width + left) * channels, begin
                while j < end:
                    # Three cells at once; where fewer are left the last is seen again, which changes nothing.
                    a, b, last = origin + j * dw * channels, min(j + 1, end - 1), min(j + 2, end - 1)
                    places = uint8(i * kw + j), uint8(i * kw + b), uint8(i * kw + last)
                    cells = a, origin + b * dw * channels, origin + last * dw * channels
                    _win(x, cells, places, y, winners, out, channels, fresh, like)
                    j, fresh = j + 3, False


@compiled
def _win(x, cells, places, y, winners, out, channels, fresh, like):
    (a, b, c), (first, second, third) = cells, places
    if fresh:
        for k in range(channels):
            best, held, value = load(x, a + k, like), first, load(x, b + k, like)
            take = beats(value, best)
            best, held, value = value if take else best, second if take else held, load(x, c + k, like)
            take = beats(value, best)
            keep(y, out + k, value if take else best)
            keep(winners, out + k, third if take else held)
    else:
        for k in range(channels):
            best, held, value = (
                recall(y, out + k, like),
                recall(winners, out + k, first),
                load(x, a + k, like),
            )
            take = beats(value, best)
            best, held, value = value if take else best, first if take else held, load(x, b + k, like)
            take = beats(value, best)
            best, held, value = value if take else best, second if take else held, load(x, c + k, like)
            take = beats(value, best)
            keep(y, out + k, value if take else best)
            keep(winners, out + k, third if take else held)


@compiled
def backward_last(start, stop, scratch, grad, winners, out, size, out_size, window, channels, total, like):
    """Channels-last maps, rows ``start`` to ``stop`` of all samples' inputs; as ``backward``."""
    (height, width), (rows, columns) = size, out_size
    (kh, kw), (sh, sw), (ph, pw), (dh, dw) = window
    for line in range(start, stop):
        sample, h = line // height, line % height
        for w in range(width):
            fresh, waiting, place = True, -1, NOWHERE
            for i in range(kh - 1, -1, -1):
                row = (h + ph - i * dh) // sh
                if row < 0 or row >= rows or row * sh != h + ph - i * dh:
                    continue
                for j in range(kw - 1, -1, -1):
                    column = (w + pw - j * dw) // sw
                    if column < 0 or column >= columns or column * sw != w + pw - j * dw:
                        continue
                    source, here = ((sample * rows + row) * columns + column) * channels, uint8(i * kw + j)
                    if waiting < 0:
                        waiting, place = source, here
                        continue
                    _send(grad, winners, waiting, place, source, here, scratch, channels, fresh, total, like)
                    fresh, waiting = False, -1
            if fresh or waiting >= 0:
                at, place = max(waiting, 0), place if waiting >= 0 else NOWHERE
                _send(grad, winners, at, place, at, NOWHERE, scratch, channels, fresh, total, like)
            for k in range(channels):
                store(out, (line * width + w) * channels + k, narrow(load(scratch, k, total), like))
