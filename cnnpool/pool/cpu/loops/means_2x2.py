"""Passes over the 2x2 tiles of maps, by the arithmetic of ``power_2x2`` or ``softmax_2x2``.

Tiles are split into four stretches of scratch memory, one for each cell, so that rows and pixels may be
short; long pixels, those of channels-last maps, are read and written in place.
"""

from typing import Any

from numba.extending import overload

from cnnpool.pool.cpu.compiling import compiled
from cnnpool.pool.cpu.loops import band_buffers, deinterleave, power_2x2, prefetch, softmax_2x2
from cnnpool.pool.cpu.loops.intrinsics import narrow, store_aliased
from cnnpool.pool.cpu.loops.signatures import Address, Number, Sizes


def prepare(numbers: Address, index: int, rule: tuple[Any, ...], total: Number) -> Any:
    """The values that tiles with the number at ``index`` use."""


def means(
    x: Address, at: tuple[int, int, int, int], y: Address, out: int, count: int, given: tuple[Any, ...],
    rule: tuple[Any, ...], total: Number, like: Number,
) -> None:  # fmt: skip
    """Means of ``count`` tiles, whose cells begin at ``at``, to ``y`` from ``out`` on."""


def gradients(
    x: Address, at: tuple[int, int, int, int], grad: Address, above: int, out: Address,
    to: tuple[int, int, int, int], slots: Address | None, slopes: Address, count: int, given: tuple[Any, ...],
    rule: tuple[Any, ...], total: Number, like: Number,
) -> None:  # fmt: skip
    """Gradients of those cells, to ``out`` from ``to`` on; of the number, to ``slopes`` if wanted."""


def _arithmetic(rule: Any) -> Any:
    # The rule of power means has four members.
    return power_2x2 if len(rule) == 4 else softmax_2x2


@overload(prepare)
def prepare_by(numbers: Address, index: int, rule: tuple[Any, ...], total: Number) -> Any:
    return _arithmetic(rule).prepare.py_func


@overload(means)
def means_by(
    x: Address, at: tuple[int, int, int, int], y: Address, out: int, count: int, given: tuple[Any, ...],
    rule: tuple[Any, ...], total: Number, like: Number,
) -> Any:  # fmt: skip
    return _arithmetic(rule).means.py_func


@overload(gradients)
def gradients_by(
    x: Address, at: tuple[int, int, int, int], grad: Address, above: int, out: Address,
    to: tuple[int, int, int, int], slots: Address | None, slopes: Address, count: int, given: tuple[Any, ...],
    rule: tuple[Any, ...], total: Number, like: Number,
) -> Any:  # fmt: skip
    return _arithmetic(rule).gradients.py_func


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
        deinterleave.cut(x, line, count, size, lanes, scratch, part, like)
        means(scratch, at, y, line * row, count * row, given, rule, total, like)


@compiled
def backward(
    start: int, stop: int, scratch: Address, x: Address, grad: Address, out: Address, slots: Address | None,
    numbers: Address, size: Sizes, room: tuple[int, ...], rule: tuple[Any, ...], total: Number, like: Number,
) -> None:  # fmt: skip
    """Gradients of the same bands; in ``slots``, if there are any, those of the number by band."""
    (lines, band, several, channels, lanes, part, sent, slopes), row = room, size[3] * room[4]
    at, image, slopes = (0, part, 2 * part, 3 * part), scratch + sent, scratch + slopes
    for item in range(start, stop):
        unit, first = item // several, item % several * band
        count, line = min(band, lines - first), unit * lines + first
        given, above = prepare(numbers, unit % channels, rule, total), line * row
        deinterleave.cut(x, line, count, size, lanes, scratch, part, like)
        gradients(scratch, at, grad, above, image, at, slots, slopes, count * row, given, rule, total, like)
        if slots is not None:
            store_aliased(slots, item, band_buffers.folded(slopes, count * row, total))
        deinterleave.paste(image, part, out, line, count, size, lanes, narrow(total, like))


@compiled
def forward_last(
    start: int, stop: int, x: Address, y: Address, numbers: Address, size: Sizes, lanes: int,
    rule: tuple[Any, ...], total: Number, like: Number, step: int,
) -> None:  # fmt: skip
    """Channels-last maps, rows ``start`` to ``stop`` of all samples' outputs; ``step``: bytes of a number."""
    given, down = prepare(numbers, 0, rule, total), size[1] * lanes
    for line in range(start, stop):
        first, out = deinterleave.begin(line, size) * lanes, line * size[3] * lanes
        for c in range(size[3]):
            i, pixels = first + 2 * c * lanes, 2 * lanes * step
            # Pixels of the next row of tiles.
            prefetch.to_read(x + (i + 2 * down) * step, pixels)
            prefetch.to_read(x + (i + 3 * down) * step, pixels)
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
        first, row = deinterleave.begin(line, size) * lanes, size[3] * lanes
        for c in range(size[3]):
            i, pixels = first + 2 * c * lanes, 2 * lanes * step
            below, lower = (i + 2 * down) * step, (i + 3 * down) * step
            prefetch.to_read(x + below, pixels)
            prefetch.to_read(x + lower, pixels)
            prefetch.to_write(out + below, pixels)
            prefetch.to_write(out + lower, pixels)
            at, t = (i, i + lanes, i + down, i + down + lanes), c * lanes
            gradients(
                x, at, grad, line * row + t, out, at, slots, scratch + t * wide, lanes, given, rule, total,
                like,
            )  # fmt: skip
        if slots is not None:
            store_aliased(slots, line, band_buffers.folded(scratch, row, total))
        deinterleave.clear_edges(out, line, size, lanes, narrow(total, like))
