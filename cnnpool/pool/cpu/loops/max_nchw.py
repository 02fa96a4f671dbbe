"""Maxima of sliding windows of any kind on contiguous maps, and their gradients.

A plane is processed in bands of rows that fit into the nearest cache, split into parts (see ``simd_rows``),
one per row and column modulo the strides: each cell is one stretch of memory over all windows of a band.
"""

from numba import int64, uint8

from cnnpool.pool.cpu.loops.intrinsics import beats, load, load_aliased, narrow, store, store_aliased, widen
from cnnpool.pool.cpu.loops.signatures import Address, Number, Pair, Slides, compiled
from cnnpool.pool.cpu.loops.simd_rows import deal, move

# Largest number of cells in a window.
PLACES = 256


@compiled
def _beat(
    images: Address, source: Address, y: Address, winners: Address, count: int, place: Number, like: Number
) -> None:
    # One cell of every window.
    for t in range(count):
        best, value = load_aliased(y, t, like), load(images, source + t, like)
        take, held = beats(value, best), load_aliased(winners, t, place)
        store_aliased(y, t, value if take else best)
        store_aliased(winners, t, place if take else held)


@compiled
def _beat_three(
    images: Address, a: int, b: int, c: int, y: Address, winners: Address, count: int, place: Number,
    like: Number,
) -> None:  # fmt: skip
    # Three neighbouring cells at once.
    second, third = uint8(place + 1), uint8(place + 2)
    for t in range(count):
        best, value = load_aliased(y, t, like), load(images, a + t, like)
        take, held = beats(value, best), load_aliased(winners, t, place)
        best, held, value = value if take else best, place if take else held, load(images, b + t, like)
        take = beats(value, best)
        best, held, value = value if take else best, second if take else held, load(images, c + t, like)
        take = beats(value, best)
        store_aliased(y, t, value if take else best)
        store_aliased(winners, t, third if take else held)


@compiled
def _start(
    y: Address, winners: Address, band: int, pitch: int, top: int, columns: int, window: Slides,
    lowest: Number,
) -> None:  # fmt: skip
    # In a window of only -inf the first cell inside the map wins.
    (_, kw), (sh, sw), (_, pw), (dh, dw) = window
    for t in range(band * pitch):
        store_aliased(y, t, lowest)
        store_aliased(winners, t, uint8(0))
    for r in range(band):
        above = top + r * sh
        first = -(above // dh) * kw if above < 0 else 0
        for c in range(columns if first else min(columns, -(-pw // sw))):
            left = c * sw - pw
            store_aliased(winners, r * pitch + c, uint8(first + (-(left // dw) if left < 0 else 0)))


@compiled
def forward(
    start: int, stop: int, scratch: Address, x: Address, y: Address, winners: Address, size: Pair,
    out_size: Pair, window: Slides, room: tuple[int, ...], lowest: Number,
) -> None:  # fmt: skip
    """Contiguous maps, planes ``start`` to ``stop``; ``room``: band, pitch, part, offsets."""
    (height, width), (rows, columns) = size, out_size
    (kh, kw), (sh, sw), (ph, pw), (dh, dw) = window
    bands, pitch, part, best, places = room
    best, places, images = scratch + best, scratch + places, scratch
    for t in range(sh * sw * part):
        store_aliased(images, t, lowest)
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
                            store_aliased(images, target + phase * part + t, lowest)
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
def backward(
    start: int, stop: int, scratch: Address, grad: Address, winners: Address, out: Address, size: Pair,
    out_size: Pair, window: Slides, direct: bool, total: Number, like: Number,
) -> None:  # fmt: skip
    """Every window adds its gradient at its winner, in the type of ``total``, in ``out`` itself if
    ``direct``.
    """
    (height, width), (rows, columns) = size, out_size
    (kh, kw), (sh, sw), (ph, pw), (dh, dw) = window
    sums = out if direct else scratch + PLACES * 8
    for i in range(kh):
        for j in range(kw):
            store_aliased(scratch, i * kw + j, int64(i * dh * width + j * dw))
    for plane in range(start, stop):
        source, whole, cleared = plane * rows * columns, plane * height * width, 0
        target = whole if direct else 0
        for row in range(rows):
            # Rows are cleared when a window first reaches them, and are still in the cache when it adds.
            top = row * sh - ph
            reached = min(height, top + (kh - 1) * dh + 1) if row < rows - 1 else height
            for t in range(target + cleared * width, target + reached * width):
                store_aliased(sums, t, total)
            cleared, corner = max(cleared, reached), target + top * width - pw
            for c in range(columns):
                place = int64(load(winners, source + c, uint8(0)))
                at = corner + c * sw + load(scratch, place, int64(0))
                store_aliased(sums, at, load_aliased(sums, at, total) + widen(load(grad, source + c, like)))
            source += columns
        if not direct:
            for t in range(height * width):
                store(out, whole + t, narrow(load(sums, t, total), like))
