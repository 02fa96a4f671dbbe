"""Maxima of 2x2 tiles and their gradients: the window that nearly every network has."""

from numba import int16, uint8

from cnnpool.pool.cpu.loops.intrinsics import alike, beats, greater_strided, load, store
from cnnpool.pool.cpu.loops.signatures import Address, Number, compiled
from cnnpool.pool.cpu.loops.simd_rows import (
    FEW,
    LANES,
    STRIP,
    best_of,
    best_of_eight_tiles,
    best_of_four_tiles,
    gradient_of_eight_tiles,
    gradient_of_four_tiles,
    suit,
)


@compiled
def _best(
    x: Address, upper: int, lower: int, y: Address, winners: Address, out: int, columns: int, like: Number
) -> None:
    """The maxima of a row of tiles; the last eight or four may overlap those before."""
    if columns >= FEW and not alike(int16(0), like):
        if columns < LANES:
            for c in range(0, columns, FEW):
                k = min(c, columns - FEW)
                best_of_four_tiles(x, upper + 2 * k, lower + 2 * k, y, winners, out + k, like)
            return
        for c in range(0, columns, LANES):
            k = min(c, columns - LANES)
            best_of_eight_tiles(x, upper + 2 * k, lower + 2 * k, y, winners, out + k, like)
        return
    for c in range(columns):
        best, place = load(x, upper + 2 * c, like), uint8(0)
        value = load(x, upper + 2 * c + 1, like)
        take = greater_strided(value, best)
        best, place = value if take else best, uint8(1) if take else place
        value = load(x, lower + 2 * c, like)
        take = greater_strided(value, best)
        best, place = value if take else best, uint8(2) if take else place
        value = load(x, lower + 2 * c + 1, like)
        take = greater_strided(value, best)
        store(y, out + c, value if take else best)
        store(winners, out + c, uint8(3) if take else place)


@compiled
def _given(
    grad: Address, winners: Address, source: int, out: Address, target: int, half: int, columns: int,
    zero: Number,
) -> None:  # fmt: skip
    """The gradients of the upper or lower ``half`` of a row of tiles, grouped as in ``_best``."""
    if columns >= LANES:
        for c in range(0, columns, LANES):
            k = min(c, columns - LANES)
            gradient_of_eight_tiles(grad, winners, source + k, out, target + 2 * k, half, zero)
        return
    if columns >= FEW:
        for c in range(0, columns, FEW):
            k = min(c, columns - FEW)
            gradient_of_four_tiles(grad, winners, source + k, out, target + 2 * k, half, zero)
        return
    left, right = uint8(2 * half), uint8(2 * half + 1)
    for c in range(columns):
        value, place = load(grad, source + c, zero), load(winners, source + c, left)
        store(out, target + 2 * c, value if place == left else zero)
        store(out, target + 2 * c + 1, value if place == right else zero)


@compiled
def forward(
    start: int, stop: int, x: Address, y: Address, winners: Address, height: int, width: int, rows: int,
    columns: int, like: Number,
) -> None:  # fmt: skip
    """Contiguous maps, planes ``start`` to ``stop``."""
    for plane in range(start, stop):
        for row in range(rows):
            upper, out = (plane * height + 2 * row) * width, (plane * rows + row) * columns
            lower = upper + width
            _best(x, upper, lower, y, winners, out, columns, like)


@compiled
def backward(
    start: int, stop: int, grad: Address, winners: Address, out: Address, height: int, width: int, rows: int,
    columns: int, zero: Number,
) -> None:  # fmt: skip
    """Contiguous maps, planes ``start`` to ``stop``."""
    for plane in range(start, stop):
        for row in range(rows):
            source = (plane * rows + row) * columns
            for half in range(2):
                target = (plane * height + 2 * row + half) * width
                _given(grad, winners, source, out, target, half, columns, zero)
                if width % 2:
                    store(out, target + width - 1, zero)
        if height % 2:
            for c in range(width):
                store(out, (plane * height + height - 1) * width + c, zero)


@compiled
def forward_last(
    start: int, stop: int, x: Address, y: Address, winners: Address, height: int, width: int, rows: int,
    columns: int, channels: int, like: Number,
) -> None:  # fmt: skip
    """Channels-last maps, rows ``start`` to ``stop`` of all samples' outputs."""
    for line in range(start, stop):
        sample, row = line // rows, line % rows
        for c in range(columns):
            upper = ((sample * height + 2 * row) * width + 2 * c) * channels
            lower, out = upper + width * channels, (line * columns + c) * channels
            if suit(channels, like):
                for first in range(0, channels, STRIP):
                    k = min(first, channels - STRIP)
                    cells = upper + k, upper + channels + k, lower + k, lower + channels + k
                    best_of(x, cells, y, winners, out + k, like)
                continue
            for k in range(channels):
                best, place = load(x, upper + k, like), uint8(0)
                value = load(x, upper + channels + k, like)
                take = beats(value, best)
                best, place = value if take else best, uint8(1) if take else place
                value = load(x, lower + k, like)
                take = beats(value, best)
                best, place = value if take else best, uint8(2) if take else place
                value = load(x, lower + channels + k, like)
                take = beats(value, best)
                store(y, out + k, value if take else best)
                store(winners, out + k, uint8(3) if take else place)


@compiled
def backward_last(
    start: int, stop: int, grad: Address, winners: Address, out: Address, height: int, width: int, rows: int,
    columns: int, channels: int, zero: Number,
) -> None:  # fmt: skip
    """Channels-last maps, rows ``start`` to ``stop`` of all samples' outputs."""
    for line in range(start, stop):
        sample, row = line // rows, line % rows
        for half in range(2):
            target = (sample * height + 2 * row + half) * width * channels
            left, right = uint8(2 * half), uint8(2 * half + 1)
            for c in range(columns):
                source, first = (line * columns + c) * channels, target + 2 * c * channels
                second = first + channels
                for k in range(channels):
                    value, place = load(grad, source + k, zero), load(winners, source + k, left)
                    store(out, first + k, value if place == left else zero)
                    store(out, second + k, value if place == right else zero)
            if width % 2:
                for k in range(channels):
                    store(out, target + (width - 1) * channels + k, zero)
        if height % 2 and row == rows - 1:
            for k in range(width * channels):
                store(out, ((sample + 1) * height - 1) * width * channels + k, zero)
