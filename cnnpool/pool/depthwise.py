"""A learnt filter per channel, with a stride."""

from typing import Literal

from torch import Tensor

from cnnpool.pool.base import Pool2d, Size, pair
from cnnpool.pool.edges import EdgeConv2d, PaddingMode
from cnnpool.pool.strided import ACTIVATIONS, NORMS


class DepthwiseConv2d(Pool2d):
    """Strided convolution, one filter per channel: y_c = act(norm(w_c * x_c))[::s] (Howard 2017, MobileNet).

    The learnt sibling of average and blur pooling: channels do not mix, k^2 C weights. The gradient of an
    input is the sum over the windows that cover it of w times the upstream gradient: with kernel 3 and stride
    2 an input is covered 1, 2 or 4 times.

    Edges: zeros, or as ``padding_mode`` says, by default (kernel - 1)//2 of them, so that an even H becomes
    H/2 for kernels 2 and 3.

    Args:
        channels: C of input and output.
        kernel_size: window, >= 1, or (vertical, horizontal).
        stride: >= 1, or (vertical, horizontal).
        padding: pixels on every side, >= 0; null for (kernel - 1)//2.
        padding_mode: what they hold: zeros, reflect, replicate or circular.
        norm: none or batch (then the convolution has no bias).
        activation: none, relu, gelu or silu.

    Raises:
        ValueError: if a number is out of range, or the output would be empty.
    """

    formula = "act(norm(sum_i w_ci x_ci + b_c))"
    paper = "Howard 2017, arXiv:1704.04861"
    shift = "commutes with shifts by multiples of the stride; aliases unless it learns a low-pass filter"
    gradient = "uneven"
    gain = None

    def __init__(
        self,
        channels: int,
        *,
        kernel_size: Size = 3,
        stride: Size = 2,
        padding: Size | None = None,
        padding_mode: PaddingMode = "zeros",
        norm: Literal["none", "batch"] = "none",
        activation: Literal["none", "relu", "gelu", "silu"] = "relu",
    ):
        super().__init__()
        self.channels = channels
        self.kernel_size = pair(kernel_size, "kernel_size", least=1)
        self.stride = pair(stride, "stride", least=1)
        same = tuple((k - 1) // 2 for k in self.kernel_size)
        self.padding_mode = padding_mode
        self.padding = same if padding is None else pair(padding, "padding", least=0)
        self.conv = EdgeConv2d(
            channels,
            channels,
            self.kernel_size,
            self.stride,
            mode=padding_mode,
            padding=self.padding,
            groups=channels,
            bias=norm == "none",
        )
        self.norm = NORMS[norm](channels)
        self.activation = ACTIVATIONS[activation]()

    def flops(self, height: int, width: int) -> int:
        rows, columns = self.output_size(height, width)
        return 2 * rows * columns * self.channels * self.kernel_size[0] * self.kernel_size[1]

    def forward(self, x: Tensor) -> Tensor:
        self.output_size(*x.shape[-2:])
        return self.activation(self.norm(self.conv(x)))
