"""An ideal low-pass filter, then plain subsampling."""

import torch
from torch import Tensor

from cnnpool.pool.base import CellPool2d
from cnnpool.pool.fourier import full_precision, low_pass, resample, resample_flops
from cnnpool.pool.window import IntPair, ceil_div, check_batch, pair, wide


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
        rows, columns = (_matrix(length, s, wide(x)) for length, s in zip(x.shape[-2:], steps, strict=True))
        return resample(x, rows, columns)


def _matrix(length: int, stride: int, like: Tensor) -> Tensor:
    gain = like.new_ones(ceil_div(length, 2 * stride))
    return low_pass(length, gain, torch.arange(0, length, stride, device=like.device), length)


class IdealLowpassPool2d(CellPool2d):
    """Remove every frequency that subsampling would alias, then subsample (Michaeli 2023).

    By ``ideal_lowpass_pool2d``: exact for shifts by any fraction of a pixel, as long as nothing non-linear
    follows. The gradient is the adjoint: upsampled with zeros, then low-passed; dense. Stride 1 still removes
    the Nyquist frequency of an even size.

    Edges: the map counts as periodic, so opposite edges meet. H' = ceil(H/s); where s does not divide H the
    last step across the edge is shorter than the others, and shifts by s no longer commute there.
    """

    formula = "inverse Fourier transform of X(f) [|f| < 1/(2s)], at every s-th pixel"
    paper = "Michaeli 2023, arXiv:2303.08085"
    shift = "commutes with shifts by multiples of the stride, and with any shift in between: nothing aliases"
    gradient = "dense"

    def flops(self, height: int, width: int) -> int:
        return resample_flops(self.channels, height, width, *self.output_size(height, width))

    def forward(self, x: Tensor) -> Tensor:
        return ideal_lowpass_pool2d(x, self.stride)
