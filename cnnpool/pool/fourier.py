"""Feature maps resampled in the frequency domain, as one real matrix product per axis.

At feature map sizes this is several times faster than a fast Fourier transform and its inverse, and it
needs no complex numbers.
"""

import math
from contextlib import AbstractContextManager, nullcontext

import torch
import torch.nn.functional as F
from torch import Tensor

from cnnpool.pool.internals import modulo
from cnnpool.pool.window import is_channels_last, memory_format, wide


def full_precision(x: Tensor) -> AbstractContextManager[object]:
    """Keep autocast from rounding the matrices to half precision, which would lose the gain of 1."""
    kind = x.device.type
    return torch.autocast(kind, enabled=False) if torch.amp.is_autocast_available(kind) else nullcontext()


def low_pass(length: int, gain: Tensor, places: Tensor, period: int) -> Tensor:
    """Matrix (M, length) that keeps the lowest frequencies of a periodic signal of ``length`` samples.

    The frequencies 0, 1, ... are multiplied by ``gain``, (K,), and higher ones removed; the filtered signal
    is sampled at the whole numbers ``places``, (M,), ``period`` of them to its length. The frequency period/2
    counts once, with its real part, in place of a pair of opposite ones.
    """
    frequency = torch.arange(gain.shape[0], device=gain.device)
    alone = (frequency == 0) | (2 * frequency == period)
    weight = torch.where(alone, gain, 2 * gain) / length
    # cos(a - b) = cos a cos b + sin a sin b
    there = waves(torch.arange(length, device=gain.device), frequency, length, gain.dtype)
    back = waves(places, frequency, period, gain.dtype)
    return (back * weight.repeat(2)) @ there.T


def waves(places: Tensor, frequency: Tensor, period: int, dtype: torch.dtype) -> Tensor:
    """Cosines, then sines of each frequency at each place, (places, 2 frequencies)."""
    # Whole periods are subtracted as integers, which is exact.
    turns = modulo(torch.outer(places, frequency), period)
    angle = turns.to(dtype) * (2 * math.pi / period)
    return torch.cat([angle.cos(), angle.sin()], 1)


def crop(length: int, size: int, gain: Tensor) -> Tensor:
    """Matrix from ``length`` samples to ``size`` by the frequencies 0 ... size//2, each times its gain."""
    return low_pass(length, gain, torch.arange(size, device=gain.device), size)


def resample(x: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """``rows`` x ``columns``^T for each channel, (N, C, H', W'), in the dtype and memory format of ``x``."""
    # Not matmul, which sums in another order when gradients are needed.
    return like(torch.einsum("mh,nchw->ncmw", rows, F.linear(wide(x), columns)), x)


def like(y: Tensor, x: Tensor) -> Tensor:
    """``y`` in the dtype and memory format of ``x``."""
    # The dtype changes last: otherwise a half-precision graph queries the layout of einsum's result.
    return y.contiguous(memory_format=memory_format(is_channels_last(x))).to(x.dtype)


def resample_flops(channels: int, height: int, width: int, rows: int, columns: int) -> int:
    """Multiplications and additions of ``resample``; the matrices are made once for all channels."""
    return 2 * channels * height * columns * (width + rows)
