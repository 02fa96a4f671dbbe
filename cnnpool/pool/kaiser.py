"""A windowed sinc filter, then subsampling: :func:`kaiser_pool2d`."""

import math
from typing import Annotated, Unpack

import torch.nn.functional as F
from annotated_types import Gt, Le
from torch import Tensor

from cnnpool.pool.base import CellPool2d, Place, Size, Taps, both, check_choice, checked
from cnnpool.pool.edges import PaddingMode, pad
from cnnpool.pool.fourier import full_precision, like
from cnnpool.pool.window import IntPair, check_batch, pair, wide

Share = Annotated[float, Gt(0), Le(1)]
Breadth = Annotated[float, Gt(0), Le(2)]
TRANSITION = 2 * (math.sqrt(2) - 1)
"""StyleGAN3's transition band at critical sampling, in units of the new Nyquist frequency."""


def kaiser_taps(filter_size: int, stride: int, cutoff: float, width: float) -> tuple[float, ...]:
    """The filter along one axis: a sinc under Kaiser's window (Kaiser 1974), scaled to the sum 1.

    With M taps and a transition band of B cycles per pixel the attenuation is A = 2.285 (M - 1) 2 pi B + 7.95
    dB, and Kaiser's formula gives the window's parameter beta from A.
    """
    nyquist = 1 / (2 * stride)
    beta = kaiser_beta(2.285 * (filter_size - 1) * 2 * math.pi * width * nyquist + 7.95)
    middle = (filter_size - 1) / 2
    taps = []
    for k in range(filter_size):
        t = k - middle
        turn = 2 * math.pi * cutoff * nyquist * t
        sinc = math.sin(turn) / turn if turn else 1.0
        edge = math.sqrt(max(0.0, 1 - (t / middle) ** 2)) if middle else 0.0
        taps.append(sinc * bessel(beta * edge))
    total = sum(taps)
    return tuple(tap / total for tap in taps)


def kaiser_beta(attenuation: float) -> float:
    """The parameter of Kaiser's window for ``attenuation`` dB in the stop band (Kaiser 1974)."""
    if attenuation > 50:
        return 0.1102 * (attenuation - 8.7)
    if attenuation > 21:
        return 0.5842 * math.pow(attenuation - 21, 0.4) + 0.07886 * (attenuation - 21)
    return 0.0


def bessel(x: float) -> float:
    """The modified Bessel function of the first kind and order 0, by its power series."""
    total, term, k = 1.0, 1.0, 1
    while term > 1e-17 * total:
        term *= (x / (2 * k)) ** 2
        total, k = total + term, k + 1
    return total


def kaiser_pool2d(
    x: Tensor,
    filter_size: IntPair = 11,
    stride: IntPair = 2,
    cutoff: float = 1.0,
    width: float = TRANSITION,
    padding_mode: PaddingMode = "reflect",
) -> Tensor:
    """Low-pass each channel with a windowed sinc filter, then keep every ``stride``-th pixel (Karras 2021).

    The separable filter of alias-free generators (StyleGAN3, arXiv:2106.12423, appendix C), used to
    downsample. An even filter reaches one pixel further to the right and to the bottom.

    Args:
        x: (N, C, H, W), any floating dtype; half precision is summed in float32.
        filter_size: taps, 1 to 255, or (vertical, horizontal).
        stride: s, >= 1, or (vertical, horizontal).
        cutoff: where the filter has fallen to about a half, in units of the new Nyquist frequency 1/(2s).
        width: width of the transition band, in the same units.
        padding_mode: values past the edges: reflect, replicate, circular or zeros; legal on any map.

    Returns:
        (N, C, ceil(H/s), ceil(W/s)), same dtype as ``x``.

    Raises:
        ValueError: if ``x`` is not a map, a number is out of range, or the padding mode is unknown.

    Example:
        >>> import torch
        >>> from cnnpool.pool import kaiser_pool2d
        >>> x = torch.tensor([1.0, -1.0]).repeat(16).expand(1, 1, 32, 32)
        >>> kaiser_pool2d(x).abs().max() < 0.02  # the highest frequency is removed
        tensor(True)
    """
    check_batch(x, "kaiser_pool2d")
    check_choice("padding_mode", padding_mode, PaddingMode)
    for name, share, most in (("cutoff", cutoff, 1), ("width", width, 2)):
        if not 0 < share <= most:
            raise ValueError(f"{name} must be above 0 and at most {most}, got {share!r}")
    sizes, steps = pair(filter_size, "filter_size", least=1), pair(stride, "stride", least=1)
    down, across = (kaiser_taps(m, s, cutoff, width) for m, s in zip(sizes, steps, strict=True))
    return filtered(x, down, across, steps, padding_mode)


def filtered(
    x: Tensor,
    down: tuple[float, ...],
    across: tuple[float, ...],
    stride: tuple[int, int],
    padding_mode: PaddingMode,
) -> Tensor:
    """``x`` padded, filtered by the taps of each axis, and subsampled."""
    (top, bottom), (left, right) = (((len(taps) - 1) // 2, len(taps) // 2) for taps in (down, across))
    channels = x.shape[1]
    with full_precision(x):
        y = pad(wide(x), (left, right, top, bottom), padding_mode)
        rows = y.new_tensor(down).view(-1, 1).expand(channels, 1, -1, 1)
        columns = y.new_tensor(across).expand(channels, 1, 1, -1)
        y = F.conv2d(y, rows, stride=(stride[0], 1), groups=channels)
        return like(F.conv2d(y, columns, stride=(1, stride[1]), groups=channels), x)


@checked
class KaiserPool2d(CellPool2d):
    """Windowed sinc filter, then subsampling (Karras 2021, StyleGAN3's filter), by ``kaiser_pool2d``.

    Between ``blur``, whose binomial filter also attenuates the pass band, and ``ideal_lowpass``, whose filter
    is as wide as the map: Kaiser's window trades the width of the transition band against ripple, by
    beta = f(A), A = 2.285 (m - 1) 2 pi B + 7.95 dB, B the transition band in cycles per pixel. Some taps are
    negative, so that the output of positive maps may be below zero. With the default ``cutoff=1`` the filter
    passes half at the new Nyquist frequency; lower ones alias less and attenuate more. The gradient is the
    transpose, dense and fixed.

    Edges: H' = ceil(H/s); the map is mirrored past the edge, or padded by another ``padding_mode``. With
    zeros the borders fade.

    Args:
        channels: C of the input.
        filter_size: taps, 1 to 255, or (vertical, horizontal); 1 does not filter. StyleGAN3 takes 6 for each
            output pixel.
        stride: s, >= 1, or (vertical, horizontal).
        cutoff: in units of the new Nyquist frequency 1/(2s), above 0, at most 1.
        width: width of the transition band in the same units, above 0, at most 2; by default 2 sqrt 2 - 2,
            StyleGAN3's at critical sampling.
        padding_mode: reflect, replicate, circular or zeros.

    Raises:
        ValueError: if a number is out of range.

    Example:
        >>> import torch
        >>> from cnnpool.pool import KaiserPool2d
        >>> KaiserPool2d(3, filter_size=12, cutoff=0.8)(torch.rand(1, 3, 8, 8)).shape
        torch.Size([1, 3, 4, 4])
    """

    formula = "sum_i h_i x_i, h = sinc times Kaiser's window per axis, sum 1"
    paper = "Karras 2021, arXiv:2106.12423; window: Kaiser 1974"
    shift = "commutes with shifts by multiples of the stride; aliases less, the longer the filter"
    gradient = "dense"

    def __init__(
        self,
        channels: int,
        *,
        filter_size: Taps = 11,
        stride: Size = 2,
        cutoff: Share = 1.0,
        width: Breadth = TRANSITION,
        padding_mode: PaddingMode = "reflect",
        **place: Unpack[Place],
    ):
        super().__init__(channels, stride=stride, **place)
        self.filter_size = both(filter_size)
        self.cutoff, self.width, self.padding_mode = cutoff, width, padding_mode
        self.down, self.across = (
            kaiser_taps(m, s, cutoff, width) for m, s in zip(self.filter_size, self.stride, strict=True)
        )
        if padding_mode == "zeros" and self.filter_size != (1, 1):
            self.gain = None

    def flops(self, height: int, width: int) -> int:
        rows, columns = self.output_size(height, width)
        down, across = (2 * m for m in self.filter_size)
        return self.channels * rows * (width * down + columns * across)

    def forward(self, x: Tensor) -> Tensor:
        self.check_batch(x)
        return filtered(x, self.down, self.across, self.stride, self.padding_mode)
