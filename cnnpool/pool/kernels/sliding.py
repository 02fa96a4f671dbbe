"""Maxima of sliding windows of any kind, and their gradients."""

from numba import uint8

from cnnpool.pool.kernels.memory import beats, compiled, keep, load, narrow, recall, store, widen


@compiled
def _deal(x, source, width, scratch, length, padding, stride, like):
    # A row dealt out by its position modulo the stride: what a cell meets in all windows lies side by side.
    for phase in range(stride):
        first = max(0, -((phase - padding) // stride))
        last = min(length, (width - 1 + padding - phase) // stride + 1)
        target, origin = phase * length, source + phase - padding
        if stride == 1:
            for t in range(first, last):
                keep(scratch, target + t, load(x, origin + t, like))
        elif stride == 2:
            for t in range(first, last):
                keep(scratch, target + t, load(x, origin + 2 * t, like))
        else:
            for t in range(first, last):
                keep(scratch, target + t, load(x, origin + stride * t, like))


@compiled
def forward(start, stop, scratch, x, y, winners, size, out_size, window, lowest):
    """Contiguous maps, planes ``start`` to ``stop``; ``scratch`` holds a padded row and one stride more."""
    (height, width), (rows, columns) = size, out_size
    (kh, kw), (sh, sw), (ph, pw), (dh, dw) = window
    length = columns + dw * (kw - 1) // sw + 1
    for t in range(sw * length):
        keep(scratch, t, lowest)
    for plane in range(start, stop):
        for row in range(rows):
            out, top = (plane * rows + row) * columns, row * sh - ph
            first = -(top // dh) if top < 0 else 0
            for c in range(columns):
                keep(y, out + c, lowest)
                left = c * sw - pw
                # A window of nothing but -inf is won by its first cell inside the map.
                keep(winners, out + c, uint8(first * kw + (-(left // dw) if left < 0 else 0)))
            for i in range(first, kh):
                if top + i * dh >= height:
                    break
                source = (plane * height + top + i * dh) * width
                _deal(x, source, width, scratch, length, pw, sw, lowest)
                for j in range(kw):
                    cell, place = (j * dw % sw) * length + j * dw // sw, uint8(i * kw + j)
                    for c in range(columns):
                        best, value = recall(y, out + c, lowest), recall(scratch, cell + c, lowest)
                        take, held = beats(value, best), recall(winners, out + c, place)
                        keep(y, out + c, value if take else best)
                        keep(winners, out + c, place if take else held)


@compiled
def backward(start, stop, scratch, grad, winners, out, size, out_size, window, total, like):
    """Contiguous maps, planes ``start`` to ``stop``; sums are kept in the type of ``total``, in ``scratch``.

    Every input adds up what the windows over it send, in the order of the windows.
    """
    (height, width), (rows, columns) = size, out_size
    (kh, kw), (sh, sw), (ph, pw), (dh, dw) = window
    length = width // sw + 1
    for line in range(start * height, stop * height):
        plane, h = line // height, line % height
        for t in range(sw * length):
            keep(scratch, t, total)
        for i in range(kh - 1, -1, -1):
            row = (h + ph - i * dh) // sh
            if row < 0 or row >= rows or row * sh != h + ph - i * dh:
                continue
            source = (plane * rows + row) * columns
            for phase in range(sw):
                for j in range(kw - 1, -1, -1):
                    shift = (phase + pw - j * dw) // sw
                    if shift * sw != phase + pw - j * dw:
                        continue
                    place, target = uint8(i * kw + j), phase * length
                    for t in range(max(0, -shift), min((width - phase + sw - 1) // sw, columns - shift)):
                        share, held = widen(load(grad, source + t + shift, like)), recall(scratch, target + t, total)
                        won = load(winners, source + t + shift, place) == place
                        keep(scratch, target + t, held + (share if won else total))
        target = line * width
        if sw == 2:
            for t in range(width // 2):
                store(out, target + 2 * t, narrow(recall(scratch, t, total), like))
                store(out, target + 2 * t + 1, narrow(recall(scratch, length + t, total), like))
            if width % 2:
                store(out, target + width - 1, narrow(recall(scratch, width // 2, total), like))
        else:
            for phase in range(sw):
                for t in range((width - phase + sw - 1) // sw):
                    value = recall(scratch, phase * length + t, total)
                    store(out, target + sw * t + phase, narrow(value, like))


@compiled
def forward_last(start, stop, scratch, x, y, winners, size, out_size, window, channels, like):
    """Channels-last maps, rows ``start`` to ``stop`` of all samples' outputs."""
    (height, width), (rows, columns) = size, out_size
    (kh, kw), (sh, sw), (ph, pw), (dh, dw) = window
    for line in range(start, stop):
        sample, top = line // rows, line % rows * sh - ph
        for c in range(columns):
            out, left, first = (line * columns + c) * channels, c * sw - pw, True
            for i in range(kh):
                for j in range(kw):
                    h, w, place = top + i * dh, left + j * dw, uint8(i * kw + j)
                    if h < 0 or h >= height or w < 0 or w >= width:
                        continue
                    source = ((sample * height + h) * width + w) * channels
                    if first:
                        for k in range(channels):
                            keep(y, out + k, load(x, source + k, like))
                            keep(winners, out + k, place)
                        first = False
                        continue
                    for k in range(channels):
                        best, value = recall(y, out + k, like), load(x, source + k, like)
                        take, held = beats(value, best), recall(winners, out + k, place)
                        keep(y, out + k, value if take else best)
                        keep(winners, out + k, place if take else held)


@compiled
def backward_last(start, stop, scratch, grad, winners, out, size, out_size, window, channels, total, like):
    """Channels-last maps, rows ``start`` to ``stop`` of all samples' inputs; as ``backward``."""
    (height, width), (rows, columns) = size, out_size
    (kh, kw), (sh, sw), (ph, pw), (dh, dw) = window
    for line in range(start, stop):
        sample, h = line // height, line % height
        for w in range(width):
            for k in range(channels):
                keep(scratch, k, total)
            for i in range(kh - 1, -1, -1):
                row = (h + ph - i * dh) // sh
                if row < 0 or row >= rows or row * sh != h + ph - i * dh:
                    continue
                for j in range(kw - 1, -1, -1):
                    column = (w + pw - j * dw) // sw
                    if column < 0 or column >= columns or column * sw != w + pw - j * dw:
                        continue
                    source, place = ((sample * rows + row) * columns + column) * channels, uint8(i * kw + j)
                    for k in range(channels):
                        share, held = widen(load(grad, source + k, like)), recall(scratch, k, total)
                        won = load(winners, source + k, place) == place
                        keep(scratch, k, held + (share if won else total))
            for k in range(channels):
                store(out, (line * width + w) * channels + k, narrow(recall(scratch, k, total), like))
