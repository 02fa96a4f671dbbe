"""Aliasing and spectral artefact free pooling: FrequencyLowCut pooling under a Hamming window."""

import math

import torch
from torch import Tensor

from cnnpool.pool.flc import FlcPool2d
from cnnpool.pool.fourier import check_map, keep_centre
from cnnpool.pool.windows import wide


class AsapPool2d(FlcPool2d):
    """Keep the central quarter of the Fourier transform under a Hamming window (Grabinski 2023, ASAP).

    The cut of ``flc`` rings; so the frequency (k, l) of a map of (H, W) is first multiplied by
    sqrt(w(k/H) w(l/W)), w(f) = 0.54 + 0.46 cos(2 pi f): 1 at the mean, sqrt(0.54) at the stride 2 cut. The
    gradient is the adjoint, dense.

    Edges: as ``flc``. Departs from the authors' code, whose window is centred on the mean for odd H alone
    (for even H it peaks half a frequency beside it), is kept from the first map's size, and whose rows
    and columns are swapped: here it is centred and made for every size, and nothing is swapped.

    Args:
        channels: C of the input.
        stride: pixels per output pixel, >= 1, or (vertical, horizontal).

    Raises:
        ValueError: if stride is below 1.
    """

    formula = "Re inverse Fourier transform of X(f) sqrt(0.54 + 0.46 cos 2 pi f) at -1/(2s) <= f < 1/(2s)"
    paper = "Grabinski 2023, arXiv:2307.09804"

    def flops(self, height: int, width: int) -> int:
        rows, columns = self.output_size(height, width)
        return super().flops(height, width) + 4 * self.channels * rows * columns

    def forward(self, x: Tensor) -> Tensor:
        check_map(x, type(self).__name__)
        size = self.output_size(*x.shape[-2:])
        rows, columns = (
            _window(length, kept, wide(x)) for length, kept in zip(x.shape[-2:], size, strict=True)
        )
        return keep_centre(x, size, (rows, columns))


def _window(length: int, kept: int, like: Tensor) -> Tensor:
    """sqrt(w) at the frequencies 0, 1, ..., -2, -1 kept of an axis, (kept,)."""
    frequency = torch.fft.fftfreq(kept, d=length / kept, dtype=like.dtype, device=like.device)
    return (0.54 + 0.46 * (2 * math.pi * frequency).cos()).sqrt()
