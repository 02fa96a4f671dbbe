"""Maxima of sliding windows of any kind on channels-last maps, and their gradients.

A window's cells, and the windows over a pixel, are located once for all channels. Half-precision gradients
are summed in strips of channels of a fixed length, the last of which overlaps the one before: a loop over all
channels would spend most of its time in the remainders of its vectors.
"""

from numba import int64, uint8

from cnnpool.pool.cpu.loops.intrinsics import (
    alike,
    load,
    load_aliased,
    max_with_index,
    narrow,
    store,
    store_aliased,
    widen,
)
from cnnpool.pool.cpu.loops.signatures import Address, Number, Pair, Slides, compiled, inlined
from cnnpool.pool.cpu.loops.simd_rows import STRIP, best_of, suit

# Marks that there is no cell: windows here have at most 255.
NOWHERE = uint8(255)


@compiled
def forward(
    start: int, stop: int, x: Address, y: Address, winners: Address, size: Pair, out_size: Pair,
    window: Slides, channels: int, like: Number,
) -> None:  # fmt: skip
    """Rows ``start`` to ``stop`` of all samples' outputs."""
    (height, width), (rows, columns) = size, out_size
    (kh, kw), (sh, sw), (ph, pw), (dh, dw) = window
    down, across = dh * width * channels, dw * channels
    for line in range(start, stop):
        sample, top = line // rows, line % rows * sh - ph
        first, last = -(top // dh) if top < 0 else 0, kh
        while top + (last - 1) * dh >= height:
            last -= 1
        for c in range(columns):
            out, left, begin, end, fresh = (line * columns + c) * channels, c * sw - pw, 0, kw, True
            while left + begin * dw < 0:
                begin += 1
            while left + (end - 1) * dw >= width:
                end -= 1
            corner = ((sample * height + top) * width + left) * channels
            if kh == 3 and last - first == 3 and kw == 3 and end - begin == 3:
                _nine(x, corner, down, across, y, winners, out, channels, like)
                continue
            for i in range(first, last):
                origin, j = corner + i * down, begin
                while j < end:
                    # Three cells at once; if fewer remain, the last is visited again, which changes nothing.
                    near, far = min(j + 1, end - 1), min(j + 2, end - 1)
                    places = uint8(i * kw + j), uint8(i * kw + near), uint8(i * kw + far)
                    cells = origin + j * across, origin + near * across, origin + far * across
                    _three(x, cells, places, y, winners, out, channels, fresh, like)
                    j, fresh = j + 3, False


@compiled
def _nine(
    x: Address, a: int, down: int, across: int, y: Address, winners: Address, out: int, channels: int,
    like: Number,
) -> None:  # fmt: skip
    # All cells of a 3x3 window.
    b, c = a + down, a + 2 * down
    right = 2 * across
    if suit(channels, like):
        for first in range(0, channels, STRIP):
            k = min(first, channels - STRIP)
            d, e, f = a + k, b + k, c + k
            upper, middle = (d, d + across, d + right), (e, e + across, e + right)
            best_of(x, upper + middle + (f, f + across, f + right), y, winners, out + k, like)
        return
    for k in range(channels):
        best, held = load(x, a + k, like), uint8(0)
        best, held = max_with_index(best, held, load(x, a + across + k, like), uint8(1))
        best, held = max_with_index(best, held, load(x, a + right + k, like), uint8(2))
        best, held = max_with_index(best, held, load(x, b + k, like), uint8(3))
        best, held = max_with_index(best, held, load(x, b + across + k, like), uint8(4))
        best, held = max_with_index(best, held, load(x, b + right + k, like), uint8(5))
        best, held = max_with_index(best, held, load(x, c + k, like), uint8(6))
        best, held = max_with_index(best, held, load(x, c + across + k, like), uint8(7))
        best, held = max_with_index(best, held, load(x, c + right + k, like), uint8(8))
        store(y, out + k, best)
        store(winners, out + k, held)


@compiled
def _three(
    x: Address, cells: tuple[int, int, int], places: tuple[Number, Number, Number], y: Address,
    winners: Address, out: int, channels: int, fresh: bool, like: Number,
) -> None:  # fmt: skip
    (a, b, c), (first, second, third) = cells, places
    if fresh:
        for k in range(channels):
            best, held = max_with_index(load(x, a + k, like), first, load(x, b + k, like), second)
            best, held = max_with_index(best, held, load(x, c + k, like), third)
            store_aliased(y, out + k, best)
            store_aliased(winners, out + k, held)
    else:
        for k in range(channels):
            best, held = load_aliased(y, out + k, like), load_aliased(winners, out + k, first)
            best, held = max_with_index(best, held, load(x, a + k, like), first)
            best, held = max_with_index(best, held, load(x, b + k, like), second)
            best, held = max_with_index(best, held, load(x, c + k, like), third)
            store_aliased(y, out + k, best)
            store_aliased(winners, out + k, held)


@compiled
def windows_over(
    place: int, axis: int, most: int, window: Slides, first: int, step: int, stretch: int, table: Address,
    count: int,
) -> int:  # fmt: skip
    """Write the offset (a multiple of ``step``, from window ``first``) of the gradients, and the cell (a
    multiple of ``stretch``), of each window over ``place``, the last first, after ``count`` others; return
    their new number.
    """
    kernel, stride, padding, dilation = window[0][axis], window[1][axis], window[2][axis], window[3][axis]
    for cell in range(kernel - 1, -1, -1):
        reach = place + padding - cell * dilation
        if reach >= 0 and reach % stride == 0 and reach // stride < most:
            store_aliased(table, 2 * count, int64((first + reach // stride) * step))
            store_aliased(table, 2 * count + 1, int64(cell * stretch))
            count += 1
    return count


@compiled
def send_all(
    grad: Address, winners: Address, above: Address, over: Address, first: tuple[int, int],
    last: tuple[int, int], sums: Address, out: Address, target: int, channels: int, total: Number,
    like: Number,
) -> None:  # fmt: skip
    """The gradient of a pixel from any number of windows."""
    for k in range(channels):
        store_aliased(sums, k, total)
    for i in range(first[0], last[0]):
        for e in range(first[1], last[1]):
            a, p = window_at(above, i, over, e)
            for k in range(channels):
                value, won = widen(load(grad, a + k, like)), load(winners, a + k, p) == p
                store_aliased(sums, k, load_aliased(sums, k, total) + (value if won else total))
    for k in range(channels):
        store(out, target + k, narrow(load(sums, k, total), like))


@compiled
def window_at(above: Address, i: int, over: Address, entry: int) -> tuple[int, Number]:
    """Offset of the gradients of a window over a pixel, and the place of the pixel in that window."""
    at = load_aliased(above, 2 * i, int64(0)) + load_aliased(over, 2 * entry, int64(0))
    return at, uint8(load_aliased(above, 2 * i + 1, int64(0)) + load_aliased(over, 2 * entry + 1, int64(0)))


@compiled
def send(
    grads: Address, winners: Address, cells: tuple[int, int], places: tuple[Number, Number], out: Address,
    target: int, channels: int, total: Number, like: Number,
) -> None:  # fmt: skip
    """The gradient of a pixel from two windows."""
    # Float32 strips would be split into scalars, not vectorised.
    if channels < STRIP or alike(total, like):
        for k in range(channels):
            _sum_of_two(grads, winners, cells, places, out, target, k, total, like)
        return
    for first in range(0, channels, STRIP):
        strip = min(first, channels - STRIP)
        for n in range(STRIP):
            _sum_of_two(grads, winners, cells, places, out, target, strip + n, total, like)


@inlined
def _sum_of_two(
    grads: Address, winners: Address, cells: tuple[int, int], places: tuple[Number, Number], out: Address,
    target: int, k: int, total: Number, like: Number,
) -> None:  # fmt: skip
    (a, b), (p, q) = cells, places
    one, two = widen(load(grads, a + k, like)), widen(load(grads, b + k, like))
    one = one if load(winners, a + k, p) == p else total
    two = two if load(winners, b + k, q) == q else total
    store(out, target + k, narrow(total + one + two, like))


@compiled
def send_four(
    grads: Address, winners: Address, cells: tuple[int, int, int, int],
    places: tuple[Number, Number, Number, Number], out: Address, target: int, channels: int, total: Number,
    like: Number,
) -> None:  # fmt: skip
    """The gradient of a pixel from four windows."""
    if channels < STRIP or alike(total, like):
        for k in range(channels):
            _sum_of_four(grads, winners, cells, places, out, target, k, total, like)
        return
    for first in range(0, channels, STRIP):
        strip = min(first, channels - STRIP)
        for n in range(STRIP):
            _sum_of_four(grads, winners, cells, places, out, target, strip + n, total, like)


@inlined
def _sum_of_four(
    grads: Address, winners: Address, cells: tuple[int, int, int, int],
    places: tuple[Number, Number, Number, Number], out: Address, target: int, k: int, total: Number,
    like: Number,
) -> None:  # fmt: skip
    (a, b, c, d), (p, q, r, s) = cells, places
    one, two = widen(load(grads, a + k, like)), widen(load(grads, b + k, like))
    one = one if load(winners, a + k, p) == p else total
    two = two if load(winners, b + k, q) == q else total
    three, four = widen(load(grads, c + k, like)), widen(load(grads, d + k, like))
    three = three if load(winners, c + k, r) == r else total
    four = four if load(winners, d + k, s) == s else total
    store(out, target + k, narrow(total + one + two + three + four, like))


@compiled
def backward(
    start: int, stop: int, scratch: Address, grad: Address, winners: Address, out: Address, size: Pair,
    out_size: Pair, window: Slides, channels: int, total: Number, like: Number,
) -> None:  # fmt: skip
    """Rows of all samples' inputs: each sums the gradients of the windows over it, in order, in the type of
    ``total``.
    """
    (height, width), (rows, columns), (kh, kw) = size, out_size, window[0]
    # Windows over each column, the same for all rows: their offsets, and the column's place in each window.
    starts, above, over = scratch, scratch + 8 * (width + 1), scratch + 8 * (width + 1 + 2 * kh)
    sums, count = over + 16 * columns * kw, 0
    for w in range(width):
        store_aliased(starts, w, int64(count))
        count = windows_over(w, 1, columns, window, 0, channels, 1, over, count)
    store_aliased(starts, width, int64(count))
    for line in range(start, stop):
        sample, h = line // height, line % height
        tall = windows_over(h, 0, rows, window, sample * rows, columns * channels, kw, above, 0)
        for w in range(width):
            target, entry = (line * width + w) * channels, load_aliased(starts, w, int64(0))
            wide = load_aliased(starts, w + 1, int64(0)) - entry
            if tall * wide == 1:
                a, p = window_at(above, 0, over, entry)
                send(grad, winners, (a, a), (p, NOWHERE), out, target, channels, total, like)
            elif tall * wide == 2:
                a, p = window_at(above, 0, over, entry)
                b, q = window_at(above, tall - 1, over, entry + wide - 1)
                send(grad, winners, (a, b), (p, q), out, target, channels, total, like)
            elif tall == 2 and wide == 2:
                a, p = window_at(above, 0, over, entry)
                b, q = window_at(above, 0, over, entry + 1)
                c, r = window_at(above, 1, over, entry)
                d, s = window_at(above, 1, over, entry + 1)
                send_four(grad, winners, (a, b, c, d), (p, q, r, s), out, target, channels, total, like)
            else:
                first, last = (0, entry), (tall, entry + wide)
                send_all(grad, winners, above, over, first, last, sums, out, target, channels, total, like)
