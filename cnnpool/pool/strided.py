"""A learnt convolution with a stride in place of pooling."""

from collections.abc import Callable
from typing import ClassVar, Literal, Unpack

from torch import Tensor, nn

from cnnpool.pool.base import Padding, Place, Pool2d, Size, Taps, both, checked
from cnnpool.pool.edges import EdgeConv2d, PaddingMode

Norm = Literal["none", "batch"]
Activation = Literal["none", "relu", "gelu", "silu"]
NORMS: dict[str, Callable[..., nn.Module]] = {"none": nn.Identity, "batch": nn.BatchNorm2d}
ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "none": nn.Identity,
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
}


@checked
class StridedConv2d(Pool2d):
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
    shift = "commutes with shifts by multiples of the stride; aliases unless it learns a low-pass filter"
    gradient = "uneven"
    fixed_channels = True
    gain = None
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
        self.conv = EdgeConv2d(*convolution, mode=padding_mode, groups=groups, bias=bias, **place)
        self.norm = NORMS[norm](channels, **place)
        self.activation = ACTIVATIONS[activation]()

    def flops(self, height: int, width: int) -> int:
        return 2 * self.count_outputs(height, width) * self.conv.weight[0].numel()

    def forward(self, x: Tensor) -> Tensor:
        self.check_channels(x)
        self.output_size(*x.shape[-2:])
        y: Tensor = self.activation(self.norm(self.conv(x)))
        return y
