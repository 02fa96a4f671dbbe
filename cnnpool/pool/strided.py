"""A learnt convolution with a stride, or with another operator before, behind or beside it."""

from collections.abc import Callable
from typing import ClassVar, Literal, Unpack

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cnnpool.pool.avg import avg_pool2d
from cnnpool.pool.base import CellPool2d, OddTaps, Padding, Place, Pool2d, Size, Taps, both
from cnnpool.pool.blur import BlurPool2d
from cnnpool.pool.edges import EdgeConv2d, PaddingMode
from cnnpool.pool.internals import is_exported
from cnnpool.pool.max import EdgeMaxPool2d

Norm = Literal["none", "batch"]
Activation = Literal["none", "relu", "gelu", "silu"]
NORMS: dict[str, Callable[..., nn.Module]] = {"none": nn.Identity, "batch": nn.BatchNorm2d}


class Rectifier(nn.Module):
    """max(x, 0). Backward reads which inputs were positive, a byte each, where ``nn.ReLU`` reads its output,
    which a layer in place behind the operator may have overwritten.
    """

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x) if is_exported() else torch.where(x <= 0, x.new_zeros(()), x)


ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "none": nn.Identity,
    "relu": Rectifier,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
}


class ConvolvingPool2d(Pool2d):
    """An operator with a learnt convolution, a norm that stands in place of its bias, and an activation."""

    fixed_channels = True
    gain = None

    def learn(self, conv: nn.Conv2d, norm: Norm, activation: Activation, **place: Unpack[Place]) -> None:
        self.conv = conv
        self.norm = NORMS[norm](conv.out_channels, **place)
        self.activation = ACTIVATIONS[activation]()

    def learnt(self, x: Tensor) -> Tensor:
        y: Tensor = self.activation(self.norm(self.conv(x)))
        return y

    def flops(self, height: int, width: int) -> int:
        return 2 * self.count_outputs(height, width) * self.conv.weight[0].numel()


class StridedConv2d(ConvolvingPool2d):
    """Convolution of stride s, channels kept: y = act(norm(w * x))[::s] (Springenberg 2015, All-CNN).

    The gradient of an input is the sum over the windows that cover it of w times the upstream gradient: dense
    for kernel >= stride, but with kernel 3 and stride 2 an input is covered 1, 2 or 4 times (a checkerboard).

    Edges: by default (kernel - 1)//2 zeros, or values by ``padding_mode``, so that an even H becomes H/2 for
    kernels 2 and 3.

    Args:
        padding: pixels on every side, >= 0; null for (kernel - 1)//2.
        padding_mode: their values: zeros, reflect, replicate or circular.
    """

    formula = "act(norm(sum_i w_i x_i + b))"
    paper = "Springenberg 2015, arXiv:1412.6806"
    shift = "equivariant to shifts by multiples of the stride; aliases unless it learns a low-pass filter"
    gradient = "uneven"
    mixes: ClassVar[bool] = True
    """Every output channel sees all input channels, not only its own."""

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
        self.kernel_size, self.stride, self.padding_mode = both(kernel_size), both(stride), padding_mode
        down, across = ((k - 1) // 2 for k in self.kernel_size)
        self.padding = (down, across) if padding is None else both(padding)
        convolution = channels, channels, self.kernel_size, self.stride, self.padding
        groups, bias = 1 if self.mixes else channels, norm == "none"
        conv = EdgeConv2d(*convolution, mode=padding_mode, groups=groups, bias=bias, **place)
        self.learn(conv, norm, activation, **place)

    def forward(self, x: Tensor) -> Tensor:
        self.check_channels(x)
        self.output_size(*x.shape[-2:])
        return self.learnt(x)


class DepthwiseConv2d(StridedConv2d):
    """Strided convolution, one filter per channel: y_c = act(norm(w_c * x_c))[::s] (Howard 2017, MobileNet).

    A learnt counterpart of average and blur pooling: channels do not mix, k^2 C weights. Gradient, edges and
    options are those of ``StridedConv2d``.
    """

    formula = "act(norm(sum_i w_ci x_ci + b_c))"
    paper = "Howard 2017, arXiv:1704.04861"
    mixes = False


class AvgConv2d(ConvolvingPool2d):
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
    shift = "equivariant to shifts by multiples of the stride; aliases less than a strided convolution"
    gradient = "dense"
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
        conv = nn.Conv2d(channels, channels, 1, bias=norm == "none", **place)
        self.learn(conv, norm, activation, **place)

    def flops(self, height: int, width: int) -> int:
        cells = self.kernel_size[0] * self.kernel_size[1]
        return self.count_outputs(height, width) * (cells + 2 * self.channels)

    def forward(self, x: Tensor) -> Tensor:
        self.check_channels(x)
        self.output_size(*x.shape[-2:])
        return self.learnt(avg_pool2d(x, self.kernel_size, self.stride, ceil_mode=True))


class ConvBlur2d(ConvolvingPool2d, CellPool2d):
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
    shift = "equivariant to shifts by multiples of the stride; aliases less the wider the filter"
    gradient = "uneven"

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
        conv = EdgeConv2d(*convolution, mode=conv_padding_mode, bias=norm == "none", **place)
        self.learn(conv, norm, activation, **place)
        self.blur = BlurPool2d(
            channels, filter_size=filter_size, stride=blur_stride, padding_mode=padding_mode
        )

    def flops(self, height: int, width: int) -> int:
        rows, columns = (height, width) if self.order == "conv_blur" else self.output_size(height, width)
        return 2 * rows * columns * self.conv.weight.numel() + self.blur.flops(height, width)

    def forward(self, x: Tensor) -> Tensor:
        self.check_channels(x)
        if self.order == "blur_conv":
            return self.learnt(self.blur(x))
        y: Tensor = self.blur(self.learnt(x))
        return y


class ConvPool2d(ConvolvingPool2d):
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
    shift = "equivariant to shifts by multiples of the stride; aliases like max pooling"
    gradient = "uneven"

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
        bias = norm == "none"
        conv = EdgeConv2d(channels, channels, self.conv_size, mode=padding_mode, bias=bias, **place)
        self.learn(conv, norm, activation, **place)
        self.pool = EdgeMaxPool2d(
            channels, kernel_size=window, stride=stride, padding=padding, padding_mode=padding_mode
        )
        self.kernel_size, self.stride, self.padding = window, self.pool.stride, self.pool.padding

    def flops(self, height: int, width: int) -> int:
        return 2 * height * width * self.conv.weight.numel() + self.pool.flops(height, width)

    def forward(self, x: Tensor) -> Tensor:
        self.check_channels(x)
        self.output_size(*x.shape[-2:])
        y: Tensor = self.pool(self.learnt(x))
        return y


class ReductionBlock2d(ConvolvingPool2d):
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
    shift = "equivariant to shifts by multiples of the stride; both branches alias"
    gradient = "uneven"

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
            max(self.pooled, 1), kernel_size=window, stride=stride, padding=padding, padding_mode=padding_mode
        )
        self.kernel_size, self.stride, self.padding = window, self.pool.stride, self.pool.padding
        convolution = channels, channels - self.pooled, window, self.stride, self.padding
        conv = EdgeConv2d(*convolution, mode=padding_mode, bias=norm == "none", **place)
        self.learn(conv, norm, activation, **place)

    def flops(self, height: int, width: int) -> int:
        rows, columns = self.output_size(height, width)
        pooled = self.pool.flops(height, width) if self.pooled else 0
        return 2 * rows * columns * self.conv.weight.numel() + pooled

    def forward(self, x: Tensor) -> Tensor:
        self.check_batch(x)
        learnt = self.learnt(x)
        return torch.cat([self.pool(x), learnt], 1) if self.pooled else learnt
