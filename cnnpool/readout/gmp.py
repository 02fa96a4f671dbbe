"""Global max pooling."""

from typing import Literal

from torch import Tensor

from cnnpool.readout.base import Readout

Ties = Literal["first", "split"]


class GlobalMaxPool2d(Readout):
    """Maximum over all positions: y_c = max x_c (Oquab 2015).

    The gradient goes to the maximum alone, 1/(HW) of the inputs. NaN comes out as NaN.

    Args:
        ties: which of equal maxima gets the gradient: first in raster order (the rule of torch's
            AdaptiveMaxPool2d), or split evenly (the rule of torch.amax, and of timm's fast pooling).
    """

    formula = "max x_i"
    paper = "Oquab 2015, doi:10.1109/CVPR.2015.7298668"
    shift = "invariant"

    def __init__(self, channels: int, size: tuple[int, int], *, ties: Ties = "first"):
        super().__init__()
        self.channels = self.out_features = channels
        self.ties = ties

    def flops(self, height: int, width: int) -> int:
        return self.channels * (height * width - 1)

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(2).max(2).values if self.ties == "first" else x.amax((2, 3))

    def extra_repr(self) -> str:
        return f"ties={self.ties!r}"
