"""An ideal low-pass filter, then plain subsampling."""

import torch
from torch import Tensor

from cnnpool.pool.base import CellPool2d
from cnnpool.pool.fourier import full_precision, low_pass, resample, resample_flops
from cnnpool.pool.window import IntPair, ceil_div, check_batch, pair, wide


def ideal_lowpass_pool2d(x: Tensor, stride: IntPair = 2) -> Tensor:
    """Remove every frequency that subsampling would alias, then subsample (Michaeli 2023, arXiv:2303.08085).

    The map counts as periodic. Frequencies |f| >= 1/(2s) cycles per pixel are set to zero along each axis,
    the new Nyquist frequency 1/(2s) included: its phase would be lost. The rest is sampled at every s-th
    pixel.

    Args:
        x: (N, C, H, W), any floating dtype; half precision is filtered in float32.
        stride: s, >= 1, or (vertical, horizontal).

    Returns:
        (N, C, ceil(H/s), ceil(W/s)), same dtype as ``x``.

    Raises:
        ValueError: if ``x`` is not a map, or stride is below 1.

    Example:
        >>> import torch
        >>> from cnnpool.pool import ideal_lowpass_pool2d
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

    The linear operator of ``ideal_lowpass_pool2d``: exact for shifts by any fraction of a pixel, as long as
    nothing non-linear follows. The gradient is the adjoint: upsampled with zeros, then low-passed; dense.

    Edges: the map counts as periodic, so opposite edges meet. H' = ceil(H/s); where s does not divide H the
    last step across the edge is shorter than the others, and shifts by s no longer commute there.

    Args:
        channels: C of the input.
        stride: pixels per output pixel, >= 1, or (vertical, horizontal). Stride 1 still removes the Nyquist
            frequency of an even size.

    Raises:
        ValueError: if stride is below 1.

    Example:
        >>> import torch
        >>> from cnnpool.pool import IdealLowpassPool2d
        >>> IdealLowpassPool2d(3)(torch.rand(1, 3, 8, 8)).shape
        torch.Size([1, 3, 4, 4])
    """

    formula = "inverse Fourier transform of X(f) [|f| < 1/(2s)], at every s-th pixel"
    paper = "Michaeli 2023, arXiv:2303.08085"
    shift = "commutes with shifts by multiples of the stride, and with any shift in between: nothing aliases"
    gradient = "dense"

    def flops(self, height: int, width: int) -> int:
        return resample_flops(self.channels, height, width, *self.output_size(height, width))

    def forward(self, x: Tensor) -> Tensor:
        return ideal_lowpass_pool2d(x, self.stride)
