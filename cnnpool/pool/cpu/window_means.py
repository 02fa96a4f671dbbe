"""Power means and soft means of plain CPU tensors by compiled kernels, which have passes of their own for 2x2
tiles.
"""

from functools import lru_cache
from math import inf, log
from typing import Any, NamedTuple

import torch
from torch import Tensor

from cnnpool.pool.autograd.replayed import POWER, SOFT, Mean
from cnnpool.pool.cpu.band_plan import Frame, in_format_of, make_ready
from cnnpool.pool.cpu.loops import means_2x2, power, softmax
from cnnpool.pool.cpu.memory import CPU, aligned, empty, empty_like, scalar, table
from cnnpool.pool.cpu.threads import spread
from cnnpool.pool.window import Window, is_channels_last, memory_format, stated_format, wide_of

# Tiles of a band: its scratch memory fits a first-level cache.
TOGETHER = 512
# Pixels with a multiple of this many channels are read in place: vectorised loops leave no remainder.
PIXEL = 32


@lru_cache(maxsize=256)
def _number(value: float, wide: torch.dtype) -> Tensor:
    return table([value], wide)


@lru_cache(maxsize=256)
def _shares(window: Window, size: tuple[int, int], mean: bool, wide: torch.dtype) -> tuple[Tensor, bool]:
    """The factor of each window's sum, (H', W'), and whether all are equal."""
    axes = []
    for length, count, k, s, p in zip(size, window.output_size(*size), *window[:3], strict=True):
        starts = torch.arange(count, device=CPU) * s - p
        axes.append((starts + k).clamp(max=length) - starts.clamp(min=0))
    counts = axes[0][:, None] * axes[1]
    counts = counts if mean else torch.ones_like(counts)
    return counts.to(wide).reciprocal(), bool((counts == counts[0, 0]).all())


@lru_cache(maxsize=256)
def _of_cells(
    p: float | None, floor: float | None, nothing: float, mean: bool, wide: torch.dtype
) -> tuple[Any, ...]:
    """Arguments of power kernels: value of a cell, range of scales, share of a tile, a whole p."""
    cell = (0.0,) if floor is None else (floor, nothing)
    smallest = torch.finfo(wide).smallest_normal
    cells, limits = (tuple(scalar(v, wide) for v in some) for some in (cell, (smallest, 1 / smallest)))
    return cells, limits, scalar(0.25 if mean else 1.0, wide), (0,) * int(p) if p in (2, 3, 4) else None


class Arithmetic(NamedTuple):
    """The computation of one kind of mean: its kernels, their numbers and rule, and the needs of bands."""

    kernels: Any
    numbers: Tensor
    rule: tuple[Any, ...]
    nothing: float
    """The value outside the map."""
    shared: bool
    """Whether a window's sum is multiplied by a share of its own."""
    forward: tuple[int, int, int]
    backward: tuple[int, int]
    """Stretches, results and kept cells, as arguments of ``Map.frame``."""


def _arithmetic(x: Tensor, number: Tensor | float, how: Mean) -> Arithmetic:
    wide, given = wide_of(x), number.contiguous() if isinstance(number, Tensor) else None
    if how.kind == SOFT:
        slopes = _number(float(number) / log(2), wide) if given is None else given / log(2)
        rule = scalar(torch.finfo(wide).max / 4, wide), scalar(log(2), wide)
        return Arithmetic(softmax, slopes, rule, -inf, False, (3, 2, 1), (5, 4))
    # A cell's value is |x|, or max(x, floor).
    floor = None if how.kind == POWER else how.floor
    nothing = 0.0 if floor is None else torch.finfo(x.dtype).min
    rule = _of_cells(None if isinstance(number, Tensor) else number, floor, nothing, how.mean, wide)
    powers = _number(float(number), wide) if given is None else given
    return Arithmetic(power, powers, rule, nothing, True, (4, 1, 1), (6, 4))


def forward(x: Tensor, number: Tensor | float, how: Mean) -> Tensor:
    """Means (N, C, H', W') of ``x`` in its memory format, by one ``number`` or one for each channel."""
    way = _arithmetic(x, number, how)
    plan = _tiles_of(x, how.window, way.numbers)
    if plan is not None:
        return _forward_tiles(plan, x, way)
    # With one number per channel, the pixels of each channel are processed together instead.
    numbers = way.numbers.numel()
    ready = make_ready(x, how.window, is_channels_last(x) and numbers == 1)
    size = tuple(x.shape[2:])
    shares, even = _shares(how.window, size, how.mean, ready.wide) if way.shared else (None, True)
    frame = ready.frame(numbers, even, False, *way.forward)
    y = ready.output(frame.out_size, x.dtype)
    factors = () if shares is None else (shares.data_ptr(),)
    where = ready.x.data_ptr(), y.data_ptr(), *factors, way.numbers.data_ptr()
    rest = frame.rule, frame.room, *way.rule, *ready.types(way.nothing)
    spread(way.kernels.forward, frame.units, x.nbytes + y.nbytes, *where, *rest, scratch=frame.scratch)
    return in_format_of(x, y)


def backward(
    grad: Tensor, x: Tensor, number: Tensor | float, how: Mean, learnt: bool
) -> tuple[Tensor, Tensor | None]:
    """Gradient of the input, and of the number if it is ``learnt``."""
    way, window = _arithmetic(x, number, how), how.window
    count = way.numbers.numel()
    plan = _tiles_of(x, window, way.numbers)
    if plan is not None:
        out, slots = _backward_tiles(plan, grad, x, way, learnt)
    else:
        ready = make_ready(x, window, is_channels_last(x) and count == 1)
        size = tuple(x.shape[2:])
        shares, even = _shares(window, size, how.mean, ready.wide) if way.shared else (None, True)
        frame = ready.frame(count, even, True, *way.backward, window.cells)
        out, slots = empty_like(ready.x), _slots(frame, learnt, ready.wide)
        grad = grad.contiguous(memory_format=frame.layout)
        factors = () if shares is None else (shares.data_ptr(),)
        sums = None if slots is None else slots.data_ptr()
        where = ready.x.data_ptr(), grad.data_ptr(), out.data_ptr(), sums, *factors, way.numbers.data_ptr()
        rest = frame.rule, frame.room, *way.rule, *ready.types(way.nothing)
        moved = 2 * x.nbytes + grad.nbytes
        spread(way.kernels.backward, frame.units, moved, *where, *rest, scratch=frame.scratch)
        out = in_format_of(x, out)
    if slots is None or not isinstance(number, Tensor):
        return out, None
    # Slots are by sample, channel and band; with one number they are all summed.
    if count > 1:
        slots = slots.view(max(x.shape[0], 1), count, -1).sum((0, 2))
    elif slots.numel() > 1:
        slots = slots.sum()
    slope = slots.view(number.shape)
    return out, slope * log(2) if way.shared else slope


def _slots(frame: Frame, wanted: bool, wide: torch.dtype) -> Tensor | None:
    return torch.zeros(frame.units or frame.room[0][6], dtype=wide, device=CPU) if wanted else None


class Tiles(NamedTuple):
    """Processing of the 2x2 tiles of maps of one size: in place if ``room`` is None, else in bands."""

    size: tuple[int, int, int, int]
    room: tuple[Any, ...] | None
    lanes: int
    units: int
    scratch: tuple[int, int]
    shape: tuple[int, ...]
    layout: torch.memory_format
    total: Any
    like: Any


@lru_cache(maxsize=1024)
def _tiles(
    shape: tuple[int, ...], window: Window, last: bool, dtype: torch.dtype, numbers: int
) -> Tiles | None:
    (samples, channels, height, width), (rows, columns) = shape, window.output_size(*shape[2:])
    if window[:3] != ((2, 2), (2, 2), (0, 0)) or (rows, columns) != (height // 2, width // 2):
        return None
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    size, lanes = (height, width, rows, columns), channels if last else 1
    rest = (samples, channels, rows, columns), memory_format(last), scalar(0.0, wide), scalar(0.0, dtype)
    if lanes % PIXEL == 0:
        return Tiles(size, None, lanes, samples * rows, (0, columns * lanes * wide.itemsize), *rest)
    # With a number for every channel, maps are processed one by one.
    units = samples * channels if numbers > 1 else 1
    lines = samples * rows * (channels // lanes) // max(units, 1)
    band = max(1, min(lines, TOGETHER // (columns * lanes)))
    several, part = -(-lines // band), aligned(band * columns * lanes + 8)
    sent, slopes = 4 * part * dtype.itemsize, 8 * part * dtype.itemsize
    room = lines, band, several, numbers, lanes, part, sent, slopes
    return Tiles(size, room, lanes, units * several, (sent, slopes + part * wide.itemsize), *rest)


def _tiles_of(x: Tensor, window: Window, numbers: Tensor) -> Tiles | None:
    """The tiles of ``x``, (N, C, H, W), with one number or one per channel; None if windows are not tiles."""
    count = numbers.numel()
    return _tiles(tuple(x.shape), window, count == 1 and is_channels_last(x), x.dtype, count)


def _forward_tiles(plan: Tiles, x: Tensor, way: Arithmetic) -> Tensor:
    last = is_channels_last(x)
    stated, same = stated_format(x, last), plan.layout == memory_format(last)
    x = x.contiguous(memory_format=plan.layout)
    y = empty(plan.shape, x.dtype, stated if same else plan.layout)
    where, moved = (x.data_ptr(), y.data_ptr(), way.numbers.data_ptr(), plan.size), x.nbytes + y.nbytes
    if plan.room is None:
        rest: tuple[Any, ...] = plan.lanes, way.rule, plan.total, plan.like, x.itemsize
        spread(means_2x2.forward_last, plan.units, moved, *where, *rest)
    else:
        rest = plan.room, way.rule, plan.total, plan.like
        spread(means_2x2.forward, plan.units, moved, *where, *rest, scratch=plan.scratch[0])
    return y if same else y.contiguous(memory_format=stated)


def _backward_tiles(
    plan: Tiles, grad: Tensor, x: Tensor, way: Arithmetic, learnt: bool
) -> tuple[Tensor, Tensor | None]:
    """Gradients of ``x`` and, if it is ``learnt``, of the number, by unit of work."""
    stated, numbers = stated_format(x, is_channels_last(x)), way.numbers
    x, grad = x.contiguous(memory_format=plan.layout), grad.contiguous(memory_format=plan.layout)
    # At least one for every number, if there are no samples.
    slots = None
    if learnt:
        slots = torch.zeros(max(plan.units, numbers.numel()), dtype=numbers.dtype, device=CPU)
    out = empty_like(x)
    where = x.data_ptr(), grad.data_ptr(), out.data_ptr(), None if slots is None else slots.data_ptr()
    rest: tuple[Any, ...] = numbers.data_ptr(), plan.size
    kernel: Any
    if plan.room is None:
        kernel = means_2x2.backward_last
        rest = *rest, plan.lanes, way.rule, plan.total, plan.like, x.itemsize, numbers.itemsize
    else:
        kernel = means_2x2.backward
        rest = *rest, plan.room, way.rule, plan.total, plan.like
    spread(kernel, plan.units, 2 * x.nbytes + grad.nbytes, *where, *rest, scratch=plan.scratch[1])
    return out.contiguous(memory_format=stated), slots
