"""Bands of an orthonormal wavelet transform, by Daubechies' filters."""

import math
from functools import cache
from typing import Annotated, Literal, Unpack

import torch
import torch.nn.functional as F
from annotated_types import Ge, Le
from torch import Tensor, nn

from cnnpool.pool.avg import avg_pool2d
from cnnpool.pool.base import CellPool2d, Place, check_choice, placed
from cnnpool.pool.fourier import like
from cnnpool.pool.internals import modulo
from cnnpool.pool.leaves import one_node
from cnnpool.pool.window import check_batch, check_floating

HIGHEST_ORDER = 10
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
    shift = "commutes with shifts by multiples of the stride; aliases the less, the higher the order"
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
    shift = "commutes with shifts by multiples of the stride; aliases as the 2 x 2 average"
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
