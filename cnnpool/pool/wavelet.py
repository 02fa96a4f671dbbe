"""Bands of an orthonormal wavelet transform, by Daubechies' filters; a learnt wavelet by lifting."""

import math
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Literal, Unpack

import torch
import torch.nn.functional as F
from annotated_types import Ge, Le
from torch import Tensor, nn

from cnnpool.pool.avg import avg_pool2d
from cnnpool.pool.base import CellPool2d, OddTap, Place, check_choice, placed
from cnnpool.pool.edges import EdgeConv2d, PaddingMode
from cnnpool.pool.fourier import like
from cnnpool.pool.internals import modulo
from cnnpool.pool.leaves import one_node
from cnnpool.pool.window import ceil_div, check_batch, check_floating

HIGHEST_ORDER = 10
ROWS, COLUMNS = -2, -1
Edges = Literal["circular", "symmetric"]


def wavelet_bank(order: int) -> Tensor:
    """The four 2-D filters of Daubechies' wavelet: low-low, high-low, low-high, high-high (rows first).

    (4, 1, 2 order, 2 order), float64, in the order in which correlation takes them, for an ``order`` of 1 to
    10.

    Example:
        >>> wavelet_bank(1)[0]  # Haar's low-pass filter
        tensor([[[0.5000, 0.5000],
                 [0.5000, 0.5000]]], dtype=torch.float64)
    """
    if isinstance(order, bool) or not isinstance(order, int) or not 1 <= order <= HIGHEST_ORDER:
        raise ValueError(f"order must be a whole number from 1 to {HIGHEST_ORDER}, got {order!r}")
    low = torch.tensor(daubechies(order), dtype=torch.float64)
    # The quadrature mirror: reversed, every second sign turned.
    sign = 1 - 2 * (torch.arange(2 * order) % 2).double()
    high = low.flip(0) * sign
    pairs = [(low, low), (high, low), (low, high), (high, high)]
    return torch.stack([torch.outer(rows, columns) for rows, columns in pairs]).unsqueeze(1)


@cache
def daubechies(order: int) -> tuple[float, ...]:
    """The extremal-phase low-pass filter with ``order`` vanishing moments, 2 ``order`` taps: Daubechies 1988.

    |H|^2 = 2 cos^2N(w/2) P(sin^2(w/2)) fixes the filter up to phase, P(y) = sum_k C(N-1+k, k) y^k; the factor
    with its zeros inside the unit circle is taken.
    """
    polynomial = [float(math.comb(order - 1 + k, k)) for k in range(order)]
    taps = [complex(1)]
    for root in [complex(-1)] * order + [_inside(y) for y in _roots(polynomial)]:
        taps = [a - root * b for a, b in zip([*taps, 0], [0, *taps], strict=True)]
    scale = math.sqrt(2) / sum(taps).real
    return tuple(scale * tap.real for tap in taps)


def _inside(y: complex) -> complex:
    """The z inside the unit circle with y = (2 - z - 1/z)/4."""
    half = 1 - 2 * y
    z = half + (half * half - 1) ** 0.5
    return z if abs(z) < 1 else 1 / z


def _roots(coefficients: list[float]) -> list[complex]:
    """All roots of sum_k c_k y^k, by Durand and Kerner's iteration."""
    monic = [c / coefficients[-1] for c in coefficients]
    roots = [complex(0.4, 0.9) ** k for k in range(len(monic) - 1)]
    for _ in range(200):
        for i, y in enumerate(roots):
            others = math.prod(y - other for j, other in enumerate(roots) if j != i)
            roots[i] = y - sum(c * y**k for k, c in enumerate(monic)) / others
    return roots


@one_node
def wavelet_bands2d(x: Tensor, bank: Tensor, *, edges: Edges = "circular") -> Tensor:
    """Wavelet transform of one level: each channel gives one band per filter of ``bank`` (Mallat 1989).

    With all four filters, ``circular`` edges and even H and W the transform is orthonormal: the bands hold
    the energy of the map, and the adjoint restores the map.

    Args:
        x: (N, C, H, W), any floating dtype.
        bank: filters of ``wavelet_bank``, (B, 1, L, L).
        edges: circular (opposite edges meet; an odd size first repeats its last pixel) or symmetric (the map
            is mirrored, its last pixel repeated).

    Example:
        >>> wavelet_bands2d(torch.rand(1, 3, 8, 8), wavelet_bank(2)).shape  # four bands side by side
        torch.Size([1, 12, 4, 4])
    """
    check_batch(x, "wavelet_bands2d")
    check_choice("edges", edges, Edges)
    bank = bank.to(x.dtype)
    for axis in (-2, -1):
        x = x.index_select(axis, _places(x.shape[axis], bank.shape[-1], edges, x.device))
    channels = x.shape[1]
    return F.conv2d(x, bank.repeat(channels, 1, 1, 1), stride=2, groups=channels)


def _places(length: int, taps: int, edges: Edges, device: torch.device) -> Tensor:
    """The pixel at each place of the axis, extended as far as the windows reach past its edges."""
    even = length + length % 2
    place = torch.arange(even + taps - 2, device=device) - (taps // 2 - 1)
    if edges == "circular":
        return modulo(place, even).clamp(max=length - 1)
    place = modulo(place, 2 * length)
    return torch.minimum(place, 2 * length - 1 - place)


class WaveletPool2d(CellPool2d):
    """Keep the low-pass band of Daubechies' wavelet, or mix all four (Li 2020, WaveCNet).

    The filter has 2 ``order`` taps per axis; the bands that are dropped vanish on polynomials below that
    order. ``order=1`` is Haar's. It is orthonormal, so that a constant map doubles. ``bands=all`` keeps the
    three high-pass bands too, loses nothing, and maps the 4 C channels back to C by a learnt 1x1
    convolution; the gain is then learnt. The gradient is the transposed filter, dense.

    Edges: H' = ceil(H/2), by ``wavelet_bands2d``: opposite edges meet, or the map is mirrored. The authors'
    code pads zeros and takes floor(H/2): a constant 1 is 2 inside, but for order 2 1.32 at the first edge and
    2.18 at the last.

    Args:
        stride: 2, that of the transform.
        order: vanishing moments, 1 to 10.
        bands: ll (the low-pass band) or all.
        edges: circular or symmetric.
    """

    formula = "sum_ij h_i h_j x_ij, h Daubechies' low-pass filter"
    paper = "Li 2020, arXiv:2005.03337"
    shift = "equivariant to shifts by multiples of the stride; aliases the less, the higher the order"
    gradient = "dense"
    gain: float | None = 2.0

    bank: Tensor

    def __init__(
        self,
        channels: int,
        *,
        stride: Literal[2] = 2,
        order: Annotated[int, Ge(1), Le(HIGHEST_ORDER)] = 2,
        bands: Literal["ll", "all"] = "ll",
        edges: Edges = "circular",
        **place: Unpack[Place],
    ):
        super().__init__(channels, stride=stride, **place)
        self.order, self.bands, self.edges = order, bands, edges
        bank = wavelet_bank(order)[: None if bands == "all" else 1]
        self.register_buffer("bank", placed(bank, **place), persistent=False)
        self.mix = nn.Conv2d(4 * channels, channels, 1, **place) if bands == "all" else nn.Identity()
        if bands == "all":
            self.gain = None

    def flops(self, height: int, width: int) -> int:
        per_pixel = 2 * self.bank.numel() + (8 * self.channels if self.bands == "all" else 0)
        return self.count_outputs(height, width) * per_pixel

    def forward(self, x: Tensor) -> Tensor:
        return like(self.mix(wavelet_bands2d(x, self.bank, edges=self.edges)), x)


class HaarPool2d(CellPool2d):
    """Keep the low-pass band of the Haar transform, (a + b + c + d)/2 (Li 2020, WaveCNet).

    Twice the 2 x 2 average: the transform is orthonormal, so that the band keeps its share of the energy and
    a constant map doubles. Without ``orthonormal`` it is the average itself. The gradient is 1/2 (1/4) for
    every input. All four bands, and longer filters: ``wavelet``.

    Edges: an odd size repeats its last row or column, H' = ceil(H/2).

    Args:
        stride: 2, that of the transform.
        orthonormal: scale by 2.
    """

    formula = "(x_1 + x_2 + x_3 + x_4)/2"
    paper = "Li 2020, arXiv:2005.03337"
    shift = "equivariant to shifts by multiples of the stride; aliases as the 2 x 2 average"
    gradient = "dense"
    gain = 2.0

    def __init__(
        self, channels: int, *, stride: Literal[2] = 2, orthonormal: bool = True, **place: Unpack[Place]
    ):
        super().__init__(channels, stride=stride, **place)
        self.orthonormal = orthonormal
        if not orthonormal:
            self.gain = 1.0

    def flops(self, height: int, width: int) -> int:
        return 4 * self.count_outputs(height, width)

    def forward(self, x: Tensor) -> Tensor:
        check_floating(x)
        # The mean of the existing pixels equals the mean with the last ones repeated.
        mean = avg_pool2d(x, 2, ceil_mode=True)
        return 2 * mean if self.orthonormal else mean


class Lifting(nn.Module):
    """One step of lifting along an axis: (samples) -> (approximation, detail), and back (Sweldens 1998).

    d = x_odd - P(x_even); s = x_even + U(d). The inverse undoes both in turn, whatever P and U are:
    x_even = s - U(d); x_odd = d + P(x_even).
    """

    def __init__(self, predict: nn.Module, update: nn.Module, axis: int):
        super().__init__()
        self.predict, self.update, self.axis = predict, update, axis

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        length = x.shape[self.axis]
        pairs = ceil_div(length, 2)
        # An odd length repeats its last sample.
        places = torch.arange(2 * pairs, device=x.device).clamp(max=length - 1)
        whole = x.index_select(self.axis, places).unflatten(self.axis, (pairs, 2))
        even, odd = (like(part, x) for part in whole.unbind(self.axis))
        detail = odd - self.predict(even)
        return even + self.update(detail), detail

    def inverse(self, approximation: Tensor, detail: Tensor) -> Tensor:
        """The samples of an approximation and a detail, of even length."""
        even = approximation - self.update(detail)
        odd = detail + self.predict(even)
        return like(torch.stack([even, odd], self.axis).flatten(self.axis - 1, self.axis), approximation)


class Half(nn.Module):
    """Haar's update, U(d) = d/2."""

    def forward(self, x: Tensor) -> Tensor:
        return x / 2


class LiftPool2d(CellPool2d):
    """Split, predict, update along both axes, then the sum of the four bands (Zhao 2021, LiftDownPool).

    Along an axis the odd samples are predicted from the even ones, d = x_odd - P(x_even), and the even ones
    updated by the residual, s = x_even + U(d), with P and U learnt: tanh(conv1(relu(conv_k))) of the
    channel's own samples. Columns, then rows, give the bands LL, LH, HL and HH; the output is their sum, as
    in the paper, or LL alone. Nothing is lost before the sum: ``inverse`` of ``bands`` restores the map up to
    rounding (LiftUpPool). The gradient reaches every input.

    ``lifting=haar`` fixes P(x) = x and U(d) = d/2: LL is then the average of 2 x 2 pixels. Departs from the
    paper: its loss has two more terms, which keep the bands near the samples; a training loop can add them
    with ``bands``. P and U are shared by the bands of an axis.

    Edges: H' = ceil(H/2), an odd size repeats its last row or column; the convolutions of P and U see the
    samples padded by ``padding_mode``. Circular makes the operator commute exactly with circular shifts by 2.

    Args:
        kernel_size: taps of P and U, odd, along the axis.
        stride: 2, that of the transform.
        lifting: learnt or haar.
        bands: sum or ll.

    Example:
        >>> pool, x = LiftPool2d(3), torch.rand(1, 3, 8, 8)
        >>> torch.allclose(pool.inverse(pool.bands(x)), x, atol=1e-6)
        True
    """

    formula = "s_s + d_s + s_d + d_d, where d = x_odd - P(x_even), s = x_even + U(d) along each axis"
    paper = "Zhao 2021, arXiv:2104.00996"
    shift = "equivariant to shifts by multiples of the stride; odd and even pixels are treated differently"
    gradient = "dense"
    gain: float | None = None

    def __init__(
        self,
        channels: int,
        *,
        kernel_size: OddTap = 3,
        stride: Literal[2] = 2,
        lifting: Literal["learnt", "haar"] = "learnt",
        bands: Literal["sum", "ll"] = "sum",
        padding_mode: PaddingMode = "reflect",
        **place: Unpack[Place],
    ):
        super().__init__(channels, stride=stride, **place)
        self.lifting, self.taken = lifting, bands
        self.taps = kernel_size
        self.fixed_channels = lifting == "learnt"
        if lifting == "haar":
            # The details of a constant are zero, and its approximation is the constant.
            self.gain = 1.0
            self.columns = Lifting(nn.Identity(), Half(), COLUMNS)
            self.rows = Lifting(nn.Identity(), Half(), ROWS)
        else:
            self.columns = _learnt(channels, (1, kernel_size), COLUMNS, padding_mode, place)
            self.rows = _learnt(channels, (kernel_size, 1), ROWS, padding_mode, place)

    def flops(self, height: int, width: int) -> int:
        rows, columns = self.output_size(height, width)
        # P and U: k multiplications and additions, bias, ReLU, one more of each, tanh; Haar's: one half each.
        net = 1 if self.lifting == "haar" else 2 * (2 * self.taps + 4)
        lifted = height * columns * (net + 2) + 2 * rows * columns * (net + 2)
        return self.channels * (lifted + (3 * rows * columns if self.taken == "sum" else 0))

    def bands(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """LL, LH, HL and HH of ``x``, each (N, C, ceil(H/2), ceil(W/2)); the first letter is the columns'."""
        self.check_batch(x)
        low, high = self.columns(x)
        return (*self.rows(low), *self.rows(high))

    def inverse(self, bands: Sequence[Tensor]) -> Tensor:
        """The map (N, C, 2 H', 2 W') of four bands of one shape, in the order of ``bands`` (LiftUpPool)."""
        if len(bands) != 4 or len({band.shape for band in bands}) != 1:
            raise ValueError(
                f"bands must be four maps of one shape, got {[tuple(band.shape) for band in bands]}"
            )
        low = self.rows.inverse(bands[0], bands[1])
        high = self.rows.inverse(bands[2], bands[3])
        return self.columns.inverse(low, high)

    def forward(self, x: Tensor) -> Tensor:
        self.check_batch(x)
        if self.taken == "ll":
            low = self.columns(x)[0]
            y: Tensor = self.rows(low)[0]
            return like(y, x)
        first, *others = self.bands(x)
        return like(sum(others, first), x)


def _learnt(channels: int, kernel: tuple[int, int], axis: int, mode: PaddingMode, place: Place) -> Lifting:
    predict, update = (
        nn.Sequential(
            EdgeConv2d(channels, channels, kernel, mode=mode, groups=channels, **place),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 1, groups=channels, **place),
            nn.Tanh(),
        )
        for _ in range(2)
    )
    return Lifting(predict, update, axis)
