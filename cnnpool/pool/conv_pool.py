"""A learnt convolution at full resolution, then max pooling."""

from typing import Unpack

from torch import Tensor

from cnnpool.pool.base import OddTaps, Padding, Place, Pool2d, Size, both, checked
from cnnpool.pool.edges import EdgeConv2d, PaddingMode
from cnnpool.pool.max import EdgeMaxPool2d
from cnnpool.pool.strided import ACTIVATIONS, NORMS, Activation, Norm


@checked
class ConvPool2d(Pool2d):
    """Convolution of stride 1, channels kept, then max pooling: y = max act(norm(w * x)) (Springenberg 2015).

    A fair control for the strided convolution: the ConvPool-CNN of the paper's Table 3 has as many layers and
    weights as its All-CNN, but pools. The gradient reaches an input through every window whose maximum it
    contributed to, so it is dense in general but unequal.

    Edges: the convolution pads and keeps the size, by default with zeros; the pooling then pads with cells
    that never win, by default (kernel - 1)//2 a side, so that an even H becomes H/2 for kernels 2 and 3 (the
    paper pads nothing). With another ``padding_mode`` both see the map's own values past the edges; circular
    makes the operator commute exactly with circular shifts by the stride.

    Args:
        conv_size: window of the convolution, odd, or (vertical, horizontal).
        kernel_size: window of the pooling, >= 1, or (vertical, horizontal).
        padding: of the pooling, 0..kernel/2; null for (kernel - 1)//2.
    """

    formula = "max_i act(norm(sum_j w_j x_ij + b))"
    paper = "Springenberg 2015, arXiv:1412.6806"
    shift = "commutes with shifts by multiples of the stride; aliases like max pooling"
    gradient = "uneven"
    fixed_channels = True
    gain = None

    def __init__(
        self,
        channels: int,
        *,
        conv_size: OddTaps = 3,
        kernel_size: Size = 3,
        stride: Size = 2,
        padding: Padding | None = None,
        padding_mode: PaddingMode = "zeros",
        norm: Norm = "none",
        activation: Activation = "relu",
        **place: Unpack[Place],
    ):
        super().__init__(channels, **place)
        self.conv_size = both(conv_size)
        window = both(kernel_size)
        self.conv = EdgeConv2d(
            channels, channels, self.conv_size, mode=padding_mode, bias=norm == "none", **place
        )
        self.norm = NORMS[norm](channels, **place)
        self.activation = ACTIVATIONS[activation]()
        self.pool = EdgeMaxPool2d(
            channels, kernel_size=window, stride=stride, padding=padding, padding_mode=padding_mode
        )
        self.kernel_size, self.stride, self.padding = window, self.pool.stride, self.pool.padding

    def flops(self, height: int, width: int) -> int:
        return 2 * height * width * self.conv.weight.numel() + self.pool.flops(height, width)

    def forward(self, x: Tensor) -> Tensor:
        self.check_channels(x)
        self.output_size(*x.shape[-2:])
        y: Tensor = self.pool(self.activation(self.norm(self.conv(x))))
        return y
