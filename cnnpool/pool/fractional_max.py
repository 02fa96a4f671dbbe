"""Max pooling over windows of unequal size, so that the map can shrink by any ratio."""

from typing import Literal, Unpack

import torch
import torch.nn.functional as F
from torch import Tensor

from cnnpool.pool.base import Place, RationalPool2d, StrideAboveOne, checked
from cnnpool.pool.bins import max_between
from cnnpool.pool.window import ceil_div, is_channels_last, memory_format


@checked
class FractionalMaxPool2d(RationalPool2d):
    """Maximum over windows between randomly spaced edges (Graham 2014, fractional max-pooling).

    Along an axis of H pixels and H' windows the edges a_0 < a_1 < ... rise by floor or ceil of their mean
    distance. ``random``: all orders are equally likely; ``pseudorandom``: a_i = ceil(alpha (i + u)) -
    ceil(alpha u), alpha their mean distance and u uniform in [0, 1), which keeps them evenly spread. Training
    draws edges for every sample, the same for all its channels; eval mode uses the pseudorandom edges of u =
    1/2 for all. The gradient goes only to the maximum of each window, the first in row-major order among
    equals.

    ``overlapping`` windows run from pixel a_(i-1) to pixel a_i, both included, with the edges between pixel 0
    and pixel H - 1, as in the paper: at stride 2 they are 3 wide and one of them, at random, is 2 wide.
    Disjoint windows end before a_i, with the edges between 0 and H, so that they cover every pixel, unlike
    the paper's: at stride 2 they are plain 2 x 2 windows and there is nothing to draw unless H is odd.

    Edges: H' = floor(H/stride), and the windows cover the whole map.

    Args:
        stride: H/H', above 1, not necessarily whole, or (vertical, horizontal); often 1.414 in the paper.
        mode: random or pseudorandom.
        overlapping: whether neighbours share their edge.
    """

    formula = "max_i x_i between edges a_0 < a_1 < ... with random distances, floor or ceil of their mean"
    paper = "Graham 2014, arXiv:1412.6071"
    shift = "in evaluation: commutes with no shift, since the windows are unequal"
    gradient = "sparse"
    random = True
    equivariant = False

    def __init__(
        self,
        channels: int,
        *,
        stride: StrideAboveOne = 2.0,
        mode: Literal["random", "pseudorandom"] = "random",
        overlapping: bool = True,
        **place: Unpack[Place],
    ):
        super().__init__(channels, stride, **place)
        self.mode, self.overlapping = mode, overlapping

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        (p, q), (r, s) = self.ratio
        size = height * q // p, width * s // r
        if min(size) < 1:
            raise ValueError(
                f"{type(self).__name__} leaves nothing of a {height}x{width} map: {self.extra_repr()}"
            )
        return size

    def flops(self, height: int, width: int) -> int:
        rows, columns = self.output_size(height, width)
        reach = [self._reach(length, count) for length, count in ((height, rows), (width, columns))]
        return self.channels * columns * (height * (reach[1] - 1) + rows * (reach[0] - 1))

    def _reach(self, length: int, count: int) -> int:
        """Pixels in the longest window of an axis."""
        return ceil_div(length - int(self.overlapping), count) + int(self.overlapping)

    def edges(self, length: int, count: int, samples: int, device: torch.device) -> Tensor:
        """a_0 ... a_count along an axis of ``length`` pixels, (samples, count + 1), or (1, ...) for all."""
        total = length - int(self.overlapping)
        if self.training and self.mode == "random":
            return random_edges(total, count, samples, device)
        if self.training:
            return pseudorandom_edges(total, count, torch.rand(samples, 1, device=device))
        return pseudorandom_edges(total, count, torch.full((1, 1), 0.5, device=device))

    def forward(self, x: Tensor) -> Tensor:
        size = self.check_batch(x)
        # Columns first: the winner is then the first of its window in row-major order.
        y = x
        for axis in (3, 2):
            length, count = x.shape[axis], size[axis - 2]
            edges = self.edges(length, count, x.shape[0], x.device)
            start, last = edges[:, :-1], edges[:, 1:] - int(not self.overlapping)
            y = max_between(y, start, last, self._reach(length, count), axis)
        return y.contiguous(memory_format=memory_format(is_channels_last(x)))


def random_edges(total: int, count: int, samples: int, device: torch.device) -> Tensor:
    """Edges from 0 to ``total`` whose ``count`` distances come in every order, (samples, count + 1)."""
    longer = torch.rand(samples, count, device=device).argsort(1) < total % count
    return F.pad((total // count + longer.long()).cumsum(1), (1, 0))


def pseudorandom_edges(total: int, count: int, u: Tensor) -> Tensor:
    """Edges ceil(a (i + u)) - ceil(a u), a = total/count, (samples, count + 1), from u (samples, 1)."""
    steps = torch.arange(count + 1, device=u.device) * total
    # Whole parts stay integers, so that rounding can neither lose the last edge nor a distance.
    offset = total / count * u
    windows = torch.full_like(steps, count)
    rest = (steps % windows / count + offset).ceil() - offset.ceil()
    return steps // windows + rest.long()
