"""Feature maps resampled in the frequency domain, as one real matrix product per axis.

At feature map sizes this is several times faster than a fast Fourier transform and its inverse, and it
needs no complex numbers.
"""

import math
from contextlib import AbstractContextManager, nullcontext
from typing import Annotated, Literal, Unpack

import torch
import torch.nn.functional as F
from annotated_types import Gt, Lt
from torch import Tensor, nn

from cnnpool.bounds import AboveZero
from cnnpool.pool.base import CellPool2d, Place, Pool2d, RationalPool2d, Stride, check_choice
from cnnpool.pool.internals import holds, modulo
from cnnpool.pool.leaves import one_node
from cnnpool.pool.window import IntPair, ceil_div, check_batch, is_channels_last, laid_out, pair, wide


def full_precision(x: Tensor) -> AbstractContextManager[object]:
    """Keep autocast from rounding products to half precision, which would lose the gain of 1."""
    kind = x.device.type
    return torch.autocast(kind, enabled=False) if torch.amp.is_autocast_available(kind) else nullcontext()


def low_pass(length: int, gain: Tensor, places: Tensor, period: int) -> Tensor:
    """Matrix (M, length) that multiplies the frequencies 0, 1, ... of a periodic signal by ``gain``, (K,),
    removes higher ones, and samples it at the whole numbers ``places``, (M,), ``period`` to its length.
    """
    # The frequency period/2 counts once, with its real part, in place of a pair of opposite ones.
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
    return laid_out(y, is_channels_last(x)).to(x.dtype)


class Resampling(Pool2d):
    """An operator by ``resample``."""

    def flops(self, height: int, width: int) -> int:
        # Multiplications and additions of ``resample``; the matrices are made once for all channels.
        rows, columns = self.output_size(height, width)
        return 2 * self.channels * height * columns * (width + rows)


@one_node
def ideal_lowpass_pool2d(x: Tensor, stride: IntPair = 2) -> Tensor:
    """Remove every frequency that subsampling would alias, then subsample (Michaeli 2023, arXiv:2303.08085).

    The map (N, C, H, W), floating, counts as periodic. Frequencies |f| >= 1/(2s) cycles per pixel are set to
    zero along each axis, the new Nyquist frequency 1/(2s) included: its phase would be lost. The rest is
    sampled at every s-th pixel. Half precision is filtered in float32.

    Example:
        >>> x = torch.tensor([1.0, -1.0]).repeat(4).expand(1, 1, 8, 8)
        >>> ideal_lowpass_pool2d(x).abs().max() < 1e-6  # the highest frequency is removed
        tensor(True)
    """
    check_batch(x, "ideal_lowpass_pool2d")
    steps = pair(stride, "stride", least=1)
    with full_precision(x):
        rows, columns = (
            low_pass(n, wide(x).new_ones(ceil_div(n, 2 * s)), torch.arange(0, n, s, device=x.device), n)
            for n, s in zip(x.shape[-2:], steps, strict=True)
        )
        return resample(x, rows, columns)


class IdealLowpassPool2d(Resampling, CellPool2d):
    """Remove every frequency that subsampling would alias, then subsample (Michaeli 2023).

    By ``ideal_lowpass_pool2d``: exact for shifts by any fraction of a pixel, as long as nothing non-linear
    follows. The gradient is the adjoint: upsampled with zeros, then low-passed; dense. Stride 1 still removes
    the Nyquist frequency of an even size.

    Edges: the map counts as periodic, so opposite edges meet. H' = ceil(H/s); where s does not divide H the
    last step across the edge is shorter than the others, and shifts by s no longer commute there.
    """

    formula = "inverse Fourier transform of X(f) [|f| < 1/(2s)], at every s-th pixel"
    paper = "Michaeli 2023, arXiv:2303.08085"
    shift = "equivariant to shifts by multiples of the stride, and to any shift in between: nothing aliases"
    gradient = "dense"

    def forward(self, x: Tensor) -> Tensor:
        return ideal_lowpass_pool2d(x, self.stride)


Nyquist = Literal["mean", "sum", "zero"]
NYQUIST_GAIN = {"mean": 1.0, "sum": 2.0, "zero": 0.0}


@one_node
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


class SpectralPool2d(Resampling, RationalPool2d):
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
    shift = "equivariant to shifts by multiples of the stride; aliases at the new Nyquist frequency alone"
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

    def forward(self, x: Tensor) -> Tensor:
        return _resampled(x, self.check_batch(x), self.nyquist)


class DiffStride2d(Resampling, RationalPool2d):
    """Cut the spectrum down and shape it with a mask of learnt strides (Riad 2022, DiffStride).

    Each frequency k of an axis (in whole periods per map) is multiplied by the paper's mask, clip((R + H/(2S)
    - |k|)/R, 0, 1): 1 up to the band of a stride S, then a ramp of R frequencies down to 0. S is learnt for
    each axis: its gradient comes from the frequencies on the ramp; that of the input is the adjoint, dense.

    Departs from the paper, where the output keeps every frequency that the mask leaves, about H/S + 2R, so
    that it is larger than H/S and changes size while S is learnt. Here the size is fixed at H/s by the
    constructor's ``stride`` and S = s/b, with 0 < b < 1 the share of the output's band that passes untouched:
    no step of the optimiser can change a shape. b is learnt as its logit ``band``, one number per axis
    (vertical, horizontal) for all channels. Where no kept frequency lies on the ramp (small odd H', or b near
    1 with H' odd) S gets no gradient. The authors' code lets one more frequency pass horizontally, W/(2S) +
    1, which on noise of 32 pixels changes the output by 7 %; here both axes are the paper's.

    Edges: the map counts as periodic, so opposite edges meet. H' = ceil(H/s). The frequency H'/2 of an even
    H' is the mean of the input's pair +H'/2 and -H'/2, times the mask.

    Args:
        stride: s, H is divided by it, >= 1, not necessarily whole, or (vertical, horizontal).
        bandwidth: b at the start, 0 < b < 1: S starts at s/b, 1.25 s by default.
        smoothness: R, width of the ramp in frequencies, > 0.
    """

    formula = "inverse Fourier transform of X(k) clip((R + H/(2S) - |k|)/R, 0, 1), S = s/sigmoid(band)"
    paper = "Riad 2022, arXiv:2202.01653"
    shift = "equivariant to shifts by multiples of the stride; aliases at the new Nyquist frequency alone"
    gradient = "dense"

    def __init__(
        self,
        channels: int,
        *,
        stride: Stride = 2.0,
        bandwidth: Annotated[float, Gt(0), Lt(1)] = 0.8,
        smoothness: AboveZero = 4.0,
        **place: Unpack[Place],
    ):
        super().__init__(channels, stride, **place)
        self.smoothness = smoothness
        self.band = nn.Parameter(torch.full((2,), math.log(bandwidth / (1 - bandwidth)), **place))

    def mask(self, height: int, width: int) -> tuple[Tensor, Tensor]:
        """The gains of the frequencies 0, 1, ... of each axis, (H'//2 + 1,) and (W'//2 + 1,)."""
        size, bands, masks = self.output_size(height, width), wide(self.band).sigmoid().unbind(), []
        for length, kept, (p, q), band in zip((height, width), size, self.ratio, bands, strict=True):
            frequency = torch.arange(kept // 2 + 1, dtype=band.dtype, device=band.device)
            edge = band * (length * q / (2 * p))
            masks.append(((self.smoothness + edge - frequency) / self.smoothness).clamp(0, 1))
        return masks[0], masks[1]

    def forward(self, x: Tensor) -> Tensor:
        axes = zip(x.shape[-2:], self.check_batch(x), self.mask(*x.shape[-2:]), strict=True)
        with full_precision(x):
            rows, columns = (crop(length, kept, mask.to(wide(x).dtype)) for length, kept, mask in axes)
            return resample(x, rows, columns)


class FlcPool2d(Resampling, CellPool2d):
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
    shift = "equivariant to shifts by multiples of the stride; aliases at the new Nyquist frequency alone"
    gradient = "dense"

    def flops(self, height: int, width: int) -> int:
        corner = 2 * self.channels * height * (width + 1) + 2 * self.count_outputs(height, width)
        return super().flops(height, width) + corner

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


class AsapPool2d(FlcPool2d):
    """Keep the central quarter of the Fourier transform under a Hamming window (Grabinski 2023, ASAP).

    The cut of ``flc`` rings; so the frequency (k, l) of a map of (H, W) is first multiplied by sqrt(w(k/H)
    w(l/W)), w(f) = 0.54 + 0.46 cos(2 pi f): 1 at the mean, sqrt(0.54) at the stride 2 cut. The gradient is
    the adjoint, dense.

    Edges: as ``flc``. Departs from the authors' code, which centres the window on the mean for odd H only
    (for even H it peaks half a frequency beside it), gives it H - 1 frequencies for a period in place of H
    (which changes the spectrum of 31 pixels by 1.6 %), keeps the window of the first map's size, and swaps
    rows and columns: here the window is centred and computed for every size, and nothing is swapped.
    """

    formula = "Re inverse Fourier transform of X(f) sqrt(0.54 + 0.46 cos 2 pi f) at -1/(2s) <= f < 1/(2s)"
    paper = "Grabinski 2023, arXiv:2307.09804"

    def gain_of(self, frequency: Tensor) -> Tensor:
        return (0.54 + 0.46 * (2 * math.pi * frequency).cos()).sqrt()
