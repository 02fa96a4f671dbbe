"""Where a program's numbers lie: one number of a map each, in the order of memory."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from cnnpool.pool.window import is_channels_last, memory_format, stated_format

BLOCK = 512


@triton.jit
def numbered(count, block: tl.constexpr):
    """The numbers of this program, and which of them exist."""
    index = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    return index, index < count


@triton.jit
def unravelled(index, channels, rows, columns, last: tl.constexpr):
    """(sample, channel, row, column) of numbers of a map."""
    if last:
        channel, pixel = index % channels, index // channels
        return pixel // (rows * columns), channel, pixel // columns % rows, pixel % columns
    plane = index // (rows * columns)
    return plane // channels, plane % channels, index // columns % rows, index % columns


@triton.jit
def at(sample, channel, row, column, channels, rows, columns, last: tl.constexpr):
    """The place in memory of a number of a map."""
    if last:
        return ((sample * rows + row) * columns + column) * channels + channel
    return ((sample * channels + channel) * rows + row) * columns + column


def grid(t: Tensor) -> tuple[int]:
    """As many programs as ``t`` has blocks of numbers."""
    return (triton.cdiv(t.numel(), BLOCK),)


def dense(x: Tensor) -> tuple[Tensor, bool]:
    """``x`` without gaps, and whether its channels come last."""
    last = is_channels_last(x)
    return x.contiguous(memory_format=memory_format(last)), last


def empty(x: Tensor, size: tuple[int, int], dtype: torch.dtype, last: bool | None = None) -> Tensor:
    """An uninitialised map of another size in the memory format of ``x``, or the one given."""
    layout = stated_format(x, is_channels_last(x)) if last is None else memory_format(last)
    return torch.empty((*x.shape[:2], *size), dtype=dtype, device=x.device, memory_format=layout)
