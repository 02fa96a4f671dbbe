"""FrequencyLowCut pooling: the central quarter of the spectrum, transformed back."""

import math

import torch
from torch import Tensor

from cnnpool.pool.base import CellPool2d
from cnnpool.pool.fourier import crop, full_precision, like, resample, resample_flops
from cnnpool.pool.internals import holds, modulo
from cnnpool.pool.window import wide


class FlcPool2d(CellPool2d):
    """Keep the central quarter of the Fourier transform (Grabinski 2022, FrequencyLowCut pooling).

    Along an axis of M outputs the frequencies -floor(M/2) ... ceil(M/2) - 1 are kept. For even M the lowest
    has no partner, so that the inverse transform is complex; as in the authors' code its real part is the
    output (``spectral`` differs in the one frequency that is unpaired along both axes). The gradient is the
    adjoint, dense.

    Edges: the map counts as periodic, so opposite edges meet. H' = ceil(H/s). Departs from the authors' code
    where H is even and H/2 odd, or H = 4n + 1: the former is cut beside the centre, so that a constant map
    becomes a cosine, and H/2 is rounded down in the latter. Departs from the paper by any stride but 2.

    Args:
        stride: pixels per output pixel, >= 1, or (vertical, horizontal).
    """

    formula = "Re inverse Fourier transform of X(f) at -1/(2s) <= f < 1/(2s)"
    paper = "Grabinski 2022, arXiv:2204.00491"
    shift = "commutes with shifts by multiples of the stride; aliases at the new Nyquist frequency alone"
    gradient = "dense"

    def flops(self, height: int, width: int) -> int:
        rows, columns = self.output_size(height, width)
        corner = 2 * height * (width + 1) + 2 * rows * columns
        return resample_flops(self.channels, height, width, rows, columns) + self.channels * corner

    def gain_of(self, frequency: Tensor) -> Tensor:
        """The gain of ``frequency``, in periods per pixel."""
        return torch.ones_like(frequency)

    def forward(self, x: Tensor) -> Tensor:
        size = self.check_batch(x)
        gains = [
            self.gain_of(torch.arange(kept // 2 + 1, dtype=wide(x).dtype, device=x.device) / length)
            for length, kept in zip(x.shape[-2:], size, strict=True)
        ]
        with full_precision(x):
            return _centre(x, size, gains)


def _centre(x: Tensor, size: tuple[int, int], gains: list[Tensor]) -> Tensor:
    """Real part of the inverse transform of the ``size`` frequencies around 0, times ``gains``."""
    lengths = x.shape[-2:]
    rows, columns = (crop(n, kept, gain) for n, kept, gain in zip(lengths, size, gains, strict=True))
    y = resample(x, rows, columns)
    if any(holds(kept % 2 == 1) or holds(kept == n) for n, kept in zip(lengths, size, strict=True)):
        return y
    # The two unpaired frequencies make both matrices complex; the product of the imaginary parts is real.
    (down, up), (right, left) = (
        _unpaired(n, kept, gain) for n, kept, gain in zip(lengths, size, gains, strict=True)
    )
    amplitude = (wide(x) @ left) @ up
    return like(y - amplitude[..., None, None] * torch.outer(down, right), x)


def _unpaired(length: int, kept: int, gain: Tensor) -> tuple[Tensor, Tensor]:
    """Imaginary part of the frequency -kept/2, an outer product of outputs (kept,) and inputs (length,)."""
    places = torch.arange(length, device=gain.device)
    turns = modulo(places * (kept // 2), length).to(gain.dtype)
    # Zero for an odd number, which a graph for maps of any size may meet.
    alternating = (1 - 2 * (places[:kept] % 2)) * (1 - kept % 2)
    return alternating.to(gain.dtype), gain[-1] * (turns * (2 * math.pi / length)).sin() / length
