"""Max pooling of plain CPU tensors by compiled kernels."""

from functools import cache
from typing import Any

import torch
from torch import Tensor

from cnnpool.pool.kernels import sliding, tiles, triples
from cnnpool.pool.kernels.threads import spread
from cnnpool.pool.window import Window, is_channels_last, memory_format

BITS = {torch.bfloat16: torch.uint16, torch.float16: torch.int16}


@cache
def scalar(value: float, dtype: torch.dtype) -> Any:
    """``value`` as kernels take it: a number, or the bits of half precision as an integer."""
    number = torch.tensor(value, dtype=dtype)
    return number.view(BITS.get(dtype, dtype)).numpy()[()]


def forward(x: Tensor, window: Window) -> tuple[Tensor, Tensor]:
    """Maxima and the first winners, uint8, both (N, C, H', W') in the memory format of ``x``."""
    last = is_channels_last(x)
    layout = memory_format(last)
    samples, channels, *size = x.shape
    out_size = window.output_size(*size)
    x = x.contiguous(memory_format=layout)
    y = torch.empty((samples, channels, *out_size), dtype=x.dtype, memory_format=layout)
    winners = torch.empty(y.shape, dtype=torch.uint8, memory_format=layout)
    where = x.data_ptr(), y.data_ptr(), winners.data_ptr()
    moved, lowest = x.nbytes + y.nbytes + winners.nbytes, scalar(-torch.inf, x.dtype)
    planes, lines = samples * channels, samples * out_size[0]
    if _is_tile(window, size):
        if last:
            spread(tiles.forward_last, lines, moved, *where, *size, *out_size, channels, lowest)
        else:
            spread(tiles.forward, planes, moved, *where, *size, *out_size, lowest)
        return y, winners
    rule = tuple(size), out_size, tuple(window[:4])
    if _is_triple(window, last):
        spread(triples.forward, planes, moved, *where, *size, *out_size, *window.padding, lowest)
    elif last:
        spread(sliding.forward_last, lines, moved, *where, *rule, channels, lowest, scratch=1)
    else:
        row = (out_size[1] + window.kernel[1] * window.dilation[1] + 1) * window.stride[1]
        spread(sliding.forward, planes, moved, *where, *rule, lowest, scratch=row * x.element_size())
    return y, winners


def backward(grad: Tensor, winners: Tensor, window: Window, size: tuple[int, int], last: bool) -> Tensor:
    """Gradient of the (N, C, *size) input; half precision is summed in float32 and rounded once."""
    layout = memory_format(last)
    samples, channels, *out_size = grad.shape
    grad = grad.contiguous(memory_format=layout)
    winners = winners.contiguous(memory_format=layout)
    out = torch.empty((samples, channels, *size), dtype=grad.dtype, memory_format=layout)
    where = grad.data_ptr(), winners.data_ptr(), out.data_ptr()
    moved, zero = grad.nbytes + winners.nbytes + out.nbytes, scalar(0.0, grad.dtype)
    planes, lines = samples * channels, samples * size[0]
    if _is_tile(window, size):
        if last:
            spread(tiles.backward_last, lines, moved, *where, *size, *out_size, channels, zero)
        else:
            spread(tiles.backward, planes, moved, *where, *size, *out_size, zero)
        return out
    wide = torch.float64 if grad.dtype == torch.float64 else torch.float32
    total = scalar(0.0, wide)
    rule = tuple(size), tuple(out_size), tuple(window[:4])
    if _is_triple(window, last):
        spread(triples.backward, planes, moved, *where, *size, *out_size, *window.padding, total, zero)
    elif last:
        room = channels * wide.itemsize
        spread(sliding.backward_last, lines, moved, *where, *rule, channels, total, zero, scratch=room)
    else:
        room = (size[1] + window.stride[1]) * wide.itemsize
        spread(sliding.backward, planes, moved, *where, *rule, total, zero, scratch=room)
    return out


def _is_tile(window: Window, size: Any) -> bool:
    whole = window.output_size(*size) == (size[0] // 2, size[1] // 2)
    return whole and window[:4] == ((2, 2), (2, 2), (0, 0), (1, 1))


def _is_triple(window: Window, last: bool) -> bool:
    return not last and (window.kernel, window.stride, window.dilation) == ((3, 3), (2, 2), (1, 1))
