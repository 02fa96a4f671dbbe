"""Average pooling, then a learnt mix of the channels."""

from typing import Unpack

from torch import Tensor, nn

from cnnpool.pool.avg import avg_pool2d
from cnnpool.pool.base import Place, Pool2d, Size, both, checked
from cnnpool.pool.strided import ACTIVATIONS, NORMS, Activation, Norm


@checked
class AvgConv2d(Pool2d):
    """Average of each window, then a 1x1 convolution: y = act(norm(W mean x)) (He 2019, ResNet-D shortcut).

    Replaces a strided 1x1 convolution, which ignores all but one pixel in s^2; here every pixel counts. The
    gradient is W^T times the upstream gradient, over the window's size: dense and even.

    Edges: as in ResNet-D's public code, the last window may overhang (H' = ceil(H/s) for kernel = stride) and
    averages the pixels that exist.

    Args:
        kernel_size: window, >= 1, or (vertical, horizontal); null for the stride.
        activation: none, relu, gelu or silu; none in a shortcut.
    """

    formula = "act(norm(W mean x_i + b))"
    paper = "He 2019, arXiv:1812.01187"
    shift = "commutes with shifts by multiples of the stride; aliases less than a strided convolution"
    gradient = "dense"
    fixed_channels = True
    gain = None
    ceil_mode = True

    def __init__(
        self,
        channels: int,
        *,
        kernel_size: Size | None = None,
        stride: Size = 2,
        norm: Norm = "none",
        activation: Activation = "none",
        **place: Unpack[Place],
    ):
        super().__init__(channels, **place)
        self.stride = both(stride)
        self.kernel_size = self.stride if kernel_size is None else both(kernel_size)
        self.conv = nn.Conv2d(channels, channels, 1, bias=norm == "none", **place)
        self.norm = NORMS[norm](channels, **place)
        self.activation = ACTIVATIONS[activation]()

    def flops(self, height: int, width: int) -> int:
        cells = self.kernel_size[0] * self.kernel_size[1]
        return self.count_outputs(height, width) * (cells + 2 * self.channels)

    def forward(self, x: Tensor) -> Tensor:
        self.check_channels(x)
        self.output_size(*x.shape[-2:])
        mean = avg_pool2d(x, self.kernel_size, self.stride, ceil_mode=True)
        y: Tensor = self.activation(self.norm(self.conv(mean)))
        return y
