"""Downsampling in the frequency domain with a learnt bandwidth."""

import math
from typing import Annotated, Unpack

import torch
from annotated_types import Gt, Lt
from torch import Tensor, nn

from cnnpool.bounds import AboveZero
from cnnpool.pool.base import Place, RationalPool2d, Stride, checked
from cnnpool.pool.fourier import crop, full_precision, resample, resample_flops
from cnnpool.pool.window import wide


@checked
class DiffStride2d(RationalPool2d):
    """Cut the spectrum down and shape it with a mask of learnt strides (Riad 2022, DiffStride).

    Each frequency k of an axis (in whole periods per map) is multiplied by the paper's mask, clip((R + H/(2S)
    - |k|)/R, 0, 1): 1 up to the band of a stride S, then a ramp of R frequencies down to 0. S is learnt for
    each axis: its gradient comes from the frequencies on the ramp; that of the input is the adjoint, dense.

    Departs from the paper, where the output keeps every frequency that the mask leaves, about H/S + 2R, so
    that it is larger than H/S and changes size while S is learnt. Here the size is fixed at H/s by the
    constructor's ``stride`` and S = s/b, with 0 < b < 1 the share of the output's band that passes untouched:
    no step of the optimiser can change a shape. b is learnt as its logit ``band``, one number per axis
    (vertical, horizontal) for all channels. Where no kept frequency lies on the ramp (small odd H', or b near
    1 with H' odd) S gets no gradient.

    Edges: the map counts as periodic, so opposite edges meet. H' = ceil(H/s). The frequency H'/2 of an even
    H' is the mean of the input's pair +H'/2 and -H'/2, times the mask.

    Args:
        stride: s, H is divided by it, >= 1, not necessarily whole, or (vertical, horizontal).
        bandwidth: b at the start, 0 < b < 1: S starts at s/b, 1.25 s by default.
        smoothness: R, width of the ramp in frequencies, > 0.
    """

    formula = "inverse Fourier transform of X(k) clip((R + H/(2S) - |k|)/R, 0, 1), S learnt"
    paper = "Riad 2022, arXiv:2202.01653"
    shift = "commutes with shifts by multiples of the stride; aliases at the new Nyquist frequency alone"
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

    def flops(self, height: int, width: int) -> int:
        return resample_flops(self.channels, height, width, *self.output_size(height, width))

    def forward(self, x: Tensor) -> Tensor:
        axes = zip(x.shape[-2:], self.check_batch(x), self.mask(*x.shape[-2:]), strict=True)
        with full_precision(x):
            rows, columns = (crop(length, kept, mask.to(wide(x).dtype)) for length, kept, mask in axes)
            return resample(x, rows, columns)
