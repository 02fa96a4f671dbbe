"""Plain subsampling: keep every stride-th pixel."""

from torch import Tensor

from cnnpool.pool.base import CellPool2d


class Subsample2d(CellPool2d):
    """Keep the top left pixel of every ``stride`` x ``stride`` cell: y = x[::s, ::s].

    After a convolution of stride 1 this is the same function as a convolution of stride s, so it is the paper
    form of a strided network (Springenberg 2015, Strided-CNN; He 2016, first block of a stage). The gradient
    goes only to the kept pixels, 1/s^2 of all.

    Edges: an odd size keeps its last row and column, H' = ceil(H/s).
    """

    formula = "x[0, 0] of each s x s cell"
    paper = "LeCun 1998, as part of a strided convolution"
    shift = "commutes with shifts by multiples of the stride; aliases everything else"
    gradient = "sparse"

    def flops(self, height: int, width: int) -> int:
        return 0

    def forward(self, x: Tensor) -> Tensor:
        # A fresh tensor in the input's memory format: a strided view would make every later layer slow.
        return x[..., :: self.stride[0], :: self.stride[1]].clone()
