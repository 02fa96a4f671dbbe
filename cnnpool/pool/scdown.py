"""A learnt mix of the channels, then a learnt filter per channel with a stride."""

from typing import Unpack

from torch import Tensor, nn

from cnnpool.pool.base import OddTaps, Place, Pool2d, Size, both, checked
from cnnpool.pool.edges import EdgeConv2d, PaddingMode
from cnnpool.pool.strided import ACTIVATIONS, NORMS, Activation, Norm


@checked
class ScdownConv2d(Pool2d):
    """1x1 convolution, then a depthwise convolution with the stride (Wang 2024, YOLOv10).

    y = act(norm(w * act'(norm(W x)))): channels first, space then, with C^2 + k^2 C weights in place of the
    k^2 C^2 of a strided convolution. The gradient reaches an input through the windows that cover it: with
    kernel 3 and stride 2 it is covered 1, 2 or 4 times.

    Edges: the depthwise convolution pads (kernel - 1)/2, by default zeros, H' = ceil(H/s). Circular padding
    makes the operator commute exactly with circular shifts by the stride.

    Args:
        channels: C of input and output.
        kernel_size: of the depthwise convolution, odd, or (vertical, horizontal).
        stride: of the depthwise convolution, >= 1, or (vertical, horizontal).
        padding_mode: zeros, reflect, replicate or circular.
        norm: none or batch, after each convolution (which then have no bias).
        inner_activation: none, relu, gelu or silu, between the convolutions.
        activation: the same four, after them; none in the published network.

    Raises:
        ValueError: if a number is out of range, or kernel_size is even.

    Example:
        >>> import torch
        >>> from cnnpool.pool import ScdownConv2d
        >>> ScdownConv2d(3)(torch.rand(1, 3, 8, 8)).shape
        torch.Size([1, 3, 4, 4])
    """

    formula = "act(norm(sum_i w_ci u_ci + b_c)), u = act(norm(W x + b))"
    paper = "Wang 2024, arXiv:2405.14458"
    shift = "commutes with shifts by multiples of the stride; aliases unless it learns a low-pass filter"
    gradient = "uneven"
    fixed_channels = True
    gain = None

    def __init__(
        self,
        channels: int,
        *,
        kernel_size: OddTaps = 3,
        stride: Size = 2,
        padding_mode: PaddingMode = "zeros",
        norm: Norm = "none",
        inner_activation: Activation = "silu",
        activation: Activation = "none",
        **place: Unpack[Place],
    ):
        super().__init__(channels, **place)
        self.kernel_size, self.stride = both(kernel_size), both(stride)
        self.padding = self.kernel_size[0] // 2, self.kernel_size[1] // 2
        bias = norm == "none"
        self.mix = nn.Conv2d(channels, channels, 1, bias=bias, **place)
        self.mix_norm = NORMS[norm](channels, **place)
        self.inner_activation = ACTIVATIONS[inner_activation]()
        convolution = channels, channels, self.kernel_size, self.stride
        self.conv = EdgeConv2d(*convolution, mode=padding_mode, groups=channels, bias=bias, **place)
        self.norm = NORMS[norm](channels, **place)
        self.activation = ACTIVATIONS[activation]()

    def flops(self, height: int, width: int) -> int:
        rows, columns = self.output_size(height, width)
        return 2 * (height * width * self.channels**2 + rows * columns * self.conv.weight.numel())

    def forward(self, x: Tensor) -> Tensor:
        self.check_batch(x)
        mixed = self.inner_activation(self.mix_norm(self.mix(x)))
        y: Tensor = self.activation(self.norm(self.conv(mixed)))
        return y
