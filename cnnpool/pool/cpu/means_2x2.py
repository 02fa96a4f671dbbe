"""Power means and soft means of 2x2 tiles of plain CPU tensors by compiled kernels."""

from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from cnnpool.pool.cpu.loops import means_2x2
from cnnpool.pool.cpu.memory import CPU, aligned, empty, empty_like, scalar
from cnnpool.pool.cpu.threads import spread
from cnnpool.pool.window import Window, is_channels_last, memory_format, stated_format

# Tiles of a band: its scratch memory fits a first-level cache.
TOGETHER = 512
# Pixels with a multiple of this many channels are read in place: vectorised loops leave no remainder.
PIXEL = 32


class Plan(NamedTuple):
    """Processing of maps of one size: in place if ``room`` is None, else in bands."""

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
def _plan(
    shape: tuple[int, ...], window: Window, last: bool, dtype: torch.dtype, numbers: int
) -> Plan | None:
    (samples, channels, height, width), (rows, columns) = shape, window.output_size(*shape[2:])
    if window[:3] != ((2, 2), (2, 2), (0, 0)) or (rows, columns) != (height // 2, width // 2):
        return None
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    size, lanes = (height, width, rows, columns), channels if last else 1
    rest = (samples, channels, rows, columns), memory_format(last), scalar(0.0, wide), scalar(0.0, dtype)
    if lanes % PIXEL == 0:
        return Plan(size, None, lanes, samples * rows, (0, columns * lanes * wide.itemsize), *rest)
    # With a number for every channel, maps are processed one by one.
    units = samples * channels if numbers > 1 else 1
    lines = samples * rows * (channels // lanes) // max(units, 1)
    band = max(1, min(lines, TOGETHER // (columns * lanes)))
    several, part = -(-lines // band), aligned(band * columns * lanes + 8)
    sent, slopes = 4 * part * dtype.itemsize, 8 * part * dtype.itemsize
    room = lines, band, several, numbers, lanes, part, sent, slopes
    return Plan(size, room, lanes, units * several, (sent, slopes + part * wide.itemsize), *rest)


def plan(x: Tensor, window: Window, numbers: int) -> Plan | None:
    """The plan for ``x``, (N, C, H, W), with one number or one per channel; None if windows are not tiles."""
    return _plan(tuple(x.shape), window, numbers == 1 and is_channels_last(x), x.dtype, numbers)


def forward(plan: Plan, x: Tensor, numbers: Tensor, rule: tuple[Any, ...]) -> Tensor:
    """Means in the memory format of ``x``, by the ``numbers`` and the ``rule`` of the kernels."""
    last = is_channels_last(x)
    stated, same = stated_format(x, last), plan.layout == memory_format(last)
    x = x.contiguous(memory_format=plan.layout)
    y = empty(plan.shape, x.dtype, stated if same else plan.layout)
    where, moved = (x.data_ptr(), y.data_ptr(), numbers.data_ptr(), plan.size), x.nbytes + y.nbytes
    if plan.room is None:
        rest: tuple[Any, ...] = plan.lanes, rule, plan.total, plan.like, x.itemsize
        spread(means_2x2.forward_last, plan.units, moved, *where, *rest)
    else:
        rest = plan.room, rule, plan.total, plan.like
        spread(means_2x2.forward, plan.units, moved, *where, *rest, scratch=plan.scratch[0])
    return y if same else y.contiguous(memory_format=stated)


def backward(
    plan: Plan, grad: Tensor, x: Tensor, numbers: Tensor, rule: tuple[Any, ...], learnt: bool
) -> tuple[Tensor, Tensor | None]:
    """Gradients of ``x`` and, if it is ``learnt``, of the number, by unit of work."""
    stated = stated_format(x, is_channels_last(x))
    x, grad = x.contiguous(memory_format=plan.layout), grad.contiguous(memory_format=plan.layout)
    # At least one for every number, if there are no samples.
    slots = None
    if learnt:
        slots = torch.zeros(max(plan.units, numbers.numel()), dtype=numbers.dtype, device=CPU)
    out = empty_like(x)
    where = x.data_ptr(), grad.data_ptr(), out.data_ptr(), None if slots is None else slots.data_ptr()
    rest: tuple[Any, ...] = numbers.data_ptr(), plan.size
    moved = 2 * x.nbytes + grad.nbytes
    if plan.room is None:
        sizes = x.itemsize, numbers.itemsize
        rest = *rest, plan.lanes, rule, plan.total, plan.like, *sizes
        spread(means_2x2.backward_last, plan.units, moved, *where, *rest, scratch=plan.scratch[1])
    else:
        rest = *rest, plan.room, rule, plan.total, plan.like
        spread(means_2x2.backward, plan.units, moved, *where, *rest, scratch=plan.scratch[1])
    return out.contiguous(memory_format=stated), slots
