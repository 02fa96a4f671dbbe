"""Rows of 2x2 tiles split into four stretches of scratch memory, one per cell of a tile, and put back.

A pixel has ``lanes`` numbers: one, or in channels-last maps one of every channel. A vector that is longer
than its row writes its surplus where the next row is put later; only the last rows, with none after them, go
number by number.
"""

from cnnpool.pool.cpu.compiling import compiled
from cnnpool.pool.cpu.loops.intrinsics import load_aliased, store_aliased
from cnnpool.pool.cpu.loops.signatures import Address, Number, Sizes
from cnnpool.pool.cpu.loops.simd_rows import LANES, join_pairs, move, part_pairs


@compiled
def begin(line: int, size: Sizes) -> int:
    """Index of a row of tiles' first pixel, counted over all maps; for the row after the last, the end."""
    height, width, rows, _ = size
    return (line // rows * height + 2 * (line % rows)) * width


@compiled
def cut(
    x: Address, first: int, lines: int, size: Sizes, lanes: int, image: Address, part: int, like: Number
) -> None:
    """Split ``lines`` rows of tiles, from ``first`` on, into four stretches, ``part`` apart.

    ``size``: height and width of a map, and how many tiles that are.
    """
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
    """Write zeros to the column and, below the last tiles of a map, the row that tiles leave over."""
    height, width, rows, _ = size
    at = begin(line, size) * lanes
    if width % 2:
        for half in range(1, 3):
            fill(out, at + (half * width - 1) * lanes, lanes, like)
    if height % 2 and line % rows == rows - 1:
        fill(out, at + 2 * width * lanes, width * lanes, like)


@compiled
def fill(out: Address, at: int, count: int, value: Number) -> None:
    """Write ``value`` ``count`` times from ``at`` on."""
    for t in range(count):
        store_aliased(out, at + t, value)
