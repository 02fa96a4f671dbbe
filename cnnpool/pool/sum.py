"""Sum pooling."""

from typing import Unpack

from torch import Tensor

from cnnpool.pool.avg import avg_pool2d
from cnnpool.pool.base import Padding, Place, Size, WindowPool2d, checked
from cnnpool.pool.window import IntPair, refuse_quantized


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
    return avg_pool2d(x, kernel_size, stride, padding, ceil_mode, divisor_override=1)


@checked
class SumPool2d(WindowPool2d):
    """Sum of each window, by ``sum_pool2d`` (LeCun 1998: LeNet-5 adds, then scales).

    The gradient is 1 for every input of a window, added up where windows overlap. Values grow by k^2 and so
    does the gradient: a following layer needs k^2 times smaller weights than after an average.

    Edges: padding is zeros; rows and columns after the last whole window count only with ``ceil_mode``.
    """

    formula = "sum_i x_i"
    paper = "LeCun 1998, doi:10.1109/5.726791"
    shift = "commutes with shifts by multiples of the stride; a box filter damps the aliasing of the rest"
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
