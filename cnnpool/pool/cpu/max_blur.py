"""The maximum of 2x2 windows around every pixel, blurred, of plain CPU tensors.

A few samples at a time, whose dense maxima stay in the cache.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from cnnpool.pool.autograd.linear_maps import Blurring
from cnnpool.pool.cpu.linear import write_sums
from cnnpool.pool.cpu.max import pool, unpool
from cnnpool.pool.cpu.memory import empty
from cnnpool.pool.cpu.runs import Axis
from cnnpool.pool.window import memory_format, stated_format

# Bytes of dense maxima that are blurred at once.
TOGETHER = 1 << 21


def _dense(size: tuple[int, int]) -> tuple[Axis, Axis]:
    # A window begins at every pixel; the last ones overhang.
    height, width = size
    return (height, height, 2, 1, 0, 1), (width, width, 2, 1, 0, 1)


def _parts(x: Tensor, like: Tensor) -> Iterator[slice]:
    several = max(1, TOGETHER // max(x[:1].numel() * like.element_size(), 1))
    return (slice(first, first + several) for first in range(0, x.shape[0], several))


def forward(x: Tensor, blurring: Blurring) -> tuple[Tensor, Tensor]:
    """Blurred maxima (N, C, H', W') and winners of the dense maxima, uint8, (N, C, H, W)."""
    last = blurring.channels_last
    layout, axes = memory_format(last), _dense(blurring.size)
    y = empty((*x.shape[:2], *blurring.output_size), x.dtype, stated_format(x, last))
    x, winners = x.contiguous(memory_format=layout), empty(x.shape, torch.uint8, layout)
    for part in _parts(x, x):
        dense = empty(x[part].shape, x.dtype, layout)
        pool(x[part], axes, last, dense, winners[part])
        write_sums(dense, blurring, False, y[part])
    return y, winners


def backward(grad: Tensor, winners: Tensor, blurring: Blurring) -> Tensor:
    """Gradient (N, C, H, W) of the input."""
    last = blurring.channels_last
    layout, axes = memory_format(last), _dense(blurring.size)
    grad, winners = (t.contiguous(memory_format=layout) for t in (grad, winners))
    out = empty(winners.shape, grad.dtype, layout)
    for part in _parts(winners, grad):
        dense = empty(winners[part].shape, grad.dtype, layout)
        write_sums(grad[part], blurring, True, dense)
        unpool(dense, winners[part], axes, last, out[part])
    return out
