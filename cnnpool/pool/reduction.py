"""Max pooling of some channels beside a strided convolution of all."""

from typing import Unpack

import torch
from torch import Tensor

from cnnpool.pool.base import Padding, Place, Pool2d, Size, Taps, both, checked
from cnnpool.pool.edges import EdgeConv2d, PaddingMode
from cnnpool.pool.max import EdgeMaxPool2d
from cnnpool.pool.strided import ACTIVATIONS, NORMS, Activation, Norm


@checked
class ReductionBlock2d(Pool2d):
    """Max pooling and a strided convolution side by side, concatenated (Szegedy 2016, grid size reduction).

    The first C//2 output channels are the maxima of the first C//2 input channels, the others a convolution
    of all C. Departs from the paper, whose pooling branch keeps all C channels, so that its output is wider
    than the input. With one channel there is only the convolution. The gradient is that of the strided
    convolution (an input is covered 1, 2 or 4 times), plus the winners'.

    Edges: by default both branches pad (kernel - 1)//2, the convolution with zeros and the maximum with cells
    that never win (the paper pads nothing). With another ``padding_mode`` both see the map's own values past
    the edges; circular makes the operator commute exactly with circular shifts by the stride.

    Args:
        padding: of both branches, 0..kernel/2; null for (kernel - 1)//2.
    """

    formula = "[max_i x_i, act(norm(sum_i w_i x_i + b))]"
    paper = "Szegedy 2016, arXiv:1512.00567"
    shift = "commutes with shifts by multiples of the stride; both branches alias"
    gradient = "uneven"
    fixed_channels = True
    gain = None

    def __init__(
        self,
        channels: int,
        *,
        kernel_size: Taps = 3,
        stride: Size = 2,
        padding: Padding | None = None,
        padding_mode: PaddingMode = "zeros",
        norm: Norm = "none",
        activation: Activation = "relu",
        **place: Unpack[Place],
    ):
        super().__init__(channels, **place)
        self.pooled = channels // 2
        window = both(kernel_size)
        self.pool = EdgeMaxPool2d(
            self.pooled, kernel_size=window, stride=stride, padding=padding, padding_mode=padding_mode
        )
        self.kernel_size, self.stride, self.padding = window, self.pool.stride, self.pool.padding
        self.convolved = channels - self.pooled
        convolution = channels, self.convolved, window, self.stride, self.padding
        self.conv = EdgeConv2d(*convolution, mode=padding_mode, bias=norm == "none", **place)
        self.norm = NORMS[norm](self.convolved, **place)
        self.activation = ACTIVATIONS[activation]()

    def flops(self, height: int, width: int) -> int:
        rows, columns = self.output_size(height, width)
        return 2 * rows * columns * self.conv.weight.numel() + self.pool.flops(height, width)

    def forward(self, x: Tensor) -> Tensor:
        self.check_batch(x)
        learnt = self.activation(self.norm(self.conv(x)))
        return torch.cat([self.pool(x), learnt], 1) if self.pooled else learnt
