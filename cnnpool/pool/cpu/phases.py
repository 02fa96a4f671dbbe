"""Phases of subsampled maps of plain CPU tensors by compiled kernels: the norm of each, and one of them taken
out of a map or put back.
"""

from typing import Any

import torch
from numba import int64
from torch import Tensor

from cnnpool.pool.cpu.compiling import Kernel
from cnnpool.pool.cpu.loops.lanes import LANES, load, load_bits, read, select, spread, store, truncated, write
from cnnpool.pool.cpu.loops.planes import deal, fill, gather, move
from cnnpool.pool.cpu.loops.signatures import Address, Number, Pair, compiled
from cnnpool.pool.cpu.loops.vector_math import absolute
from cnnpool.pool.cpu.memory import empty, scalar
from cnnpool.pool.cpu.threads import spread as share
from cnnpool.pool.window import is_channels_last, memory_format, wide_of


@compiled
def _size(line: Address, t: int, most: Number, like: Number) -> Number:
    """|x|, or the largest number for NaN and infinity."""
    v = absolute(load(line, t, like))
    return select(v <= most, v, spread(most))


@compiled
def _norms(
    start: int, stop: int, scratch: Address, x: Address, out: Address, rows: int, width: int, pixel: int,
    stride: Pair, scale: Number, squared: bool, most: Number, total: Number, like: Number,
) -> None:  # fmt: skip
    """For samples of ``rows`` rows of ``width`` pixels of ``pixel`` numbers, the sum of every phase, of sizes
    over the largest or their squares, times ``scale``, in whole numbers, in any order the same.
    """
    (sh, sw), stretch = stride, width * pixel
    long = (stretch + LANES - 1) // LANES * LANES
    line, sums = scratch + 8 * sh * long, scratch
    fill(line, long, like)
    for sample in range(start, stop):
        first, top = sample * rows * stretch, spread(total)
        for row in range(rows):
            move(x, first + row * stretch, line, 0, stretch, like, like)
            for t in range(0, long, LANES):
                size = _size(line, t, most, like)
                top = select(size > top, size, top)
        store(sums, 0, top, total)
        largest = total
        for n in range(LANES):
            largest = max(largest, read(sums, n, total))
        largest = largest if largest > total else scale
        fill(sums, sh * long, int64(0))
        for row in range(rows):
            move(x, first + row * stretch, line, 0, stretch, like, like)
            into = row % sh * long
            for t in range(0, long, LANES):
                part = _size(line, t, most, like) / largest
                part = part * part if squared else part
                whole = load_bits(sums, into + t, int64(0)) + truncated(part * scale)
                store(sums, into + t, whole, int64(0))
        for phase in range(sh * sw):
            count = int64(0)
            for w in range(phase % sw, width, sw):
                for t in range(w * pixel, (w + 1) * pixel):
                    count += read(sums, phase // sw * long + t, int64(0))
            write(out, sample * sh * sw + phase, count)


@compiled
def _take(
    start: int, stop: int, scratch: Address, x: Address, y: Address, phases: Address, planes: int,
    size: Pair, stride: Pair, pixel: int, like: Number,
) -> None:  # fmt: skip
    """The pixels of each sample's phase, of maps of ``planes`` planes to a sample."""
    (height, width), (sh, sw) = size, stride
    rows, columns = height // sh, width // sw
    for plane in range(start, stop):
        phase = read(phases, plane // planes, int64(0))
        for row in range(rows):
            at, out = (
                (plane * height + row * sh + phase // sw) * width * pixel,
                (plane * rows + row) * columns,
            )
            if pixel == 1:
                deal(x, at, width, scratch, 0, width, 0, sw, like, like)
                move(scratch, phase % sw * width, y, out, columns, like, like)
            else:
                for c in range(columns):
                    source = at + (c * sw + phase % sw) * pixel
                    move(x, source, y, (out + c) * pixel, pixel, like, like)


@compiled
def _put(
    start: int, stop: int, scratch: Address, y: Address, x: Address, phases: Address, planes: int,
    size: Pair, stride: Pair, pixel: int, like: Number,
) -> None:  # fmt: skip
    """The pixels of ``_take`` put back among zeros."""
    (height, width), (sh, sw) = size, stride
    rows, columns = height // sh, width // sw
    for plane in range(start, stop):
        phase = read(phases, plane // planes, int64(0))
        fill(scratch, sw * width, like)
        for h in range(height):
            at, source = (plane * height + h) * width * pixel, (plane * rows + h // sh) * columns
            if h % sh != phase // sw:
                for t in range(width * pixel):
                    write(x, at + t, like)
            elif pixel == 1:
                move(y, source, scratch, phase % sw * width, columns, like, like)
                gather(scratch, 0, width, x, at, width, 0, sw, like, like)
            else:
                for t in range(width * pixel):
                    write(x, at + t, like)
                for c in range(columns):
                    target = at + (c * sw + phase % sw) * pixel
                    move(y, (source + c) * pixel, x, target, pixel, like, like)


def norms(x: Tensor, stride: tuple[int, int], scale: float, squared: bool) -> Tensor:
    """(N, P) int64 of complete maps (N, C, H, W): sums of magnitudes over the sample's largest, or of their
    squares, times ``scale``; NaN and infinity count as the largest number.
    """
    last, wide = is_channels_last(x), wide_of(x)
    x = x.contiguous(memory_format=memory_format(last))
    samples, channels, height, width = x.shape
    out = empty((samples, stride[0] * stride[1]), torch.int64)
    rows, pixel = (height, channels) if last else (channels * height, 1)
    numbers = scalar(torch.finfo(wide).max, wide), scalar(0.0, wide), scalar(0.0, x.dtype)
    rest = rows, width, pixel, stride, scalar(scale, wide), squared, *numbers
    scratch = 8 * (stride[0] + 1) * (width * pixel + 2 * LANES)
    share(_norms, samples, x.nbytes, x.data_ptr(), out.data_ptr(), *rest, scratch=scratch)
    return out


def take(x: Tensor, phase: Tensor, stride: tuple[int, int], last: bool) -> Tensor:
    """The phase of each sample (N,), int64, of complete maps (N, C, H, W)."""
    height, width = x.shape[2] // stride[0], x.shape[3] // stride[1]
    return _move(_take, x, phase, stride, last, (height, width), x.shape[2:])


def put(y: Tensor, phase: Tensor, stride: tuple[int, int], last: bool) -> Tensor:
    """The transpose of ``take``: the taken pixels among zeros."""
    size = y.shape[2] * stride[0], y.shape[3] * stride[1]
    return _move(_put, y, phase, stride, last, size, size)


def _move(
    kernel: Kernel[..., None],
    x: Tensor,
    phase: Tensor,
    stride: tuple[int, int],
    last: bool,
    out_size: tuple[int, int],
    size: tuple[int, ...],
) -> Tensor:
    layout = memory_format(last)
    x, phase = x.contiguous(memory_format=layout), phase.contiguous()
    samples, channels = x.shape[:2]
    y = empty((samples, channels, *out_size), x.dtype, layout)
    planes, pixel = (1, channels) if last else (channels, 1)
    where = x.data_ptr(), y.data_ptr(), phase.data_ptr()
    rest: tuple[Any, ...] = planes, tuple(size), stride, pixel, scalar(0.0, x.dtype)
    scratch = x.element_size() * stride[1] * (size[1] + LANES)
    share(kernel, samples * planes, x.nbytes + y.nbytes, *where, *rest, scratch=scratch)
    return y
