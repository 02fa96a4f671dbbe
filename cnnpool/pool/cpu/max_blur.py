"""The maximum of 2x2 windows around every pixel, blurred, of plain CPU tensors: the kernels of both in turn.

The dense maxima of a few planes, or of a sample whose channels come last, stay in scratch memory.
"""

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from cnnpool.pool.autograd.separable import Blurring
from cnnpool.pool.cpu.linear import adjoint_planes, sum_last, sum_planes
from cnnpool.pool.cpu.linear import plan as linear_plan
from cnnpool.pool.cpu.loops.signatures import Address, compiled
from cnnpool.pool.cpu.max import max_last, max_planes, unpool_last, unpool_planes
from cnnpool.pool.cpu.max import plan as max_plan
from cnnpool.pool.cpu.memory import are_small, as_planes, empty, with_channels_last
from cnnpool.pool.cpu.runs import Plan, scratch_layout
from cnnpool.pool.cpu.threads import spread as share
from cnnpool.pool.window import memory_format, stated_format

Three = tuple[int, int, int]
"""Where the dense maxima and the scratch of both kernels are."""
Step = tuple[int, int, int, int]
"""Planes, or samples, at once; bytes of the dense maxima of one, and its shares of both kernels' work."""
TOGETHER = 1 << 12
"""Bytes of the dense maxima of small planes at once: kernels clear their scratch memory each time."""


@compiled
def _forward(
    start: int, stop: int, scratch: Address, x: Address, y: Address, winners: Address, held: Three,
    step: Step, pooling: Any, blurring: Any,
) -> None:  # fmt: skip
    """Planes, or samples, ``start`` to ``stop``."""
    some, size, first, then = step
    for n in range(start, stop, some):
        end = min(n + some, stop)
        # Kernels count addresses from the first plane on.
        dense = scratch + held[0] - n * size
        max_planes(n * first, end * first, scratch + held[1], x, dense, winners, *pooling)
        sum_planes(n * then, end * then, scratch + held[2], dense, y, *blurring)


@compiled
def _forward_last(
    start: int, stop: int, scratch: Address, x: Address, y: Address, winners: Address, held: Three,
    step: Step, pooling: Any, blurring: Any,
) -> None:  # fmt: skip
    """The same in place."""
    some, size, first, then = step
    for n in range(start, stop, some):
        end = min(n + some, stop)
        dense = scratch + held[0] - n * size
        max_last(n * first, end * first, x, dense, winners, *pooling)
        sum_last(n * then, end * then, dense, y, *blurring)


@compiled
def _backward(
    start: int, stop: int, scratch: Address, grad: Address, winners: Address, out: Address, held: Three,
    step: Step, pooling: Any, blurring: Any,
) -> None:  # fmt: skip
    """Gradients of planes, or of samples."""
    some, size, first, then = step
    for n in range(start, stop, some):
        end = min(n + some, stop)
        dense = scratch + held[0] - n * size
        adjoint_planes(n * then, end * then, scratch + held[2], grad, dense, *blurring)
        unpool_planes(n * first, end * first, scratch + held[1], dense, winners, out, *pooling)


@compiled
def _backward_last(
    start: int, stop: int, scratch: Address, grad: Address, winners: Address, out: Address, held: Three,
    step: Step, pooling: Any, blurring: Any,
) -> None:  # fmt: skip
    """The same in place."""
    some, size, first, then = step
    for n in range(start, stop, some):
        end = min(n + some, stop)
        dense = scratch + held[0] - n * size
        sum_last(n * then, end * then, grad, dense, *blurring)
        unpool_last(n * first, end * first, dense, winners, out, *pooling)


KERNELS = {
    (False, False): _forward,
    (False, True): _forward_last,
    (True, False): _backward,
    (True, True): _backward_last,
}
"""By whether it is the gradient, and whether pixels are read where they are."""


@lru_cache(maxsize=1024)
def _plan(blurring: Blurring, channels: int, dtype: torch.dtype, adjoint: bool) -> Plan:
    (height, width), last = blurring.size, blurring.channels_last
    # A window begins at every pixel; the last ones overhang.
    axes = (height, height, 2, 1, 0, 1), (width, width, 2, 1, 0, 1)
    pooling = max_plan(axes, channels, last, dtype, adjoint)
    blur = linear_plan(blurring, channels, dtype, adjoint)
    parts = 1 if last else channels
    size = height * width * channels // parts * dtype.itemsize
    some = 1 if last else max(1, TOGETHER // size)
    held, scratch = scratch_layout(some * size, pooling.scratch, blur.scratch)
    step = some, size, pooling.units // parts, blur.units // parts
    kernel = KERNELS[adjoint, not pooling.scratch]
    return Plan(kernel, blur.out_size, parts, scratch, (held, step, pooling.rest, blur.rest), (pooling, blur))


def forward(x: Tensor, blurring: Blurring) -> tuple[Tensor, Tensor]:
    """Blurred maxima (N, C, H', W') and winners of the dense maxima, uint8, (N, C, H, W)."""
    if not blurring.channels_last and are_small(*x.shape[1:]):
        y, winners = forward(with_channels_last(x), blurring._replace(channels_last=True))
        return as_planes(y), as_planes(winners)
    layout = memory_format(blurring.channels_last)
    y = empty((*x.shape[:2], *blurring.output_size), x.dtype, stated_format(x, blurring.channels_last))
    x, winners = x.contiguous(memory_format=layout), empty(x.shape, torch.uint8, layout)
    _run(_plan(blurring, x.shape[1], x.dtype, False), x, y, winners)
    return y, winners


def backward(grad: Tensor, winners: Tensor, blurring: Blurring) -> Tensor:
    """Gradient (N, C, H, W) of the input."""
    if not blurring.channels_last and are_small(*winners.shape[1:]):
        last = blurring._replace(channels_last=True)
        return as_planes(backward(with_channels_last(grad), with_channels_last(winners), last))
    layout = memory_format(blurring.channels_last)
    grad, winners = (t.contiguous(memory_format=layout) for t in (grad, winners))
    out = empty(winners.shape, grad.dtype, layout)
    _run(_plan(blurring, grad.shape[1], grad.dtype, True), grad, winners, out)
    return out


def _run(plan: Plan, *maps: Tensor) -> None:
    moved, where = sum(t.nbytes for t in maps), (t.data_ptr() for t in maps)
    share(plan.kernel, maps[0].shape[0] * plan.units, moved, *where, *plan.rest, scratch=plan.scratch)
