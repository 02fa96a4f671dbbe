"""Half global average, half global maximum."""

from torch import Tensor

from cnnpool.readout.gmp import GlobalMaxPool2d


class GlobalAvgMaxPool2d(GlobalMaxPool2d):
    """Mean of average and maximum over all positions: y_c = (mean x_c + max x_c)/2 (Chen 2017, DPN code).

    The gradient is 1/(2HW) everywhere, and 1/2 more at the maximum.

    Args:
        ties: which of equal maxima gets the gradient: first in raster order, or split evenly.
    """

    formula = "(mean x_i + max x_i)/2"
    paper = "Chen 2017, arXiv:1707.01629, its test-time code"

    def flops(self, height: int, width: int) -> int:
        return self.channels * (2 * height * width + 1)

    def forward(self, x: Tensor) -> Tensor:
        return 0.5 * x.mean((2, 3)) + 0.5 * super().forward(x)
