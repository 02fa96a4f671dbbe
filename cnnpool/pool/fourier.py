"""Feature maps cut down in the frequency domain, real in and real out."""

import math

import torch
from torch import Tensor

from cnnpool.pool.window import is_channels_last, memory_format
from cnnpool.pool.windows import wide


def check_map(x: Tensor, operator: str) -> None:
    """Refuse what is no map.

    Raises:
        ValueError: unless ``x`` is (N, C, H, W), floating, with no empty C, H or W.
    """
    if x.dim() != 4 or not x.is_floating_point() or min(x.shape[1:]) < 1:
        raise ValueError(f"{operator} takes floating (N, C, H, W), got {x.dtype} of shape {tuple(x.shape)}")


def like(y: Tensor, x: Tensor) -> Tensor:
    """``y`` in the dtype and memory format of ``x``, in memory of its own."""
    return y.to(x.dtype).contiguous(memory_format=memory_format(is_channels_last(x)))


def keep_lowest(x: Tensor, size: int, gain: Tensor, axis: int) -> Tensor:
    """Resample the real ``x`` to ``size`` along ``axis`` (-1 or -2) from its lowest frequencies.

    Args:
        gain: what each kept frequency 0, 1, ..., size//2 is multiplied by, (size//2 + 1,).
    """
    spectrum = torch.fft.rfft(x, dim=axis, norm="forward").narrow(axis, 0, size // 2 + 1)
    # A half-sampled cosine has no phase: of the Nyquist bin of an even size only the real part counts.
    has_phase = torch.ones_like(gain)
    if size % 2 == 0:
        has_phase = torch.cat([has_phase[:-1], torch.zeros_like(has_phase[:1])])
    gain, phase_gain = (g if axis == -1 else g.unsqueeze(-1) for g in (gain, gain * has_phase))
    scaled = torch.complex(spectrum.real * gain, spectrum.imag * phase_gain)
    return torch.fft.irfft(scaled, n=size, dim=axis, norm="forward")


def keep_centre(x: Tensor, size: tuple[int, int], window: tuple[Tensor, Tensor] | None = None) -> Tensor:
    """Real part of the inverse transform of the ``size`` frequencies around zero, (N, C, *size).

    The frequencies kept along an axis of M are -floor(M/2) ... ceil(M/2) - 1.

    Args:
        window: what those frequencies of each axis are multiplied by, in torch's order (0 first).
    """
    spectrum = torch.fft.fft2(wide(x), norm="forward")
    for axis, length, kept in zip((-2, -1), x.shape[-2:], size, strict=True):
        negative = kept // 2
        low = spectrum.narrow(axis, 0, kept - negative)
        high = spectrum.narrow(axis, length - negative, negative)
        spectrum = torch.cat([low, high], axis)
    if window is not None:
        spectrum = spectrum * window[0].unsqueeze(-1) * window[1]
    return like(torch.fft.ifft2(spectrum, norm="forward").real, x)


def transform_flops(length: int) -> int:
    """Of one real Fourier transform: 5/2 n log2 n, the count that FFT benchmarks quote."""
    return math.ceil(2.5 * length * math.log2(length)) if length > 1 else 0


def separable_flops(channels: int, height: int, width: int, rows: int, columns: int) -> int:
    """Of transforms there and back along each axis, rows first, with one product per frequency kept."""
    across = height * (transform_flops(width) + transform_flops(columns) + columns)
    down = columns * (transform_flops(height) + transform_flops(rows) + rows)
    return channels * (across + down)
