"""Haar's four bands, mixed by a learnt convolution."""

from typing import Literal, Unpack

import torch.nn.functional as F
from torch import Tensor, nn

from cnnpool.pool.base import CellPool2d, Place, checked, placed
from cnnpool.pool.fourier import like
from cnnpool.pool.strided import ACTIVATIONS, NORMS, Activation, Norm
from cnnpool.pool.wavelet import wavelet_bands2d, wavelet_bank


@checked
class HwdConv2d(CellPool2d):
    """Haar wavelet downsampling: y = act(norm(W [LL, HL, LH, HH])) (Xu 2023, HWD).

    One level of the orthonormal Haar transform turns each channel into four bands of half the size, which
    preserve all information; a 1x1 convolution maps the 4 C bands back to C channels. It represents the same
    functions as ``unshuffle`` and ``patchify``, since the transform is an orthogonal map of each 2 x 2 cell;
    only the coordinates of initialisation and decay differ. Each input is covered once: a dense gradient.

    Edges: H' = ceil(H/2); an odd size repeats its last row or column, or is completed by zeros.

    Args:
        channels: C of input and output.
        stride: 2, that of the transform.
        edges: padding of an odd size: replicate or zeros.
        norm: none or batch (then the convolution has no bias); batch in the paper.
        activation: none, relu, gelu or silu.

    Raises:
        ValueError: if stride is not 2, or an option is unknown.

    Example:
        >>> import torch
        >>> from cnnpool.pool import HwdConv2d
        >>> HwdConv2d(3, norm="batch")(torch.rand(1, 3, 8, 8)).shape
        torch.Size([1, 3, 4, 4])
    """

    formula = "act(norm(sum_k w_k z_k + b)), z the four Haar bands of the 2 x 2 cell"
    paper = "Xu 2023, doi:10.1016/j.patcog.2023.109819"
    shift = "commutes with shifts by multiples of the stride; aliases unless it learns a low-pass filter"
    gradient = "dense"
    fixed_channels = True
    gain = None

    bank: Tensor

    def __init__(
        self,
        channels: int,
        *,
        stride: Literal[2] = 2,
        edges: Literal["replicate", "zeros"] = "replicate",
        norm: Norm = "none",
        activation: Activation = "relu",
        **place: Unpack[Place],
    ):
        super().__init__(channels, stride=stride, **place)
        self.edges = edges
        self.register_buffer("bank", placed(wavelet_bank(1), **place), persistent=False)
        self.mix = nn.Conv2d(4 * channels, channels, 1, bias=norm == "none", **place)
        self.norm = NORMS[norm](channels, **place)
        self.activation = ACTIVATIONS[activation]()

    def flops(self, height: int, width: int) -> int:
        return self.count_outputs(height, width) * (2 * self.bank.numel() + 8 * self.channels)

    def forward(self, x: Tensor) -> Tensor:
        self.check_batch(x)
        whole = x
        if self.edges == "zeros":
            whole = F.pad(x, (0, x.shape[-1] % 2, 0, x.shape[-2] % 2))
        y = self.activation(self.norm(self.mix(like(wavelet_bands2d(whole, self.bank), x))))
        return like(y, x)
