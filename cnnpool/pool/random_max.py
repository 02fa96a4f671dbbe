"""Max pooling over windows, or of rows and columns, that training draws at random."""

from typing import Literal, Unpack

import torch
import torch.nn.functional as F
from torch import Tensor

from cnnpool.pool.adaptive import max_between
from cnnpool.pool.avg import avg_pool2d
from cnnpool.pool.base import Place, RationalPool2d, Size, StrideAboveOne, WholeCellPool2d, both
from cnnpool.pool.max import max_pool2d
from cnnpool.pool.window import ceil_div, is_channels_last, laid_out

DRAWN = torch.float32  # Of draws, not the default dtype: bfloat16 has 256 different ones


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
    shift = "in evaluation: equivariant to no shift, since the windows are unequal"
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
            name = type(self).__name__
            raise ValueError(f"{name}: output would be empty for a {height}x{width} map: {self.extra_repr()}")
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
            return pseudorandom_edges(total, count, torch.rand(samples, 1, device=device, dtype=DRAWN))
        return pseudorandom_edges(total, count, torch.full((1, 1), 0.5, device=device, dtype=DRAWN))

    def forward(self, x: Tensor) -> Tensor:
        size = self.check_batch(x)
        # Columns first: the winner is then the first of its window in row-major order.
        y = x
        for axis in (3, 2):
            length, count = x.shape[axis], size[axis - 2]
            edges = self.edges(length, count, x.shape[0], x.device)
            start, last = edges[:, :-1], edges[:, 1:] - int(not self.overlapping)
            y = max_between(y, start, last, self._reach(length, count), axis)
        return laid_out(y, is_channels_last(x))


def random_edges(total: int, count: int, samples: int, device: torch.device) -> Tensor:
    """Edges from 0 to ``total`` whose ``count`` distances come in every order, (samples, count + 1)."""
    longer = torch.rand(samples, count, device=device, dtype=DRAWN).argsort(1) < total % count
    return F.pad((total // count + longer.long()).cumsum(1), (1, 0))


def pseudorandom_edges(total: int, count: int, u: Tensor) -> Tensor:
    """Edges ceil(a (i + u)) - ceil(a u), a = total/count, (samples, count + 1), from u (samples, 1)."""
    steps = torch.arange(count + 1, device=u.device) * total
    # Whole parts stay integers, so that rounding can neither lose the last edge nor a distance.
    offset = total / count * u
    windows = torch.full_like(steps, count)
    rest = ((steps % windows).to(u.dtype) / count + offset).ceil() - offset.ceil()
    return steps // windows + rest.long()


class S3Pool2d(WholeCellPool2d):
    """Maximum at every pixel, then random rows and columns of it in training (Zhai 2017, S3Pool).

    The maxima of windows at stride 1 form a map of the input's size. Training cuts it into grids of g x g
    pixels and keeps g/s rows and g/s columns of each, drawn without replacement and in order, the same for
    all samples and channels. Eval mode takes the mean of every s x s cell, as the paper does; that is the
    exact expectation if the grid is the stride. The larger the grid, the more the map is distorted.

    Departs from the authors' code, whose cells in evaluation begin s//2 pixels before the map, without what
    lies outside: on noise at stride 2 the outputs differ by 48 %.

    Gradient: to the winner of each window kept, 1 (training) or 1/s^2 (eval); sparse.

    Edges: the window at a pixel reaches (k - 1)//2 back and k//2 on, and cells outside never win.
    H' = floor(H/s): pixels that fill no s x s cell are dropped, but the windows before them may see them; a
    last grid that is cut off by the edge keeps rows in the same proportion.

    Args:
        kernel_size: window of the maximum, >= 1, or (vertical, horizontal).
        stride: s, >= 1, or (vertical, horizontal).
        grid: g, a multiple of the stride, or (vertical, horizontal); null for the stride.
    """

    formula = "max_i x_i at random rows and columns of each grid in training, its mean over s x s in eval"
    paper = "Zhai 2017, arXiv:1611.05138"
    shift = "in evaluation: equivariant to shifts by multiples of the stride, the edge aside"
    gradient = "sparse"
    random = True

    def __init__(
        self,
        channels: int,
        *,
        kernel_size: Size = 2,
        stride: Size = 2,
        grid: Size | None = None,
        **place: Unpack[Place],
    ):
        super().__init__(channels, stride=stride, **place)
        self.max_size = both(kernel_size)
        self.grid = self.stride if grid is None else both(grid)
        if any(g % s for g, s in zip(self.grid, self.stride, strict=True)):
            raise ValueError(f"grid must be a multiple of stride={self.stride}, got {grid!r}")

    def flops(self, height: int, width: int) -> int:
        rows, columns = self.output_size(height, width)
        maxima = height * width * (self.max_size[0] * self.max_size[1] - 1)
        return self.channels * (maxima + rows * columns * self.stride[0] * self.stride[1])

    def forward(self, x: Tensor) -> Tensor:
        self.check_batch(x)
        (kh, kw), (height, width) = self.max_size, x.shape[-2:]
        if not self.training:
            reach = ((kw - 1) // 2, kw // 2, (kh - 1) // 2, kh // 2)
            return avg_pool2d(max_pool2d(F.pad(x, reach, value=-torch.inf), self.max_size, 1), self.stride)
        # Only the windows of the rows and columns that are kept are laid side by side and pooled.
        rows = _windows(_draw(height, self.stride[0], self.grid[0], x.device), kh, height)
        columns = _windows(_draw(width, self.stride[1], self.grid[1], x.device), kw, width)
        kept = max_pool2d(x.index_select(-2, rows).index_select(-1, columns), self.max_size)
        return laid_out(kept, is_channels_last(x))

    def extra_repr(self) -> str:
        return f"kernel_size={self.max_size}, stride={self.stride}, grid={self.grid}"


def _draw(length: int, stride: int, grid: int, device: torch.device) -> Tensor:
    """The floor(length/stride) places that are kept along an axis, in order."""
    grids, rest = length // grid, length % grid // stride
    whole = _draw_grids(grids, grid, grid // stride, device)
    return torch.cat([whole, grids * grid + _draw_grids(1, rest * stride, rest, device)]) if rest else whole


def _windows(places: Tensor, kernel: int, length: int) -> Tensor:
    """Every pixel of the windows at ``places``; where the edge cuts a window off, a pixel is repeated."""
    reach = torch.arange(kernel, device=places.device) - (kernel - 1) // 2
    return (places.unsqueeze(1) + reach).clamp(0, length - 1).flatten()


def _draw_grids(count: int, grid: int, keep: int, device: torch.device) -> Tensor:
    """``keep`` places of each of ``count`` grids, every choice equally likely."""
    order = torch.rand(count, grid, device=device, dtype=DRAWN).argsort(1)
    places = order[:, :keep].sort(1).values
    return (places + grid * torch.arange(count, device=device).unsqueeze(1)).flatten()
