"""Plain subsampling, and dilation in its place."""

from typing import Annotated, Unpack

from annotated_types import Ge, Le
from torch import Tensor

from cnnpool.pool.base import CellPool2d, Place, Pool2d
from cnnpool.pool.window import Misfit


def check_map(x: Tensor, operator: str) -> None:
    """Raise a ValueError unless ``x``, of any dtype, is a map that is not empty."""
    if x.dim() not in (3, 4) or min(x.shape[-3:]) < 1:
        raise Misfit(f"{operator} takes (N, C, H, W) or (C, H, W), got {tuple(x.shape)}")


class Subsample2d(CellPool2d):
    """Keep the top left pixel of every ``stride`` x ``stride`` cell: y = x[::s, ::s].

    After a convolution of stride 1 this is the same function as a convolution of stride s, so it is the paper
    form of a strided network (Springenberg 2015, Strided-CNN; He 2016, first block of a stage). The gradient
    goes only to the kept pixels, 1/s^2 of all.

    Edges: an odd size keeps its last row and column, H' = ceil(H/s).
    """

    formula = "x[0, 0] of each s x s cell"
    paper = "LeCun 1998, as part of a strided convolution"
    shift = "equivariant to shifts by multiples of the stride; aliases everything else"
    gradient = "sparse"

    def flops(self, height: int, width: int) -> int:
        return 0

    def forward(self, x: Tensor) -> Tensor:
        check_map(x, type(self).__name__)
        # A fresh tensor in the input's memory format: a strided view would make every later layer slow.
        return x[..., :: self.stride[0], :: self.stride[1]].clone()


class NoPool2d(Pool2d):
    """Keep the resolution and let later convolutions be dilated by ``stride``: y = x (Yu & Koltun 2016).

    ``dilates`` tells the backbone by how much. With subsampling in its place every convolution would see each
    ``stride``-th pixel; dilated, it sees the same pixels at every offset, so the dense output, subsampled, is
    the output of the strided net (zero padding included). Exactly shift-equivariant, at ``stride`` squared
    times the cost of every later layer. Returns its input itself, as torch.nn.Identity does.

    Args:
        stride: the dilation in place of downsampling, >= 1, the same along both axes.
    """

    formula = "x"
    paper = "Yu & Koltun 2016, arXiv:1511.07122"
    shift = "equivariant to every shift"
    gradient = "dense"
    kernel_size = (1, 1)
    stride = (1, 1)

    def __init__(self, channels: int, *, stride: Annotated[int, Ge(1), Le(16)] = 2, **place: Unpack[Place]):
        super().__init__(channels, **place)
        self.dilates = stride

    def flops(self, height: int, width: int) -> int:
        return 0

    def forward(self, x: Tensor) -> Tensor:
        check_map(x, type(self).__name__)
        return x

    def extra_repr(self) -> str:
        return f"dilates={self.dilates}"
