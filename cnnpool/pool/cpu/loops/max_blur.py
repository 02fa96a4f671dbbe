"""The maximum of 2x2 windows around every pixel, blurred and subsampled, and its gradient.

The dense map of maxima and its gradient exist only a plane or a few rows at a time, in scratch memory.
"""

from numba import int64, uint8

from cnnpool.pool.cpu.loops import separable
from cnnpool.pool.cpu.loops.intrinsics import (
    load,
    load_aliased,
    max_with_index,
    narrow,
    store,
    store_aliased,
    widen,
)
from cnnpool.pool.cpu.loops.mixing import divide, mix
from cnnpool.pool.cpu.loops.signatures import Address, Number, Pair, Table, compiled

# Marks that there is no cell.
NOWHERE = uint8(255)


@compiled
def _win(
    x: Address, cells: tuple[int, int, int, int], places: tuple[Number, Number, Number], y: Address, at: int,
    winners: Address, out: int, count: int, like: Number,
) -> None:  # fmt: skip
    # ``count`` windows side by side; a missing cell repeats the one before.
    (a, b, c, d), (p, q, r) = cells, places
    for t in range(count):
        best, held = max_with_index(load(x, a + t, like), uint8(0), load(x, b + t, like), p)
        best, held = max_with_index(best, held, load(x, c + t, like), q)
        best, held = max_with_index(best, held, load(x, d + t, like), r)
        store_aliased(y, at + t, best)
        store(winners, out + t, held)


@compiled
def _send(
    grads: Address, above: int, here: int, winners: Address, up: int, at: int, left: int,
    places: tuple[Number, Number, Number], out: Address, count: int, total: Number, like: Number,
) -> None:  # fmt: skip
    # Gradients of pixels from the windows above and left, above, left and here: their gradients begin at
    # ``above`` and ``here``, less ``left``, and their winners at ``up`` and ``at``.
    p, q, r = places
    for t in range(count):
        value, won = widen(load_aliased(grads, above - left + t, like)), load(winners, up - left + t, p) == p
        sums = total + (value if won else total)
        value, won = widen(load_aliased(grads, above + t, like)), load(winners, up + t, q) == q
        sums += value if won else total
        value, won = widen(load_aliased(grads, here - left + t, like)), load(winners, at - left + t, r) == r
        sums += value if won else total
        value, won = widen(load_aliased(grads, here + t, like)), load(winners, at + t, r) == uint8(0)
        sums += value if won else total
        store(out, at + t, narrow(sums, like))


@compiled
def forward(
    start: int, stop: int, scratch: Address, x: Address, y: Address, winners: Address, size: Pair,
    out_size: Pair, down: Table, across: Table, common: Table, ends: tuple[int, int, int],
    room: tuple[int, int, tuple[int, ...]], total: Number, like: Number,
) -> None:  # fmt: skip
    """Contiguous maps, planes ``start`` to ``stop``; ``room``: bytes of an output plane, and of the blur."""
    (height, width), (step, behind, rest) = size, room
    one, two, none = uint8(1), uint8(2), uint8(0)
    for plane in range(start, stop):
        first = plane * height * width
        # Computed as if rows had no ends; the last column is computed again.
        cells = first, first + 1, first + width, first + width + 1
        _win(x, cells, (one, two, uint8(3)), scratch, 0, winners, first, (height - 1) * width - 1, like)
        for h in range(height - 1):
            last = h * width + width - 1
            at = first + last
            _win(x, (at, at, at + width, at + width), (none, two, two), scratch, last, winners, at, 1, like)
        last = (height - 1) * width
        at = first + last
        _win(x, (at, at + 1, at + 1, at + 1), (one, one, one), scratch, last, winners, at, width - 1, like)
        last, at = last + width - 1, at + width - 1
        _win(x, (at, at, at, at), (none, none, none), scratch, last, winners, at, 1, like)
        separable.forward(
            0, 1, scratch + behind, scratch, y + plane * step, size, out_size, down, across, common, ends, 0,
            rest, total, like,
        )  # fmt: skip


@compiled
def backward(
    start: int, stop: int, scratch: Address, grad: Address, out: Address, winners: Address, size: Pair,
    out_size: Pair, down: Table, across: Table, common: Table, ends: tuple[int, int, int],
    room: tuple[int, int, tuple[int, ...]], total: Number, like: Number,
) -> None:  # fmt: skip
    """Contiguous maps, planes ``start`` to ``stop``."""
    (height, width), (step, behind, rest) = size, room
    one, two, three = uint8(1), uint8(2), uint8(3)
    for plane in range(start, stop):
        separable.adjoint(
            0, 1, scratch + behind, grad + plane * step, scratch, size, out_size, down, across, common, ends,
            0, rest, total, like,
        )  # fmt: skip
        at, none = plane * height * width, (NOWHERE, NOWHERE, NOWHERE)
        _send(scratch, 0, 0, winners, at, at, 0, none, out, 1, total, like)
        edge = NOWHERE, NOWHERE, one
        _send(scratch, 1, 1, winners, at + 1, at + 1, 1, edge, out, width - 1, total, like)
        if height > 1:
            at, edge = at + width, (NOWHERE, two, NOWHERE)
            _send(scratch, 0, width, winners, at - width, at, 0, edge, out, 1, total, like)
            # Windows at the end of a row win nothing beyond it, so the next row's start gets nothing of them.
            at, count, places = at + 1, (height - 1) * width - 1, (three, two, one)
            _send(scratch, 1, width + 1, winners, at - width, at, 1, places, out, count, total, like)


@compiled
def forward_last(
    start: int, stop: int, scratch: Address, x: Address, y: Address, winners: Address, size: Pair,
    out_size: Pair, channels: int, down: Table, slots: Table, across: Table,
    room: tuple[int, tuple[int, ...]], total: Number, like: Number,
) -> None:  # fmt: skip
    """Channels-last maps, rows of all samples' outputs: each dense row is computed when first needed, in its
    slot of a ring buffer; ``slots`` is the table ``down`` with slots in place of rows.
    """
    (height, width), (rows, columns) = size, out_size
    turns, (_, mixed, sums, tags, ring) = room
    one, two, none = uint8(1), uint8(2), uint8(0)
    stretch, inner = width * channels, (width - 1) * channels
    for slot in range(turns):
        store_aliased(scratch + tags, slot, int64(-1))
    for line in range(start, stop):
        sample, row = line // rows, line % rows
        for entry in range(load(down[0], row, int64(0)), load(down[0], row + 1, int64(0))):
            h, slot = load(down[1], entry, int64(0)), load(slots[1], entry, int64(0))
            a, at = (sample * height + h) * stretch, slot * stretch
            if load_aliased(scratch + tags, slot, int64(0)) == a:
                continue
            store_aliased(scratch + tags, slot, int64(a))
            b, c, d, e, dense = a + channels, a + stretch, a + inner, a + inner + stretch, scratch + ring
            if h < height - 1:
                cells = a, b, c, c + channels
                _win(x, cells, (one, two, uint8(3)), dense, at, winners, a, inner, like)
                _win(x, (d, d, e, e), (none, two, two), dense, at + inner, winners, d, channels, like)
            else:
                _win(x, (a, b, b, b), (one, one, one), dense, at, winners, a, inner, like)
                _win(x, (d, d, d, d), (none, none, none), dense, at + inner, winners, d, channels, like)
        kept = scratch + mixed
        mix(scratch + ring, 0, stretch, slots, row, kept, 0, stretch, total, like, None, kept)
        for c in range(columns):
            at = (line * columns + c) * channels
            mix(kept, 0, channels, across, c, y, at, channels, total, total, like, scratch + sums)


@compiled
def backward_last(
    start: int, stop: int, scratch: Address, grad: Address, out: Address, winners: Address, size: Pair,
    out_size: Pair, channels: int, down: Table, across: Table, room: tuple[int, ...], total: Number,
    like: Number,
) -> None:  # fmt: skip
    """Channels-last maps, samples ``start`` to ``stop``."""
    (height, width), (rows, columns) = size, out_size
    _, scaled, mixed, sums, ring = room
    one, two, three = uint8(1), uint8(2), uint8(3)
    stretch, inner, pitch = width * channels, (width - 1) * channels, columns * channels
    for sample in range(start, stop):
        divide(grad, sample * rows * pitch, 0, scratch + scaled, rows * pitch, total, like)
        for h in range(height):
            # Gradients of two dense rows, this and the one above, alternate between the ring's halves.
            here = h % 2 * stretch
            kept, summed = scratch + mixed, scratch + sums
            mix(scratch + scaled, 0, pitch, down, h, kept, 0, pitch, total, total, None, kept)
            for w in range(width):
                mix(kept, 0, channels, across, w, summed, 0, channels, total, total, None, summed)
                for k in range(channels):
                    value = narrow(load(scratch + sums, k, total), like)
                    store_aliased(scratch + ring, here + w * channels + k, value)
            at, none = (sample * height + h) * stretch, NOWHERE
            if h == 0:
                edge, places, above, up = (none, none, none), (none, none, one), here, at
            else:
                edge, places, above, up = (none, two, none), (three, two, one), stretch - here, at - stretch
            dense, c = scratch + ring, channels
            _send(dense, above, here, winners, up, at, 0, edge, out, c, total, like)
            _send(dense, above + c, here + c, winners, up + c, at + c, c, places, out, inner, total, like)
