"""Daubechies' orthonormal wavelet filters, computed from their definition."""

import math
from functools import cache

import torch
from torch import Tensor

HIGHEST_ORDER = 10


def wavelet_bank(order: int) -> Tensor:
    """The four 2-D filters of Daubechies' wavelet: low-low, high-low, low-high, high-high (rows first).

    Returns:
        (4, 1, 2 order, 2 order), float64, in the order in which correlation takes them.

    Raises:
        ValueError: if ``order`` is not 1 to 10.

    Example:
        >>> from cnnpool.pool import wavelet_bank
        >>> wavelet_bank(1)[0]  # Haar's low-pass filter
        tensor([[[0.5000, 0.5000],
                 [0.5000, 0.5000]]], dtype=torch.float64)
        >>> wavelet_bank(2).shape
        torch.Size([4, 1, 4, 4])
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
