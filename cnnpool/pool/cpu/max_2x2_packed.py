"""Max pooling of 2x2 tiles of plain CPU tensors that saves two bits per output."""

import torch
from torch import Tensor

from cnnpool.pool.cpu.loops import max_2x2_packed
from cnnpool.pool.cpu.memory import empty, scalar, scratch
from cnnpool.pool.cpu.threads import spread
from cnnpool.pool.window import is_channels_last, memory_format, stated_format

# Approximate number of outputs packed together, in whole planes or rows.
TOGETHER = 1 << 12


def forward(x: Tensor) -> tuple[Tensor, Tensor]:
    """Maxima (N, C, H', W'), and the first winners, packed."""
    last = is_channels_last(x)
    samples, channels, height, width = x.shape
    rows, columns = height // 2, width // 2
    stated = stated_format(x, last)
    x = x.contiguous(memory_format=memory_format(last))
    y = empty((samples, channels, rows, columns), x.dtype, stated)
    units, *stretch = _stretches(y.shape, last)
    packed = scratch(units * stretch[-1])
    where = x.data_ptr(), y.data_ptr(), packed.data_ptr(), height, width, rows, columns
    rest = (*stretch, channels) if last else stretch
    kernel = max_2x2_packed.forward_last if last else max_2x2_packed.forward
    moved = x.nbytes + y.nbytes + packed.nbytes
    lowest, room = scalar(-torch.inf, x.dtype), 4 * stretch[-1]
    spread(kernel, units, moved, *where, *rest, lowest, scratch=room, light=True)
    return y, packed


def backward(grad: Tensor, packed: Tensor, size: tuple[int, int], last: bool) -> Tensor:
    """Gradient of the (N, C, *size) input."""
    layout = memory_format(last)
    grad = grad.contiguous(memory_format=layout)
    samples, channels, rows, columns = grad.shape
    out = empty((samples, channels, *size), grad.dtype, layout)
    units, *stretch = _stretches(grad.shape, last)
    where = grad.data_ptr(), packed.data_ptr(), out.data_ptr(), *size, rows, columns
    rest = (*stretch, channels) if last else stretch
    kernel = max_2x2_packed.backward_last if last else max_2x2_packed.backward
    moved = grad.nbytes + out.nbytes + packed.nbytes
    zero, room = scalar(0.0, grad.dtype), 4 * stretch[-1]
    spread(kernel, units, moved, *where, *rest, zero, scratch=room, light=True)
    return out


def unpack(packed: Tensor, shape: torch.Size, last: bool) -> Tensor:
    """The winners (N, C, H', W'), uint8, a byte each."""
    samples, channels, rows, columns = shape
    units, group, _, quarter = _stretches(shape, last)
    part = group * columns * (channels if last else rows)
    four = packed.view(units, quarter)
    each = torch.stack([four >> shift & 3 for shift in (0, 2, 4, 6)], 1).flatten(1)[:, :part].flatten()
    each = each[: shape.numel()]
    return each.view(samples, rows, columns, channels).movedim(3, 1) if last else each.view(shape)


def _stretches(shape: torch.Size, last: bool) -> tuple[int, int, int, int]:
    """Number of stretches, planes or (channels last) rows in each and in all, and bytes of a stretch."""
    samples, channels, rows, columns = shape
    lines, length = (samples * rows, columns * channels) if last else (samples * channels, rows * columns)
    units = -(-max(1, lines) // max(1, TOGETHER // length))
    group = -(-max(1, lines) // units)
    return -(-max(1, lines) // group), group, lines, -(-group * length // 4)
