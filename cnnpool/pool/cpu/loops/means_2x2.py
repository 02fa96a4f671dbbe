"""Passes over the 2x2 tiles of maps, with the arithmetic of ``power_2x2`` or ``softmax_2x2``.

Tiles are split into four stretches of scratch memory, one for each cell, so that rows and pixels may be
short; long pixels, of ``lanes`` channels, are read and written in place. A vector longer than its row writes
its surplus where the next row goes later; only the last rows are written number by number.
"""

from typing import Any

from numba import types
from numba.core import cgutils

from cnnpool.pool.cpu.loops import band_buffers, power_2x2, softmax_2x2
from cnnpool.pool.cpu.loops.intrinsics import load_aliased, narrow, store_aliased
from cnnpool.pool.cpu.loops.signatures import Address, Number, Sizes, by_types, compiled, intrinsic
from cnnpool.pool.cpu.loops.simd_rows import LANES, join_pairs, move, part_pairs


def _arithmetic(rule: Any) -> Any:
    # The rule of power means has four members.
    return power_2x2 if len(rule) == 4 else softmax_2x2


@by_types
def prepare(numbers: Address, index: int, rule: tuple[Any, ...], total: Number) -> Any:
    """The values shared by all tiles that use the number at ``index``."""
    return _arithmetic(rule).prepare.py_func


@by_types
def means(
    x: Address, at: tuple[int, int, int, int], y: Address, out: int, count: int, given: tuple[Any, ...],
    rule: tuple[Any, ...], total: Number, like: Number,
) -> Any:  # fmt: skip
    """Write the means of ``count`` tiles, whose cells begin at ``at``, to ``y`` from ``out`` on."""
    return _arithmetic(rule).means.py_func


@by_types
def gradients(
    x: Address, at: tuple[int, int, int, int], grad: Address, above: int, out: Address,
    to: tuple[int, int, int, int], slots: Address | None, slopes: Address, count: int, given: tuple[Any, ...],
    rule: tuple[Any, ...], total: Number, like: Number,
) -> Any:  # fmt: skip
    """Write the cells' gradients to ``out`` from ``to`` on and, if wanted, the number's to ``slopes``."""
    return _arithmetic(rule).gradients.py_func


@compiled
def begin(line: int, size: Sizes) -> int:
    """Index of the first pixel of a row of tiles, over all maps; for the row after the last, the end."""
    height, width, rows, _ = size
    return (line // rows * height + 2 * (line % rows)) * width


@compiled
def cut(
    x: Address, first: int, lines: int, size: Sizes, lanes: int, image: Address, part: int, like: Number
) -> None:
    """Split ``lines`` rows of tiles, from ``first`` on, into four stretches, ``part`` apart."""
    _, width, _, columns = size
    end = begin(first + lines, size)
    for line in range(lines):
        for half in range(2):
            at, even = begin(first + line, size) + half * width, 2 * half * part + line * columns * lanes
            odd = even + part
            if lanes > 1:
                for t in range(columns):
                    pixel = (at + 2 * t) * lanes
                    move(x, pixel, image, even + t * lanes, lanes, like)
                    move(x, pixel + lanes, image, odd + t * lanes, lanes, like)
            elif columns >= LANES:
                for t in range(0, columns, LANES):
                    t = min(t, columns - LANES)
                    part_pairs(x, at + 2 * t, image, even + t, image, odd + t, like)
            elif at + 2 * LANES <= end:
                part_pairs(x, at, image, even, image, odd, like)
            else:
                for t in range(columns):
                    store_aliased(image, even + t, load_aliased(x, at + 2 * t, like))
                    store_aliased(image, odd + t, load_aliased(x, at + 2 * t + 1, like))


@compiled
def paste(
    image: Address, part: int, out: Address, first: int, lines: int, size: Sizes, lanes: int, like: Number
) -> None:
    """Put the stretches of ``cut`` back into rows of maps; ``like``, a zero, where there is no tile."""
    _, width, _, columns = size
    end = begin(first + lines, size)
    for line in range(lines):
        for half in range(2):
            at, even = begin(first + line, size) + half * width, 2 * half * part + line * columns * lanes
            odd = even + part
            if lanes > 1:
                for t in range(columns):
                    pixel = (at + 2 * t) * lanes
                    move(image, even + t * lanes, out, pixel, lanes, like)
                    move(image, odd + t * lanes, out, pixel + lanes, lanes, like)
            elif columns >= LANES:
                for t in range(0, columns, LANES):
                    t = min(t, columns - LANES)
                    join_pairs(image, even + t, image, odd + t, out, at + 2 * t, like)
            elif at + 2 * LANES <= end:
                join_pairs(image, even, image, odd, out, at, like)
            else:
                for t in range(columns):
                    store_aliased(out, at + 2 * t, load_aliased(image, even + t, like))
                    store_aliased(out, at + 2 * t + 1, load_aliased(image, odd + t, like))
        clear_edges(out, first + line, size, lanes, like)


@compiled
def clear_edges(out: Address, line: int, size: Sizes, lanes: int, like: Number) -> None:
    """Write zeros to the column, and below a map's last tiles the row, that tiles do not cover."""
    height, width, rows, _ = size
    at = begin(line, size) * lanes
    for half in range(1, 3 if width % 2 else 1):
        for k in range(lanes):
            store_aliased(out, at + (half * width - 1) * lanes + k, like)
    for t in range(width * lanes if height % 2 and line % rows == rows - 1 else 0):
        store_aliased(out, at + 2 * width * lanes + t, like)


# Bytes of a cache line.
LINE = 64


def _asking(writing: int) -> Any:
    def ask(typing: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            byte, whole = cgutils.ir.IntType(8).as_pointer(), cgutils.ir.IntType(32)
            kind = cgutils.ir.FunctionType(cgutils.ir.VoidType(), [byte, whole, whole, whole])
            prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
            builder.call(prefetch, [builder.inttoptr(args[0], byte), *map(whole, (writing, 3, 1))])
            return context.get_dummy_value()

        return types.void(types.int64), generate

    return ask


_read, _written = intrinsic(_asking(0)), intrinsic(_asking(1))


@compiled
def fetch_to_read(address: Address, count: int) -> None:
    """Prefetch ``count`` bytes for reading; they need not exist."""
    for t in range(0, count, LINE):
        _read(address + t)


@compiled
def fetch_to_write(address: Address, count: int) -> None:
    """Prefetch ``count`` bytes for writing; they need not exist."""
    for t in range(0, count, LINE):
        _written(address + t)


@compiled
def forward(
    start: int, stop: int, scratch: Address, x: Address, y: Address, numbers: Address, size: Sizes,
    room: tuple[int, ...], rule: tuple[Any, ...], total: Number, like: Number,
) -> None:  # fmt: skip
    """Means of bands ``start`` to ``stop``, by the number of each channel."""
    (lines, band, several, channels, lanes, part, _, _), row = room, size[3] * room[4]
    at = 0, part, 2 * part, 3 * part
    for item in range(start, stop):
        unit, first = item // several, item % several * band
        count, line = min(band, lines - first), unit * lines + first
        given = prepare(numbers, unit % channels, rule, total)
        cut(x, line, count, size, lanes, scratch, part, like)
        means(scratch, at, y, line * row, count * row, given, rule, total, like)


@compiled
def backward(
    start: int, stop: int, scratch: Address, x: Address, grad: Address, out: Address, slots: Address | None,
    numbers: Address, size: Sizes, room: tuple[int, ...], rule: tuple[Any, ...], total: Number, like: Number,
) -> None:  # fmt: skip
    """Gradients of the same bands, and in ``slots``, if given, those of the number by band."""
    (lines, band, several, channels, lanes, part, sent, slopes), row = room, size[3] * room[4]
    at, image, slopes = (0, part, 2 * part, 3 * part), scratch + sent, scratch + slopes
    for item in range(start, stop):
        unit, first = item // several, item % several * band
        count, line = min(band, lines - first), unit * lines + first
        given, above = prepare(numbers, unit % channels, rule, total), line * row
        cut(x, line, count, size, lanes, scratch, part, like)
        gradients(scratch, at, grad, above, image, at, slots, slopes, count * row, given, rule, total, like)
        if slots is not None:
            store_aliased(slots, item, band_buffers.folded(slopes, count * row, total))
        paste(image, part, out, line, count, size, lanes, narrow(total, like))


@compiled
def forward_last(
    start: int, stop: int, x: Address, y: Address, numbers: Address, size: Sizes, lanes: int,
    rule: tuple[Any, ...], total: Number, like: Number, step: int,
) -> None:  # fmt: skip
    """Channels-last maps, rows ``start`` to ``stop`` of all samples' outputs; ``step``: bytes of a number."""
    given, down = prepare(numbers, 0, rule, total), size[1] * lanes
    for line in range(start, stop):
        first, out = begin(line, size) * lanes, line * size[3] * lanes
        for c in range(size[3]):
            i, pixels = first + 2 * c * lanes, 2 * lanes * step
            # Pixels of the next row of tiles.
            fetch_to_read(x + (i + 2 * down) * step, pixels)
            fetch_to_read(x + (i + 3 * down) * step, pixels)
            at = i, i + lanes, i + down, i + down + lanes
            means(x, at, y, out + c * lanes, lanes, given, rule, total, like)


@compiled
def backward_last(
    start: int, stop: int, scratch: Address, x: Address, grad: Address, out: Address, slots: Address | None,
    numbers: Address, size: Sizes, lanes: int, rule: tuple[Any, ...], total: Number, like: Number, step: int,
    wide: int,
) -> None:  # fmt: skip
    """Gradients of the same rows; ``wide``: bytes of a number in ``scratch``."""
    given, down = prepare(numbers, 0, rule, total), size[1] * lanes
    for line in range(start, stop):
        first, row = begin(line, size) * lanes, size[3] * lanes
        for c in range(size[3]):
            i, pixels = first + 2 * c * lanes, 2 * lanes * step
            below, lower = (i + 2 * down) * step, (i + 3 * down) * step
            fetch_to_read(x + below, pixels)
            fetch_to_read(x + lower, pixels)
            fetch_to_write(out + below, pixels)
            fetch_to_write(out + lower, pixels)
            at, t = (i, i + lanes, i + down, i + down + lanes), c * lanes
            gradients(
                x, at, grad, line * row + t, out, at, slots, scratch + t * wide, lanes, given, rule, total,
                like,
            )  # fmt: skip
        if slots is not None:
            store_aliased(slots, line, band_buffers.folded(scratch, row, total))
        clear_edges(out, line, size, lanes, narrow(total, like))
