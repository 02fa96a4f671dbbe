"""Bands of windows in scratch memory, where each cell is one stretch of numbers over all windows.

A band is split into parts, one per row and column modulo the strides (see ``simd_rows``); a pixel of a
channels-last map has all its channels, its lanes, side by side. Half precision is converted at once.
"""

from cnnpool.pool.cpu.loops.intrinsics import load, load_aliased, narrow, store, store_aliased, widen
from cnnpool.pool.cpu.loops.signatures import Address, Band, Number, compiled
from cnnpool.pool.cpu.loops.simd_rows import LANES, deal, gather, move


@compiled
def fill(target: Address, count: int, value: Number) -> None:
    """Write ``value`` ``count`` times."""
    for t in range(count):
        store_aliased(target, t, value)


@compiled
def widened(source: Address, target: Address, count: int, total: Number, like: Number) -> None:
    """Convert ``count`` numbers to the type of ``total``, unless both are the same memory."""
    if source != target:
        for t in range(count):
            store_aliased(target, t, widen(load(source, t, like)))


@compiled
def narrowed(source: Address, target: Address, count: int, total: Number, like: Number) -> None:
    """Round ``count`` numbers to the type of ``like``, unless both are the same memory."""
    if source != target:
        for t in range(count):
            store_aliased(target, t, narrow(load_aliased(source, t, total), like))


@compiled
def cut(
    x: Address, unit: int, first: int, lines: int, image: Address, rule: Band, pitch: int, part: int,
    nothing: Number,
) -> None:  # fmt: skip
    """Split ``lines`` lines of windows, from ``first`` on, into ``image``; ``nothing`` outside the map."""
    (height, width), _, _, (sh, sw), (ph, pw), lanes = rule
    for line in range(lines):
        for v in range(sh):
            h, target = (first + line) * sh + v - ph, v * sw * part + line * pitch * lanes
            source = (unit * height + h) * width * lanes
            if h < 0 or h >= height:
                for q in range(sw):
                    for t in range(pitch * lanes):
                        store_aliased(image, target + q * part + t, nothing)
            elif sw == 1 or lanes == 1:
                deal(x, source, width * lanes, image, target, part, pw * lanes, sw, nothing)
            else:
                for w in range(width):
                    at = target + (w + pw) % sw * part + (w + pw) // sw * lanes
                    for k in range(lanes):
                        store_aliased(image, at + k, load_aliased(x, source + w * lanes + k, nothing))


@compiled
def paste(
    image: Address, skipped: int, out: Address, unit: int, first: int, lines: int, rule: Band, pitch: int,
    part: int, like: Number,
) -> None:  # fmt: skip
    """Undo ``cut``: rows of ``out`` from ``image``, which begins ``skipped`` lines before ``first``."""
    (height, width), _, _, (sh, sw), (ph, pw), lanes = rule
    for line in range(lines):
        for v in range(sh):
            h, source = (first + line) * sh + v - ph, v * sw * part + (skipped + line) * pitch * lanes
            target = (unit * height + h) * width * lanes
            if h < 0 or h >= height:
                continue
            if sw == 1 or (lanes == 1 and sw == 2 and width >= 2 * LANES):
                gather(image, source, part, out, target, width * lanes, pw * lanes, sw, like)
            else:
                # Loaded without an alias scope, because ``image`` may have been stored within one.
                for w in range(width):
                    here = source + (w + pw) % sw * part + (w + pw) // sw * lanes
                    for k in range(lanes):
                        store(out, target + w * lanes + k, load_aliased(image, here + k, like))


@compiled
def read_outputs(
    source: Address, unit: int, first: int, lines: int, target: Address, rule: Band, pitch: int, like: Number
) -> None:
    """Read rows of a map of outputs, to places ``pitch`` apart; zeros where there is no output."""
    _, (rows, columns), _, _, _, lanes = rule
    for r in range(lines):
        at, count = r * pitch * lanes, columns * lanes
        if 0 <= first + r < rows:
            move(source, (unit * rows + first + r) * count, target, at, count, like)
        else:
            for t in range(count):
                store_aliased(target, at + t, like)


@compiled
def write_outputs(
    source: Address, out: Address, unit: int, first: int, lines: int, rule: Band, pitch: int, like: Number
) -> None:
    """Write rows, ``pitch`` apart, to a map of outputs."""
    _, (rows, columns), _, _, _, lanes = rule
    for r in range(min(lines, rows - first)):
        at, count = (unit * rows + first + r) * columns * lanes, columns * lanes
        move(source, r * pitch * lanes, out, at, count, like)


@compiled
def spread_shares(
    shares: Address, first: int, lines: int, target: Address, rule: Band, pitch: int, total: Number
) -> None:
    """Write the factor of each window's sum, from ``shares``, once for every lane."""
    _, (rows, columns), _, _, _, lanes = rule
    for r in range(lines):
        for c in range(columns):
            row = min(max(first + r, 0), rows - 1)
            share = load(shares, row * columns + c, total)
            for k in range(lanes):
                store_aliased(target, (r * pitch + c) * lanes + k, share)


@compiled
def cell_at(cell: int, rule: Band, pitch: int, part: int) -> int:
    """Offset of a cell's stretch in an image; cells are numbered row by row."""
    _, _, (_, kw), (sh, sw), _, lanes = rule
    i, j = cell // kw, cell % kw
    return (i % sh * sw + j % sw) * part + (i // sh * pitch + j // sw) * lanes


@compiled
def folded(values: Address, count: int, total: Number) -> Number:
    """The sum of ``count`` numbers, added in pairs; overwrites them."""
    while count > 1:
        half = (count + 1) // 2
        for t in range(count - half):
            store_aliased(values, t, load_aliased(values, t, total) + load_aliased(values, half + t, total))
        count = half
    return load_aliased(values, 0, total)
