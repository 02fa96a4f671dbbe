"""Phases of subsampled maps, of plain CPU tensors by compiled kernels."""

import torch
from torch import Tensor

from cnnpool.pool.cpu.compiling import Kernel
from cnnpool.pool.cpu.loops import polyphase
from cnnpool.pool.cpu.memory import empty, scalar
from cnnpool.pool.cpu.threads import spread
from cnnpool.pool.window import is_channels_last, memory_format, wide_of


def norms(x: Tensor, stride: tuple[int, int], scale: float, squared: bool) -> Tensor:
    """(N, P) int64 of complete maps (N, C, H, W): sums of magnitudes over the sample's largest, or of their
    squares, times ``scale``; NaN and infinity count as the largest number.
    """
    last, wide = is_channels_last(x), wide_of(x)
    x = x.contiguous(memory_format=memory_format(last))
    samples, channels, height, width = x.shape
    out = empty((samples, stride[0] * stride[1]), torch.int64)
    rows, pixel = (height, channels) if last else (channels * height, 1)
    rest = rows, width, pixel, stride, scalar(scale, wide), squared, scalar(0.0, wide), scalar(0.0, x.dtype)
    room = 8 * stride[0] * width * pixel
    spread(polyphase.norms, samples, x.nbytes, x.data_ptr(), out.data_ptr(), *rest, scratch=room)
    return out


def take(x: Tensor, phase: Tensor, stride: tuple[int, int], last: bool) -> Tensor:
    """The phase of each sample (N,), int64, of complete maps (N, C, H, W)."""
    height, width = x.shape[2] // stride[0], x.shape[3] // stride[1]
    kernel = polyphase.take_last if last else polyphase.take
    return _move(kernel, x, phase, stride, last, (height, width), x.shape[2:], height)


def put(y: Tensor, phase: Tensor, stride: tuple[int, int], last: bool) -> Tensor:
    """The transpose of ``take``: the taken pixels among zeros."""
    size = y.shape[2] * stride[0], y.shape[3] * stride[1]
    return _move(polyphase.put_last if last else polyphase.put, y, phase, stride, last, size, size, size[0])


def _move(
    kernel: Kernel[..., None],
    x: Tensor,
    phase: Tensor,
    stride: tuple[int, int],
    last: bool,
    out_size: tuple[int, int],
    size: tuple[int, ...],
    lines: int,
) -> Tensor:
    layout = memory_format(last)
    x, phase = x.contiguous(memory_format=layout), phase.contiguous()
    samples, channels = x.shape[:2]
    y = empty((samples, channels, *out_size), x.dtype, layout)
    where = x.data_ptr(), y.data_ptr(), phase.data_ptr(), channels, tuple(size), stride, scalar(0.0, x.dtype)
    spread(kernel, samples * (lines if last else channels), x.nbytes + y.nbytes, *where)
    return y
