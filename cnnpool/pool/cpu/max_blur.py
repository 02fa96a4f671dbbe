"""The maximum of 2x2 windows around every pixel, blurred, of plain CPU tensors by compiled kernels."""

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from cnnpool.pool.autograd.linear_maps import Blurring, Entries
from cnnpool.pool.cpu.linear import Plan, Table, blur_plan, plane_room, room_of
from cnnpool.pool.cpu.loops import max_blur
from cnnpool.pool.cpu.memory import aligned, empty, scalar
from cnnpool.pool.cpu.threads import spread
from cnnpool.pool.window import memory_format, stated_format, wide_of


def forward(x: Tensor, blurring: Blurring) -> tuple[Tensor, Tensor]:
    """Blurred maxima (N, C, H', W') and winners of the dense maxima, uint8, (N, C, H, W)."""
    layout, wide, plan = memory_format(blurring.channels_last), wide_of(x), blur_plan(blurring)
    stated = stated_format(x, blurring.channels_last)
    x = x.contiguous(memory_format=layout)
    samples, channels, _, width = x.shape
    y = empty((samples, channels, *plan.out_size), x.dtype, stated)
    winners = empty(x.shape, torch.uint8, layout)
    down, across, common, _ = plan.tables(False, wide)
    where = x.data_ptr(), y.data_ptr(), winners.data_ptr(), plan.size, plan.out_size
    numbers, moved = (scalar(0.0, wide), scalar(0.0, x.dtype)), x.nbytes + y.nbytes + winners.nbytes
    if blurring.channels_last:
        turns, slots = _ring(plan.axes[0].entries, wide)
        stretch = width * channels
        rows, scratch = room_of(wide.itemsize, stretch, channels, 2 * turns, turns * stretch)
        rest: tuple[Any, ...] = channels, down.pointers, slots.pointers, across.pointers, (turns, rows)
        spread(
            max_blur.forward_last, samples * plan.out_size[0], moved, *where, *rest, *numbers, scratch=scratch
        )
    else:
        room, scratch = _planes(plan, wide, x.element_size())
        rest = down.pointers, across.pointers, common.pointers, common.ends, room
        spread(max_blur.forward, samples * channels, moved, *where, *rest, *numbers, scratch=scratch)
    return y, winners


def backward(grad: Tensor, winners: Tensor, blurring: Blurring) -> Tensor:
    """Gradient (N, C, H, W) of the input."""
    layout, wide, plan = memory_format(blurring.channels_last), wide_of(grad), blur_plan(blurring)
    grad, winners = (t.contiguous(memory_format=layout) for t in (grad, winners))
    samples, channels = grad.shape[:2]
    out = empty(winners.shape, grad.dtype, layout)
    down, across, common, _ = plan.tables(True, wide)
    where = grad.data_ptr(), out.data_ptr(), winners.data_ptr(), plan.size, plan.out_size
    numbers, moved = (scalar(0.0, wide), scalar(0.0, grad.dtype)), grad.nbytes + out.nbytes + winners.nbytes
    if blurring.channels_last:
        (rows, columns), width = plan.out_size, plan.size[1]
        counts = rows * columns * channels, columns * channels, channels, 2 * width * channels
        rest_of, scratch = room_of(wide.itemsize, *counts)
        rest: tuple[Any, ...] = channels, down.pointers, across.pointers, rest_of
        spread(max_blur.backward_last, samples, moved, *where, *rest, *numbers, scratch=scratch)
    else:
        room, scratch = _planes(plan, wide, grad.element_size())
        rest = down.pointers, across.pointers, common.pointers, common.ends, room
        spread(max_blur.backward, samples * channels, moved, *where, *rest, *numbers, scratch=scratch)
    return out


def _planes(plan: Plan, wide: torch.dtype, size: int) -> tuple[tuple[Any, ...], int]:
    # A dense plane, followed by the scratch memory of the blur.
    (height, width), (rows, columns) = plan.size, plan.out_size
    behind = aligned(height * width * size) + 64
    room, scratch = plane_room(plan, wide)
    return (rows * columns * size, behind, room), behind + scratch


@lru_cache(maxsize=256)
def _ring(entries: Entries, wide: torch.dtype) -> tuple[int, Table]:
    """Smallest modulus by which the rows of every output have different places, and those places."""
    rows = [{row for row, _ in several} for several in entries]
    turns = max(map(len, rows))
    while any(len({row % turns for row in several}) < len(several) for several in rows):
        turns += 1
    return turns, Table(tuple(tuple((row % turns, w) for row, w in several) for several in entries), wide)
