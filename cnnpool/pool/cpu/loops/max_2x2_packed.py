"""Maxima of 2x2 tiles whose winners take two bits each, and their gradients.

They are packed in stretches, a few planes or (channels last) output rows: byte t of a stretch holds those of
outputs t, q + t, 2q + t and 3q + t, with q the bytes of a full stretch.
"""

from numba import uint8

from cnnpool.pool.cpu.loops import max_2x2
from cnnpool.pool.cpu.loops.intrinsics import load, load_aliased, store, store_aliased
from cnnpool.pool.cpu.loops.signatures import Address, Number, compiled


@compiled
def _pack(winners: Address, count: int, packed: Address, at: int, quarter: int) -> None:
    for t in range(count, 4 * quarter):
        store_aliased(winners, t, uint8(0))
    for t in range(quarter):
        a, b = load_aliased(winners, t, uint8(0)), load_aliased(winners, quarter + t, uint8(0))
        low, third = a | b << 2, load_aliased(winners, 2 * quarter + t, uint8(0))
        high = third | load_aliased(winners, 3 * quarter + t, uint8(0)) << 2
        store(packed, at + t, uint8(low | high << 4))


@compiled
def _unpack(packed: Address, at: int, quarter: int, winners: Address) -> None:
    for t in range(quarter):
        four = load(packed, at + t, uint8(0))
        store_aliased(winners, t, uint8(four & 3))
        store_aliased(winners, quarter + t, uint8(four >> 2 & 3))
        store_aliased(winners, 2 * quarter + t, uint8(four >> 4 & 3))
        store_aliased(winners, 3 * quarter + t, uint8(four >> 6))


@compiled
def forward(
    start: int, stop: int, scratch: Address, x: Address, y: Address, packed: Address, height: int, width: int,
    rows: int, columns: int, group: int, planes: int, quarter: int, like: Number,
) -> None:  # fmt: skip
    """Contiguous maps, stretches ``start`` to ``stop`` of ``group`` planes each."""
    part = rows * columns
    for unit in range(start, stop):
        first, last = unit * group, min(planes, (unit + 1) * group)
        max_2x2.forward(first, last, x, y, scratch - first * part, height, width, rows, columns, like)
        _pack(scratch, (last - first) * part, packed, unit * quarter, quarter)


@compiled
def backward(
    start: int, stop: int, scratch: Address, grad: Address, packed: Address, out: Address, height: int,
    width: int, rows: int, columns: int, group: int, planes: int, quarter: int, zero: Number,
) -> None:  # fmt: skip
    """Contiguous maps, stretches ``start`` to ``stop``."""
    for unit in range(start, stop):
        first, last = unit * group, min(planes, (unit + 1) * group)
        _unpack(packed, unit * quarter, quarter, scratch)
        winners = scratch - first * rows * columns
        max_2x2.backward(first, last, grad, winners, out, height, width, rows, columns, zero)


@compiled
def forward_last(
    start: int, stop: int, scratch: Address, x: Address, y: Address, packed: Address, height: int, width: int,
    rows: int, columns: int, group: int, lines: int, quarter: int, channels: int, like: Number,
) -> None:  # fmt: skip
    """Channels-last maps, stretches ``start`` to ``stop`` of ``group`` rows each, of all samples' outputs."""
    part = columns * channels
    for unit in range(start, stop):
        first, last = unit * group, min(lines, (unit + 1) * group)
        winners = scratch - first * part
        max_2x2.forward_last(first, last, x, y, winners, height, width, rows, columns, channels, like)
        _pack(scratch, (last - first) * part, packed, unit * quarter, quarter)


@compiled
def backward_last(
    start: int, stop: int, scratch: Address, grad: Address, packed: Address, out: Address, height: int,
    width: int, rows: int, columns: int, group: int, lines: int, quarter: int, channels: int, zero: Number,
) -> None:  # fmt: skip
    """Channels-last maps, stretches ``start`` to ``stop``."""
    for unit in range(start, stop):
        first, last = unit * group, min(lines, (unit + 1) * group)
        _unpack(packed, unit * quarter, quarter, scratch)
        winners = scratch - first * columns * channels
        max_2x2.backward_last(first, last, grad, winners, out, height, width, rows, columns, channels, zero)
