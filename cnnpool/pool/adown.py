"""An average of neighbours, then half of the channels convolved and half pooled, both with the stride."""

from typing import Unpack

import torch
from torch import Tensor, nn

from cnnpool.pool.avg import avg_pool2d
from cnnpool.pool.base import OddTaps, Place, Pool2d, Size, both, checked
from cnnpool.pool.edges import EdgeConv2d, PaddingMode, pad
from cnnpool.pool.max import EdgeMaxPool2d
from cnnpool.pool.strided import ACTIVATIONS, NORMS, Activation, Norm
from cnnpool.pool.window import is_channels_last, memory_format


@checked
class AdownBlock2d(Pool2d):
    """Average 2x2, then convolve one half of the channels and max-pool the other (Wang 2024, YOLOv9).

    With m the average at stride 1: y = [act(norm(w * m_1)), act(norm(W max m_2))], both branches strided, m_1
    the first C - C//2 channels and m_2 the others, W a 1x1 convolution. It has a quarter of the weights of a
    strided convolution of all channels, plus those of W. With one channel there is only the convolution. The
    gradient is that of both branches, spread by the average.

    Edges: by default the average sees no pixel past the edge, so that its map is one pixel smaller, and the
    branches pad (kernel - 1)/2, the convolution with zeros and the maximum with cells that never win: an even
    H becomes H/2, as in the published network. With another ``padding_mode`` all of them see the map's own
    values past the edges, the average to the right and below; circular makes the operator commute exactly
    with circular shifts by the stride.

    Args:
        channels: C of input and output.
        kernel_size: window of both branches, odd, or (vertical, horizontal).
        stride: of both branches, >= 1, or (vertical, horizontal).
        padding_mode: zeros, reflect, replicate or circular.
        norm: none or batch (then the convolutions have no bias).
        activation: none, relu, gelu or silu.

    Raises:
        ValueError: if a number is out of range, kernel_size is even, or the output would be empty.

    Example:
        >>> import torch
        >>> from cnnpool.pool import AdownBlock2d
        >>> AdownBlock2d(4)(torch.rand(1, 4, 8, 8)).shape
        torch.Size([1, 4, 4, 4])
    """

    formula = "[act(norm(sum_i w_i m_i + b)), act(norm(W max_i m_i + b))], m = mean of 2 x 2 pixels"
    paper = "Wang 2024, arXiv:2402.13616"
    shift = "commutes with shifts by multiples of the stride; aliases less than without the average"
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
        activation: Activation = "silu",
        **place: Unpack[Place],
    ):
        super().__init__(channels, **place)
        self.pooled = channels // 2
        self.convolved = channels - self.pooled
        self.kernel_size, self.stride = both(kernel_size), both(stride)
        self.padding = self.kernel_size[0] // 2, self.kernel_size[1] // 2
        self.padding_mode = padding_mode
        bias = norm == "none"
        convolution = self.convolved, self.convolved, self.kernel_size, self.stride
        self.conv = EdgeConv2d(*convolution, mode=padding_mode, bias=bias, **place)
        self.norm = NORMS[norm](self.convolved, **place)
        self.pool = EdgeMaxPool2d(
            self.pooled, kernel_size=self.kernel_size, stride=self.stride, padding_mode=padding_mode
        )
        mixes = self.pooled > 0
        self.mix = nn.Conv2d(self.pooled, self.pooled, 1, bias=bias, **place) if mixes else nn.Identity()
        self.mix_norm = NORMS[norm](self.pooled, **place) if mixes else nn.Identity()
        self.activation = ACTIVATIONS[activation]()

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        less = int(self.padding_mode == "zeros")
        if min(height, width) <= less:
            raise ValueError(
                f"{type(self).__name__} leaves nothing of a {height}x{width} map: with padding_mode=zeros it "
                "needs at least 2x2 pixels"
            )
        return super().output_size(height - less, width - less)

    def flops(self, height: int, width: int) -> int:
        rows, columns = self.output_size(height, width)
        height, width = (n - int(self.padding_mode == "zeros") for n in (height, width))
        weights = self.conv.weight.numel() + self.pooled**2
        average = 4 * self.channels * height * width
        return average + 2 * rows * columns * weights + self.pool.flops(height, width)

    def forward(self, x: Tensor) -> Tensor:
        self.check_batch(x)
        whole = x if self.padding_mode == "zeros" else pad(x, (0, 1, 0, 1), self.padding_mode)
        mean = avg_pool2d(whole, 2, 1)
        branches = [self.activation(self.norm(self.conv(mean[:, : self.convolved])))]
        if self.pooled:
            pooled = self.mix_norm(self.mix(self.pool(mean[:, self.convolved :])))
            branches.append(self.activation(pooled))
        # A convolution of a single channel may lose the memory format.
        return torch.cat(branches, 1).contiguous(memory_format=memory_format(is_channels_last(x)))
