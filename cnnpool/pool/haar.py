"""The low-pass band of the Haar wavelet."""

from typing import Literal, Unpack

from torch import Tensor

from cnnpool.pool.avg import avg_pool2d
from cnnpool.pool.base import CellPool2d, Place, checked
from cnnpool.pool.window import check_floating


@checked
class HaarPool2d(CellPool2d):
    """Keep the low-pass band of the Haar transform, (a + b + c + d)/2 (Li 2020, WaveCNet).

    Twice the 2 x 2 average: the transform is orthonormal, so that the band keeps its share of the energy and
    a constant map doubles. Without ``orthonormal`` it is the average itself. The gradient is 1/2 (1/4) for
    every input. All four bands, and longer filters: ``wavelet``.

    Edges: an odd size repeats its last row or column, H' = ceil(H/2).

    Args:
        stride: 2, that of the transform.
        orthonormal: scale by 2.
    """

    formula = "(x_1 + x_2 + x_3 + x_4)/2"
    paper = "Li 2020, arXiv:2005.03337"
    shift = "commutes with shifts by multiples of the stride; aliases as the 2 x 2 average"
    gradient = "dense"
    gain = 2.0

    def __init__(
        self, channels: int, *, stride: Literal[2] = 2, orthonormal: bool = True, **place: Unpack[Place]
    ):
        super().__init__(channels, stride=stride, **place)
        self.orthonormal = orthonormal
        if not orthonormal:
            self.gain = 1.0

    def flops(self, height: int, width: int) -> int:
        return 4 * self.count_outputs(height, width)

    def forward(self, x: Tensor) -> Tensor:
        check_floating(x)
        # The mean of the existing pixels equals the mean with the last ones repeated.
        mean = avg_pool2d(x, 2, ceil_mode=True)
        return 2 * mean if self.orthonormal else mean
