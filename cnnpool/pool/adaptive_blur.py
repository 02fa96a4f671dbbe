"""A low-pass filter predicted from the map: :func:`adaptive_blur_pool2d`."""

import math
from typing import Annotated, Any, Unpack

from annotated_types import Ge, Le, Predicate
from torch import Tensor, nn

from cnnpool.bounds import Count, odd
from cnnpool.pool.base import CellPool2d, Place, Size, both, check_choice
from cnnpool.pool.cells import cell_views
from cnnpool.pool.edges import PaddingMode, WideConv2d, pad
from cnnpool.pool.fourier import full_precision
from cnnpool.pool.leaves import one_node
from cnnpool.pool.strided import NORMS, Norm
from cnnpool.pool.window import IntPair, Misfit, Window, ceil_div, check_batch, largest_finite, pair, wide

Side = Annotated[int, Ge(1), Le(15), Predicate(odd)]
"""Odd side m of the filters: the convolution that predicts them has m^4 C weights per group."""


@one_node
def adaptive_blur_pool2d(
    x: Tensor,
    logits: Tensor,
    filter_size: IntPair = 3,
    stride: IntPair = 2,
    padding_mode: PaddingMode = "reflect",
) -> Tensor:
    """Average of the window around every ``stride``-th pixel by its own filter, softmax of logits (Zou 2020).

    Args:
        x: (N, C, H, W), any floating dtype; half precision is summed in float32.
        logits: (N, groups m m, H', W'), H' = ceil(H/s): for each group of C/groups channels its m x m filter,
            row by row; infinite ones stand for the largest finite number.
        filter_size: m, odd, or (vertical, horizontal); it, stride and padding mode as in ``blur_pool2d``.

    Example:
        >>> x, logits = torch.ones(1, 4, 8, 8), torch.zeros(1, 2 * 9, 4, 4)
        >>> adaptive_blur_pool2d(x, logits).shape  # two groups of 3 x 3 filters
        torch.Size([1, 4, 4, 4])
    """
    check_batch(x, "adaptive_blur_pool2d")
    check_choice("padding_mode", padding_mode, PaddingMode)
    kernel, (sh, sw) = pair(filter_size, "filter_size", least=1), pair(stride, "stride", least=1)
    if any(k % 2 == 0 for k in kernel):
        raise ValueError(f"filter_size must be odd, got {filter_size!r}")
    cells = kernel[0] * kernel[1]
    rows, columns = ceil_div(x.shape[-2], sh), ceil_div(x.shape[-1], sw)
    groups = logits.shape[1] // cells if logits.dim() == 4 else 0
    whole = (x.shape[0], groups * cells, rows, columns)
    if groups < 1 or logits.shape != whole or x.shape[1] % groups or not logits.is_floating_point():
        raise Misfit(
            f"logits must be (N, groups*{cells}, {rows}, {columns}), groups a divisor of C = {x.shape[1]}, "
            f"got {logits.dtype} {tuple(logits.shape)} for N = {x.shape[0]}"
        )
    exact = wide(logits)
    bound = largest_finite(exact)
    weights = exact.clamp(-bound, bound).unflatten(1, (groups, cells)).softmax(2)
    down, across = kernel[0] // 2, kernel[1] // 2
    padded = pad(x, (across, across, down, down), padding_mode).unflatten(1, (groups, -1))
    window = Window(kernel, (sh, sw), (0, 0), (1, 1), False)
    total: Any = 0
    for place, cell in enumerate(cell_views(padded, window, rows, columns)):
        # The map comes first, so that the sum takes its memory format.
        total = cell * weights[:, :, place, None] + total
    y: Tensor = total.flatten(1, 2).to(x.dtype)
    return y


class AdaptiveBlurPool2d(CellPool2d):
    """y = sum_i w_i x_i, w = softmax(norm(conv(x))) per output pixel and group of channels (Zou 2020, DDAC).

    It can blur smooth regions and keep edges. Gradient: w_i, plus the part through the logits,
    sum_j w_j (x_j - y) dlogit_j/dx_i. Starts as an average: the convolution starts at 0.

    Edges: H' = ceil(H/s); both filters pad by ``padding_mode``, which mirrors the map by default.

    Departures from the paper: the logits are not batch-normalised by default, so that an image's filters do
    not depend on its batch (``norm: batch`` is the paper's); the convolution starts at zero; filters are
    computed at the kept pixels only, which gives the same function, except that in training ``norm`` then
    takes the statistics of these (on noise the weights move by 2 %); without ``norm``, in float32 at least.
    The authors' code takes one softmax over the filters of all groups together, so that a constant map comes
    out as 1/groups of itself on average; here each filter sums to 1.

    Args:
        filter_size: m of the m x m filters and of the convolution, odd, or (vertical, horizontal).
        groups: filters per pixel, a divisor of C; null for the greatest common divisor of C and 8 (paper).
        norm: none or batch, before the softmax (batch: the convolution has no bias, and the logits, which it
            squares, must be below 1e18 in float32, below 65504 in float16).
    """

    formula = "sum_i w_i x_i, w = softmax(norm(conv(x)))"
    paper = "Zou 2020, arXiv:2008.09604"
    shift = "equivariant to shifts by multiples of the stride; learns where to blur"
    gradient = "uneven"
    fixed_channels = True

    def __init__(
        self,
        channels: int,
        *,
        filter_size: Side | tuple[Side, Side] = 3,
        stride: Size = 2,
        groups: Count | None = None,
        padding_mode: PaddingMode = "reflect",
        norm: Norm = "none",
        **place: Unpack[Place],
    ):
        super().__init__(channels, stride=stride, **place)
        self.filter_size = both(filter_size)
        self.groups = math.gcd(8, channels) if groups is None else groups
        if channels % self.groups:
            raise ValueError(f"groups must divide the {channels} channels, got {groups}")
        self.padding_mode = padding_mode
        if padding_mode == "zeros":
            self.gain = None
        filters = self.groups * self.filter_size[0] * self.filter_size[1]
        self.conv = WideConv2d(
            channels, filters, self.filter_size, self.stride, mode=padding_mode, bias=norm == "none", **place
        )
        nn.init.zeros_(self.conv.weight)
        if self.conv.bias is not None:
            nn.init.zeros_(self.conv.bias)
        self.norm = NORMS[norm](filters, **place)

    def flops(self, height: int, width: int) -> int:
        rows, columns = self.output_size(height, width)
        cells = self.filter_size[0] * self.filter_size[1]
        per_pixel = 2 * self.channels * cells * (self.groups * cells + 1) + 3 * self.groups * cells
        return rows * columns * per_pixel

    def forward(self, x: Tensor) -> Tensor:
        self.check_batch(x)
        if isinstance(self.norm, nn.Identity):
            with full_precision(x):
                logits: Tensor = self.conv(wide(x))
        else:
            logits = self.norm(self.conv(x))
        return adaptive_blur_pool2d(x, logits, self.filter_size, self.stride, self.padding_mode)
