"""Average and sum pooling that save nothing for backward."""

from typing import Annotated, Any, Unpack

import torch.nn.functional as F
from annotated_types import Ge, Le, Predicate
from torch import Tensor, nn

from cnnpool.bounds import other_than_0
from cnnpool.pool.autograd.separable import SEPARABLE, Averaging, Counting, summed
from cnnpool.pool.base import LikeTorch, Padding, Place, Size, WindowPool2d
from cnnpool.pool.dispatch import AVERAGE, torch_suffices
from cnnpool.pool.internals import is_exported
from cnnpool.pool.leaves import one_node
from cnnpool.pool.window import (
    IntPair,
    Misfit,
    Window,
    cached,
    check_map,
    check_real,
    integer,
    is_channels_last,
    refuse_quantized,
    window_of,
)

Divisor = Annotated[int, Ge(-(10**9)), Le(10**9), Predicate(other_than_0)]


@one_node
def avg_pool2d(
    input: Tensor,
    kernel_size: IntPair,
    stride: IntPair | None = None,
    padding: IntPair = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Mean of each window (LeCun 1990), as ``torch.nn.functional.avg_pool2d``, correct at every edge.

    Nothing is saved for backward, and half-precision gradients are summed in float32.

    Args:
        input: (N, C, H, W) or (C, H, W), floating, or int64 (then rounded toward zero).
        kernel_size: window, >= 1, or (vertical, horizontal).
        stride: >= 1, or (vertical, horizontal); None for the kernel's size.
        padding: zeros around the map, at most half of the kernel.
        ceil_mode: keep the last window even if it overhangs the edge; the overhang is never counted.
        count_include_pad: count the padding among the values of a window.
        divisor_override: divide every sum by this nonzero whole number instead.

    Returns:
        (N, C, H', W') or (C, H', W'), H' = floor((H + 2p - k)/s) + 1, same dtype as ``input``.

    Raises:
        ValueError: for a number out of range, or an output that would be empty.

    Example:
        >>> avg_pool2d(torch.arange(16.0).view(1, 1, 4, 4), 3, 2, ceil_mode=True)
        tensor([[[[ 5.0000,  6.5000],
                  [11.0000, 12.5000]]]])
    """
    rule = kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    return _averages("avg_pool2d", input, *rule)


def _averages(operator: str, input: Tensor, *rule: Any) -> Tensor:
    """The averages of ``avg_pool2d``; an error names the ``operator``."""
    check_real(input, operator)
    window, counting = _rule(input.shape, operator, *rule)
    if counting.override is not None and is_exported():
        return summed(input, window, counting.override)
    small = torch_suffices(input, AVERAGE)
    if small or is_exported():
        # With overlapping windows torch rounds half-precision gradients after every addition. In a trace
        # our kernels would fix the size of the maps.
        exact = input.float() if small and input.dtype.itemsize == 2 and window.overlaps else input
        return F.avg_pool2d(exact, *window[:3], window.ceil_mode, *counting).to(input.dtype)
    batch = input if input.dim() == 4 else input.unsqueeze(0)
    averaging = Averaging(window, counting, (batch.shape[2], batch.shape[3]), is_channels_last(batch))
    y = SEPARABLE(batch, averaging)
    return y if input.dim() == 4 else y.squeeze(0)


@cached
def _rule(
    shape: tuple[int, ...],
    operator: str,
    kernel_size: IntPair,
    stride: IntPair | None,
    padding: IntPair,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> tuple[Window, Counting]:
    window = window_of(kernel_size, stride, padding, 1, ceil_mode)
    check_map(shape, window, operator)
    override = integer(divisor_override)
    if override == 0 or (override is None and divisor_override is not None):
        raise Misfit(f"divisor_override must be a whole number other than 0, got {divisor_override!r}")
    return window, Counting(count_include_pad, override)


class AvgPool2d(LikeTorch, WindowPool2d):
    """Mean of each window (LeCun 1990), by ``avg_pool2d``.

    The gradient is 1/k^2 for every input of a window, added up where windows overlap.

    Edges: padding is zeros and counts by default, which darkens the borders; rows and columns after the last
    whole window count only with ``ceil_mode``, in a mean over the pixels that exist.

    Args:
        channels: C of the input, not the window as in torch's constructor, which
            ``AvgPool2d.like(nn.AvgPool2d(3))`` understands.
        count_include_pad: count the padding among the values of a window.
        divisor_override: divide every sum by this nonzero number instead; null for the number of values.
    """

    formula = "1/n sum_i x_i"
    paper = "LeCun 1990, Handwritten digit recognition with a back-propagation network"
    shift = "equivariant to shifts by multiples of the stride; a box filter damps the aliasing of the rest"
    gradient = "dense"
    cell_flops = 1
    torch_module = nn.AvgPool2d

    def __init__(
        self,
        channels: int,
        *,
        kernel_size: Size = 2,
        stride: Size = 2,
        padding: Padding = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: Divisor | None = None,
        **place: Unpack[Place],
    ):
        super().__init__(channels, kernel_size, stride, padding, ceil_mode, **place)
        self.count_include_pad, self.divisor_override = count_include_pad, divisor_override
        if divisor_override is not None or (count_include_pad and max(self.padding) > 0):
            self.gain = None

    def forward(self, x: Tensor) -> Tensor:
        return avg_pool2d(x, *self.window, self.count_include_pad, self.divisor_override)


@one_node
def sum_pool2d(
    x: Tensor,
    kernel_size: IntPair,
    stride: IntPair | None = None,
    padding: IntPair = 0,
    ceil_mode: bool = False,
) -> Tensor:
    """Sum of each window: ``avg_pool2d`` without the division.

    Maps, windows and errors as there; a quantized map, whose range sums would exceed, is refused.

    Example:
        >>> sum_pool2d(torch.arange(16.0).view(1, 1, 4, 4), 2)
        tensor([[[[10., 18.],
                  [42., 50.]]]])
    """
    refuse_quantized(x, "sum_pool2d")
    return _averages("sum_pool2d", x, kernel_size, stride, padding, ceil_mode, True, 1)


class SumPool2d(WindowPool2d):
    """Sum of each window, by ``sum_pool2d`` (LeCun 1998: LeNet-5 adds, then scales).

    The gradient is 1 for every input of a window, added up where windows overlap. Values grow by k^2 and so
    does the gradient: a following layer needs k^2 times smaller weights than after an average.

    Edges: padding is zeros; rows and columns after the last whole window count only with ``ceil_mode``.
    """

    formula = "sum_i x_i"
    paper = "LeCun 1998, doi:10.1109/5.726791"
    shift = "equivariant to shifts by multiples of the stride; a box filter damps the aliasing of the rest"
    gradient = "dense"

    def __init__(
        self,
        channels: int,
        *,
        kernel_size: Size = 2,
        stride: Size = 2,
        padding: Padding = 0,
        ceil_mode: bool = False,
        **place: Unpack[Place],
    ):
        super().__init__(channels, kernel_size, stride, padding, ceil_mode, **place)
        whole = max(self.padding) == 0 and not ceil_mode
        self.gain = float(self.kernel_size[0] * self.kernel_size[1]) if whole else None

    def flops(self, height: int, width: int) -> int:
        return self.count_cells(height, width) - self.count_outputs(height, width)

    def forward(self, x: Tensor) -> Tensor:
        return sum_pool2d(x, *self.window)
