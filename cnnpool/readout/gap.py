"""Global average pooling."""

from torch import Tensor

from cnnpool.readout.base import Readout


class GlobalAvgPool2d(Readout):
    """Mean over all positions: y_c = mean x_c (Lin 2013, Network in Network). Gradient 1/(HW) everywhere.

    Written as a mean, which is deterministic on every device (adaptive average pooling is not on CUDA) and
    accumulates half precision in float32.
    """

    formula = "mean x_i"
    paper = "Lin 2013, arXiv:1312.4400"
    shift = "invariant"

    def __init__(self, channels: int, size: tuple[int, int]):
        super().__init__()
        self.channels = self.out_features = channels

    def flops(self, height: int, width: int) -> int:
        return self.channels * height * width

    def forward(self, x: Tensor) -> Tensor:
        return x.mean((2, 3))
