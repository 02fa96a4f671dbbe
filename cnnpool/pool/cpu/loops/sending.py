"""The gradient of a pixel of a channels-last map from the windows over it, for all channels.

Half-precision gradients are summed in strips of channels of a fixed length, the last of which overlaps the
one before: a loop over all channels would spend most of its time in the remainders of its vectors.
"""

from numba import int64, uint8

from cnnpool.pool.cpu.compiling import compiled
from cnnpool.pool.cpu.loops.intrinsics import (
    alike,
    inlined,
    load,
    load_aliased,
    narrow,
    store,
    store_aliased,
    widen,
)
from cnnpool.pool.cpu.loops.max_bf16 import STRIP
from cnnpool.pool.cpu.loops.signatures import Address, Number, Slides

# The place of no cell: windows here have at most 255.
NOWHERE = uint8(255)


@compiled
def windows_over(
    place: int, axis: int, most: int, window: Slides, first: int, step: int, stretch: int, table: Address,
    count: int,
) -> int:  # fmt: skip
    """Write, of every window that holds ``place`` of an axis, where its gradients begin and which cell it is.

    The last first, behind ``count`` others: the beginning in steps from ``first``, the cell by ``stretch``.
    Returns how many there are then.
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
    """Where the gradients of a window over a pixel begin, and which of its cells the pixel is."""
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
