"""Binomial blurring under autograd: it is linear, so nothing is saved for backward."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from cnnpool.pool.autograd.kernels import LinearKernels
from cnnpool.pool.autograd.linear_maps import Blurring, taps
from cnnpool.pool.autograd.transforms import LinearMap
from cnnpool.pool.dispatch import kernels
from cnnpool.pool.edges import PaddingMode, pad, source
from cnnpool.pool.window import ceil_div, memory_format, wide


class Move(NamedTuple):
    """Outputs that get ``weight`` times the inputs."""

    weight: float
    outputs: slice
    inputs: slice


def moves(blurring: Blurring, axis: int) -> list[Move]:
    """The filter along one axis, 0 for rows and 1 for columns."""
    return list(
        _moves(blurring.size[axis], blurring.filter_size[axis], blurring.stride[axis], blurring.padding_mode)
    )


def _moves(length: int, filter_size: int, stride: int, mode: PaddingMode) -> Iterator[Move]:
    """Moves tap by tap, so that all outputs sum in one order; the middle tap is first and reaches all."""
    count, before = ceil_div(length, stride), (filter_size - 1) // 2
    middle_first = sorted(range(filter_size), key=lambda k: k != before)
    for offset, weight in ((k - before, taps(filter_size)[k]) for k in middle_first):
        first = min(count, max(0, -(offset // stride)))
        end = max(first, min(count, (length - 1 - offset) // stride + 1))
        if first < end:
            start = first * stride + offset
            inside = slice(start, start + (end - first - 1) * stride + 1, stride)
            yield Move(weight, slice(first, end), inside)
        for i in [*range(first), *range(end, count)]:
            pixel = source(i * stride + offset, length, mode)
            if pixel is not None:
                yield Move(weight, slice(i, i + 1), slice(pixel, pixel + 1))


def forward(x: Tensor, blurring: Blurring) -> Tensor:
    """Blurred and subsampled (N, C, H', W') of ``x`` (N, C, H, W); no autograd."""
    kernel: LinearKernels | None = kernels("linear", x, cells=blurring.cells)
    if kernel is not None:
        return kernel.blur(x, blurring, False)
    y = wide(x)
    for axis in (0, 1):
        whole, *rest = moves(blurring, axis)
        total = _part(y, axis, whole.inputs) * whole.weight
        for move in rest:
            _part(total, axis, move.outputs).add_(_part(y, axis, move.inputs), alpha=move.weight)
        y = total
    return y.to(x.dtype).contiguous(memory_format=memory_format(blurring.channels_last))


def traced(x: Tensor, filter_size: tuple[int, int], stride: tuple[int, int], mode: PaddingMode) -> Tensor:
    """``forward`` in plain operations, which compile to one graph for maps of any size."""
    y = _padded(x, filter_size, mode)
    for axis in (0, 1):
        count = ceil_div(x.shape[axis + 2], stride[axis])
        parts = [
            weight * _part(y, axis, slice(k, k + (count - 1) * stride[axis] + 1, stride[axis]))
            for k, weight in enumerate(taps(filter_size[axis]))
        ]
        y = sum(parts[1:], parts[0])
    return y.to(x.dtype)


def convolved(x: Tensor, filter_size: tuple[int, int], stride: tuple[int, int], mode: PaddingMode) -> Tensor:
    """``forward`` as padding and a depthwise convolution, which other runtimes support."""
    y = _padded(x, filter_size, mode)
    down, across = (y.new_tensor(taps(m)) for m in filter_size)
    channels = x.shape[1]
    weight = torch.outer(down, across).expand(channels, 1, *filter_size)
    return F.conv2d(y, weight, stride=stride, groups=channels).to(x.dtype)


def adjoint(grad: Tensor, blurring: Blurring) -> Tensor:
    """Gradient of the (N, C, *size) input: the transpose of ``forward``; no autograd."""
    kernel: LinearKernels | None = kernels("linear", grad, cells=blurring.cells)
    if kernel is not None:
        return kernel.blur(grad, blurring, True)
    x = wide(grad)
    for axis in (1, 0):
        samples, channels, *size = x.shape
        size[axis] = blurring.size[axis]
        if blurring.channels_last:
            total = x.new_zeros((samples, *size, channels)).permute(0, 3, 1, 2)
        else:
            total = x.new_zeros((samples, channels, *size))
        for move in moves(blurring, axis):
            _part(total, axis, move.inputs).add_(_part(x, axis, move.outputs), alpha=move.weight)
        x = total
    return x.to(grad.dtype)


def _padded(x: Tensor, filter_size: tuple[int, int], mode: PaddingMode) -> Tensor:
    down, across = (((m - 1) // 2, m // 2) for m in filter_size)
    return pad(wide(x), (*across, *down), mode)


def _part(x: Tensor, axis: int, part: slice) -> Tensor:
    # A single slicing operation, which supports batched gradients.
    sliced: Tensor = torch.ops.aten.slice(x, axis - 2, part.start, part.stop, part.step or 1)
    return sliced


BLUR = LinearMap(forward, adjoint)
