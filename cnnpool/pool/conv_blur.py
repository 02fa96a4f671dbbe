"""A learnt convolution with a blur before its stride."""

from typing import Literal, Unpack

from torch import Tensor

from cnnpool.pool.base import CellPool2d, OddTaps, Place, Size, Taps, both, checked
from cnnpool.pool.blur import BlurPool2d
from cnnpool.pool.edges import EdgeConv2d, PaddingMode
from cnnpool.pool.strided import ACTIVATIONS, NORMS, Activation, Norm


@checked
class ConvBlur2d(CellPool2d):
    """Strided convolution made shift-tolerant: y = blur_s(act(norm(w * x))) (Zhang 2019, ConvBlurPool).

    ``order: conv_blur`` is the paper's: convolution, non-linearity, then blur and stride. ``blur_conv`` is
    another operator of the same name in public code: blur at full resolution, then convolution with the
    stride, then the non-linearity, which aliases again. The gradient reaches every input, through w and the
    binomial filter.

    Edges: H' = ceil(H/s). The convolution pads (kernel - 1)/2, by default with zeros; the blur mirrors the
    map by default. If both are circular, the operator commutes exactly with circular shifts by the stride.

    Args:
        kernel_size: window of the convolution, odd, or (vertical, horizontal).
        order: conv_blur or blur_conv.
        padding_mode: of the blur: reflect, replicate, circular or zeros.
        conv_padding_mode: of the convolution, the same four.
    """

    formula = "sum_i b_i act(norm(sum_j w_j x_ij + b))"
    paper = "Zhang 2019, arXiv:1904.11486"
    shift = "commutes with shifts by multiples of the stride; aliases less the wider the filter"
    gradient = "uneven"
    fixed_channels = True
    gain = None

    def __init__(
        self,
        channels: int,
        *,
        kernel_size: OddTaps = 3,
        filter_size: Taps = 3,
        stride: Size = 2,
        order: Literal["conv_blur", "blur_conv"] = "conv_blur",
        padding_mode: PaddingMode = "reflect",
        conv_padding_mode: PaddingMode = "zeros",
        norm: Norm = "none",
        activation: Activation = "relu",
        **place: Unpack[Place],
    ):
        super().__init__(channels, stride=stride, **place)
        self.order, self.kernel_size = order, both(kernel_size)
        conv_stride, blur_stride = (1, self.stride) if order == "conv_blur" else (self.stride, 1)
        convolution = channels, channels, self.kernel_size, conv_stride
        self.conv = EdgeConv2d(*convolution, mode=conv_padding_mode, bias=norm == "none", **place)
        self.norm = NORMS[norm](channels, **place)
        self.activation = ACTIVATIONS[activation]()
        self.blur = BlurPool2d(
            channels, filter_size=filter_size, stride=blur_stride, padding_mode=padding_mode
        )

    def flops(self, height: int, width: int) -> int:
        rows, columns = (height, width) if self.order == "conv_blur" else self.output_size(height, width)
        return 2 * rows * columns * self.conv.weight.numel() + self.blur.flops(height, width)

    def forward(self, x: Tensor) -> Tensor:
        self.check_channels(x)
        if self.order == "conv_blur":
            y: Tensor = self.blur(self.activation(self.norm(self.conv(x))))
        else:
            y = self.activation(self.norm(self.conv(self.blur(x))))
        return y
