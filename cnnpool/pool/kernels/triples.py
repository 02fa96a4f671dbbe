"""Maxima of 3x3 windows that move by two pixels and their gradients, on contiguous maps: ResNet's first pooling.

Padding is 0 or 1. A window that hangs over an edge reads its nearest inner row again: what is seen twice neither
beats itself nor changes its place.
"""

from numba import uint8

from cnnpool.pool.kernels.memory import beats, compiled, load, narrow, store, widen

NOWHERE = 30


@compiled
def _three(x, source, best, place, first, like):
    value = load(x, source, like)
    take = beats(value, best)
    best, place = value if take else best, first if take else place
    value = load(x, source + 1, like)
    take = beats(value, best)
    best, place = value if take else best, uint8(first + 1) if take else place
    value = load(x, source + 2, like)
    take = beats(value, best)
    return value if take else best, uint8(first + 2) if take else place


@compiled
def _edge(x, sources, firsts, begin, end, like):
    best, place = load(x, sources[0] + begin, like), uint8(firsts[0] + begin)
    for i in range(3):
        for j in range(begin, end):
            value = load(x, sources[i] + j, like)
            if beats(value, best):
                best, place = value, uint8(firsts[i] + j)
    return best, place


@compiled
def forward(start, stop, x, y, winners, height, width, rows, columns, down, across, like):
    """Planes ``start`` to ``stop``, padded by ``down`` and ``across``."""
    begin, end = across, max(across, min(columns, (width - 3 + across) // 2 + 1))
    for plane in range(start, stop):
        for row in range(rows):
            top, out = 2 * row - down, (plane * rows + row) * columns
            first, last = max(0, -top), min(2, height - 1 - top)
            middle = min(max(1, first), last)
            origin = (plane * height + top) * width - across
            a, b, c = origin + first * width, origin + middle * width, origin + last * width
            place_a, place_b, place_c = uint8(3 * first), uint8(3 * middle), uint8(3 * last)
            for t in range(begin, end):
                best = load(x, a + 2 * t, like)
                best, place = _three(x, a + 2 * t, best, place_a, place_a, like)
                best, place = _three(x, b + 2 * t, best, place, place_b, like)
                best, place = _three(x, c + 2 * t, best, place, place_c, like)
                store(y, out + t, best)
                store(winners, out + t, place)
            for t in range(columns):
                if begin <= t < end:
                    continue
                sources, firsts = (a + 2 * t, b + 2 * t, c + 2 * t), (place_a, place_b, place_c)
                cells = max(0, across - 2 * t), min(3, width + across - 2 * t)
                best, place = _edge(x, sources, firsts, cells[0], cells[1], like)
                store(y, out + t, best)
                store(winners, out + t, place)


@compiled
def _sent(grad, winners, source, place, total, like):
    value, won = widen(load(grad, source, like)), load(winners, source, place) == place
    return value if won else total


@compiled
def backward(start, stop, grad, winners, out, height, width, rows, columns, down, across, total, like):
    """Planes ``start`` to ``stop``; an input adds what one, two or four windows send, in their order."""
    for line in range(start * height, stop * height):
        plane, h = line // height, line % height
        # The windows' rows over this row: the lower one first seen from its bottom cell.
        upper, lower = (h + down - 1) // 2, (h + down) // 2
        i, k = h + down - 2 * upper, h + down - 2 * lower
        if lower == upper or lower >= rows:
            lower, k = min(upper, rows - 1), NOWHERE
        if upper < 0 or upper >= rows:
            upper, i = lower, NOWHERE
        a, b = (plane * rows + upper) * columns, (plane * rows + lower) * columns
        target = line * width - across
        # Pixel 2t of the padded row is cell 2 of window t - 1 and cell 0 of window t, pixel 2t + 1 cell 1 of t.
        a0, a1, a2 = uint8(3 * i), uint8(3 * i + 1), uint8(3 * i + 2)
        b0, b1, b2 = uint8(3 * k), uint8(3 * k + 1), uint8(3 * k + 2)
        end = min(columns, (width + across) // 2)
        for t in range(1, end):
            even = total + _sent(grad, winners, a + t - 1, a2, total, like)
            even += _sent(grad, winners, a + t, a0, total, like)
            even += _sent(grad, winners, b + t - 1, b2, total, like)
            even += _sent(grad, winners, b + t, b0, total, like)
            odd = total + _sent(grad, winners, a + t, a1, total, like)
            odd += _sent(grad, winners, b + t, b1, total, like)
            store(out, target + 2 * t, narrow(even, like))
            store(out, target + 2 * t + 1, narrow(odd, like))
        for w in range(width):
            t, odd = (w + across) // 2, (w + across) % 2
            if 1 <= t < end:
                continue
            value = total
            if odd == 0 and 0 < t <= columns:
                value += _sent(grad, winners, a + t - 1, a2, total, like)
            if t < columns:
                value += _sent(grad, winners, a + t, a1 if odd else a0, total, like)
            if odd == 0 and 0 < t <= columns:
                value += _sent(grad, winners, b + t - 1, b2, total, like)
            if t < columns:
                value += _sent(grad, winners, b + t, b1 if odd else b0, total, like)
            store(out, line * width + w, narrow(value, like))
