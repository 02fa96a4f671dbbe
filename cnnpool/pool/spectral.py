"""Downsampling by cutting the spectrum down."""

from typing import Literal, Unpack

import torch
from torch import Tensor

from cnnpool.pool.base import Place, RationalPool2d, Stride, check_choice, checked
from cnnpool.pool.fourier import crop, full_precision, resample, resample_flops
from cnnpool.pool.window import IntPair, check_batch, pair, wide

Nyquist = Literal["mean", "sum", "zero"]
NYQUIST_GAIN = {"mean": 1.0, "sum": 2.0, "zero": 0.0}


def spectral_pool2d(x: Tensor, size: IntPair, *, nyquist: Nyquist = "mean") -> Tensor:
    """Keep the H' x W' lowest frequencies of the map's Fourier transform (Rippel 2015, arXiv:1506.03767).

    Scaled so that the mean is kept. An even H' has one frequency at H'/2 in place of the input's pair +H'/2
    and -H'/2. A real output needs it real: ``mean`` takes their mean, which is the real part of a plain crop
    (the paper's treatment); ``sum`` takes both, as if the spectrum had been folded (what
    ``scipy.signal.resample`` does); ``zero`` takes neither (an ideal low-pass filter).

    Args:
        x: (N, C, H, W), any floating dtype; half precision is resampled in float32.
        size: H' and W', or one number for both; from 1 to H and W.
        nyquist: mean, sum or zero.

    Example:
        >>> spectral_pool2d(torch.ones(1, 1, 8, 8), (5, 3)).shape
        torch.Size([1, 1, 5, 3])
    """
    check_batch(x, "spectral_pool2d")
    size = pair(size, "size", least=1)
    check_choice("nyquist", nyquist, Nyquist)
    if size[0] > x.shape[-2] or size[1] > x.shape[-1]:
        raise ValueError(f"size must be at most that of the map, {tuple(x.shape[-2:])}, got {size}")
    return _resampled(x, size, nyquist)


def _resampled(x: Tensor, size: tuple[int, int], nyquist: Nyquist) -> Tensor:
    with full_precision(x):
        rows, columns = (
            _matrix(length, kept, nyquist, wide(x)) for length, kept in zip(x.shape[-2:], size, strict=True)
        )
        return resample(x, rows, columns)


def _matrix(length: int, kept: int, nyquist: Nyquist, like: Tensor) -> Tensor:
    gain = like.new_ones(kept // 2 + 1)
    if nyquist != "mean":
        # Compared in the graph, for maps of any size: ``kept`` is twice the unpaired frequency.
        twice = 2 * torch.arange(kept // 2 + 1, device=like.device)
        gain = torch.where((twice == kept) & (twice < length), NYQUIST_GAIN[nyquist], gain)
    return crop(length, kept, gain)


@checked
class SpectralPool2d(RationalPool2d):
    """Keep the lowest frequencies of the map's Fourier transform (Rippel 2015), by ``spectral_pool2d``.

    The gradient is the adjoint: the upstream spectrum, padded with zeros; dense. Departs from the paper,
    which draws the bandwidth at random in training; here it is fixed.

    Edges: the map counts as periodic, so opposite edges meet. H' = ceil(H/s): at stride 1.5 a map of 32
    becomes 22.

    Args:
        stride: H is divided by it, >= 1, not necessarily whole, or (vertical, horizontal).
        nyquist: the highest frequency of an even output size: mean (the paper's), sum or zero.
    """

    formula = "inverse Fourier transform of the H/s x W/s lowest frequencies X(f)"
    paper = "Rippel 2015, arXiv:1506.03767"
    shift = "commutes with shifts by multiples of the stride; aliases at the new Nyquist frequency alone"
    gradient = "dense"

    def __init__(
        self,
        channels: int,
        *,
        stride: Stride = 2.0,
        nyquist: Nyquist = "mean",
        **place: Unpack[Place],
    ):
        super().__init__(channels, stride, **place)
        self.nyquist = nyquist

    def flops(self, height: int, width: int) -> int:
        return resample_flops(self.channels, height, width, *self.output_size(height, width))

    def forward(self, x: Tensor) -> Tensor:
        return _resampled(x, self.check_batch(x), self.nyquist)
