"""Max pooling of plain CPU tensors by compiled kernels."""

from functools import lru_cache
from math import prod
from typing import Any

import torch
from torch import Tensor

from cnnpool.pool.cpu.loops import max_2x2, max_nchw, max_nhwc
from cnnpool.pool.cpu.memory import aligned, empty, scalar
from cnnpool.pool.cpu.threads import spread
from cnnpool.pool.window import Window, is_channels_last, memory_format, stated_format, wide_of

SKIPS_NOWHERE = False


@lru_cache(maxsize=1024)
def _plan(window: Window, height: int, width: int) -> tuple[tuple[int, int], tuple[Any, ...], bool]:
    """Output size, the arguments of sliding kernels, and whether windows are 2x2 tiles."""
    out_size = window.output_size(height, width)
    tile = window[:4] == ((2, 2), (2, 2), (0, 0), (1, 1)) and out_size == (height // 2, width // 2)
    return out_size, ((height, width), out_size, tuple(window[:4])), tile


def forward(x: Tensor, window: Window) -> tuple[Tensor, Tensor]:
    """Maxima and the first winners, uint8, both (N, C, H', W') in the memory format of ``x``."""
    last = is_channels_last(x)
    layout, stated = memory_format(last), stated_format(x, last)
    samples, channels, *size = x.shape
    out_size, rule, tile = _plan(window, *size)
    x = x.contiguous(memory_format=layout)
    y = empty((samples, channels, *out_size), x.dtype, stated)
    winners = empty(y.shape, torch.uint8, stated)
    where = x.data_ptr(), y.data_ptr(), winners.data_ptr()
    moved, lowest = x.nbytes + y.nbytes + winners.nbytes, scalar(-torch.inf, x.dtype)
    planes, lines = samples * channels, samples * out_size[0]
    if tile:
        if last:
            spread(max_2x2.forward_last, lines, moved, *where, *size, *out_size, channels, lowest)
        else:
            spread(max_2x2.forward, planes, moved, *where, *size, *out_size, lowest)
        return y, winners
    if last:
        spread(max_nhwc.forward, lines, moved, *where, *rule, channels, lowest)
    else:
        room, scratch = _forward_room(window, *size, x.element_size())
        spread(max_nchw.forward, planes, moved, *where, *rule, room, lowest, scratch=scratch)
    return y, winners


def backward(grad: Tensor, winners: Tensor, window: Window, size: tuple[int, int], last: bool) -> Tensor:
    """Gradient of the (N, C, *size) input; half precision is summed in float32 and rounded once."""
    layout = memory_format(last)
    samples, channels = grad.shape[:2]
    out_size, rule, tile = _plan(window, *size)
    grad = grad.contiguous(memory_format=layout)
    winners = winners.contiguous(memory_format=layout)
    out = empty((samples, channels, *size), grad.dtype, layout)
    where = grad.data_ptr(), winners.data_ptr(), out.data_ptr()
    moved, zero = grad.nbytes + winners.nbytes + out.nbytes, scalar(0.0, grad.dtype)
    planes, lines = samples * channels, samples * size[0]
    if tile:
        if last:
            lines = samples * out_size[0]
            spread(max_2x2.backward_last, lines, moved, *where, *size, *out_size, channels, zero)
        else:
            spread(max_2x2.backward, planes, moved, *where, *size, *out_size, zero)
        return out
    wide = wide_of(grad)
    total = scalar(0.0, wide)
    if last:
        (kh, kw), width = window.kernel, size[1]
        room = 8 * (width + 1 + 2 * kh + 2 * out_size[1] * kw) + channels * wide.itemsize
        spread(max_nhwc.backward, lines, moved, *where, *rule, channels, total, zero, scratch=room)
    else:
        direct = grad.dtype == wide
        room = 8 * max_nchw.PLACES + (0 if direct else prod(size) * wide.itemsize)
        spread(max_nchw.backward, planes, moved, *where, *rule, direct, total, zero, scratch=room)
    return out


@lru_cache(maxsize=1024)
def _forward_room(window: Window, height: int, width: int, size: int) -> tuple[tuple[int, ...], int]:
    """The ``room`` of ``max_nchw.forward``, and its scratch memory in bytes."""
    (_, sw), columns = window.stride, window.output_size(height, width)[1]
    # Numbers of windows above and to the left of a pixel's own that may also contain it.
    above, before = (
        (k - 1) * d // s for k, s, d in zip(window.kernel, window.stride, window.dilation, strict=True)
    )
    pitch = max(columns + before, (width - 1 + window.padding[1]) // sw + 1)
    images = prod(window.stride)
    # Rows that fill half of a typical first-level cache, at least four times those that bands share.
    bands = max(4 * above, (1 << 14) // (pitch * (size * (images + 1) + 1)), 1)
    part = (bands + above) * pitch + before
    best = aligned(images * part * size)
    places = best + aligned(bands * pitch * size)
    return (bands, pitch, part, best, places), places + bands * pitch
