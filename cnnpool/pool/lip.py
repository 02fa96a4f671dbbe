"""Local importance-based pooling: :func:`lip_pool2d`."""

from functools import partial
from typing import Unpack

import torch
from torch import Tensor, nn

from cnnpool.bounds import AboveZero, CountOrZero
from cnnpool.pool.base import Cells, Padding, Place, Size, WindowPool2d
from cnnpool.pool.cells import cells, peak, weighted_mean
from cnnpool.pool.edges import WideConv2d
from cnnpool.pool.fourier import full_precision
from cnnpool.pool.leaves import one_node
from cnnpool.pool.window import IntPair, Window, largest_finite, wide, window_on


@one_node
def lip_pool2d(
    x: Tensor,
    logits: Tensor,
    kernel_size: IntPair,
    stride: IntPair | None = None,
    padding: IntPair = 0,
    ceil_mode: bool = False,
) -> Tensor:
    """Average of every window weighted by e^logit: sum e^g_i x_i / sum e^g_i (Gao 2019, arXiv:1908.04156).

    Each window's largest logit is subtracted first, so nothing overflows. Equal logits give the average;
    infinite ones stand for the largest finite number. Sums of |x| over a window must be finite.

    Args:
        logits: importance of each pixel, the shape of ``x``.

    Example:
        >>> x = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
        >>> lip_pool2d(x, torch.tensor([[[[0.0, 0.0], [0.0, 20.0]]]]), 2)
        tensor([[[[4.]]]])
    """
    if x.shape != logits.shape:
        raise ValueError(f"logits must have the shape of x, {tuple(x.shape)}, got {tuple(logits.shape)}")
    window = window_on(x, kernel_size, stride, padding, ceil_mode)
    exact, importance = wide(x), wide(logits)
    bound = largest_finite(importance)
    weights = softmax_weights(importance.clamp(-bound, bound), window)
    return weighted_mean(cells(exact, window), weights).to(x.dtype)


def softmax_weights(logits: Tensor, window: Window) -> list[Tensor]:
    """e^(g_i - max g) of every window's cells, for ``logits`` whose difference does not overflow to NaN."""
    largest = peak(logits, window)
    return [(part - largest).exp() for part in cells(logits, window, fill=-float("inf"))]


class Importance(nn.Module):
    """The logits of LIP: scale * sigmoid(norm(conv(x))), in (0, scale), computed in float32 at least.

    The last convolution starts at zero, so all logits are equal and the pooling starts as an average.
    """

    def __init__(self, channels: int, scale: float, bottleneck: int, **place: Unpack[Place]):
        super().__init__()
        self.scale = scale
        convolution = partial(WideConv2d, mode="zeros", bias=False, **place)
        if bottleneck:
            width = max(channels // bottleneck, 1)
            self.stem: nn.Module = nn.Sequential(
                convolution(channels, width, 1),
                SampleNorm(width, **place),
                nn.ReLU(),
                convolution(width, width, 3),
                SampleNorm(width, **place),
                nn.ReLU(),
            )
            self.conv = convolution(width, channels, 1)
        else:
            self.stem = nn.Identity()
            self.conv = convolution(channels, channels, 3)
        self.norm = SampleNorm(channels, **place)
        nn.init.zeros_(self.conv.weight)

    def forward(self, x: Tensor) -> Tensor:
        with full_precision(x):
            logits: Tensor = self.scale * self.norm(self.conv(self.stem(wide(x)))).sigmoid()
        return logits


class SampleNorm(nn.Module):
    """Instance normalisation with scale and offset, in float32 at least.

    Unlike torch's it accepts a map of one pixel, and numbers whose squares overflow.
    """

    def __init__(self, channels: int, *, eps: float = 1e-5, **place: Unpack[Place]):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(channels, **place))
        self.bias = nn.Parameter(torch.zeros(channels, **place))

    def forward(self, x: Tensor) -> Tensor:
        exact = wide(x)
        centred = exact - exact.mean((-2, -1), keepdim=True)
        # If the largest exceeds 1, all are divided by it; its own square then keeps the variance above 0.
        largest = centred.detach().abs().amax((-2, -1), keepdim=True).clamp(min=1)
        small = centred / largest
        variance = small.square().mean((-2, -1), keepdim=True) + self.eps / largest / largest
        return small * variance.rsqrt() * self.weight[:, None, None] + self.bias[:, None, None]


class LipPool2d(WindowPool2d):
    """y = sum e^g_i x_i / sum e^g_i with learnt logits g = scale sigmoid(norm(conv x)) (Gao 2019, LIP).

    Gradient: w_i, plus sum_j w_j (x_j - y) dg_j/dx_i through the logits. Starts as average pooling.

    Edges: torch's size formula; cells in the padding or the overhang take no part (the paper's own code, too,
    divides by the weights inside). The convolutions of the logits pad with zeros, and are computed in float32
    at least; maps may be large as long as their sums, times the convolutions' weights, stay finite.

    Args:
        scale: largest logit, > 0; the paper's 12 lets one pixel outweigh another 160 000 times.
        bottleneck: 0 for one 3x3 convolution, C^2*9 weights; n >= 1 for 1x1, 3x3, 1x1 over C/n channels.
    """

    formula = "sum_i e^(g_i) x_i / sum_i e^(g_i), g = scale sigmoid(norm(conv(x)))"
    paper = "Gao 2019, arXiv:1908.04156"
    shift = "equivariant to shifts by multiples of the stride; may learn to suppress what would alias"
    gradient = "uneven"
    fixed_channels = True

    def __init__(
        self,
        channels: int,
        *,
        kernel_size: Cells = 3,
        stride: Size = 2,
        padding: Padding = 1,
        ceil_mode: bool = False,
        scale: AboveZero = 12.0,
        bottleneck: CountOrZero = 0,
        **place: Unpack[Place],
    ):
        super().__init__(channels, kernel_size, stride, padding, ceil_mode, **place)
        self.logits = Importance(channels, scale, bottleneck, **place)

    def flops(self, height: int, width: int) -> int:
        weights = sum(p.numel() for p in self.logits.parameters() if p.dim() == 4)
        return 2 * weights * height * width + 5 * self.count_cells(height, width)

    def forward(self, x: Tensor) -> Tensor:
        self.check_channels(x)
        self.output_size(*x.shape[-2:])
        return lip_pool2d(x, self.logits(x), *self.window)
