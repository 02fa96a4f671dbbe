"""Max pooling without a stride, then rows and columns drawn at random."""

from typing import Unpack

import torch
import torch.nn.functional as F
from torch import Tensor

from cnnpool.pool.avg import avg_pool2d
from cnnpool.pool.base import Place, Pool2d, Size, both, checked, reduced
from cnnpool.pool.max import max_pool2d
from cnnpool.pool.window import is_channels_last, memory_format


@checked
class S3Pool2d(Pool2d):
    """Maximum at every pixel, then random rows and columns of it in training (Zhai 2017, S3Pool).

    The maxima of windows at stride 1 form a map of the input's size. Training cuts it into grids of g x g
    pixels and keeps g/s rows and g/s columns of each, drawn without replacement and in order, the same for
    all samples and channels. Eval mode takes the mean of every s x s cell, as the paper does; that is the
    exact expectation if the grid is the stride. The larger the grid, the more the map is distorted.

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
    shift = "in evaluation: commutes with shifts by multiples of the stride, the edge aside"
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
        super().__init__(channels, **place)
        self.max_size, self.stride = both(kernel_size), both(stride)
        self.grid = self.stride if grid is None else both(grid)
        if any(g % s for g, s in zip(self.grid, self.stride, strict=True)):
            raise ValueError(f"grid must be a multiple of stride={self.stride}, got {grid!r}")

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        return reduced(type(self).__name__, height, width, self.stride)

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
        return kept.contiguous(memory_format=memory_format(is_channels_last(x)))

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
    places = torch.rand(count, grid, device=device).argsort(1)[:, :keep].sort(1).values
    return (places + grid * torch.arange(count, device=device).unsqueeze(1)).flatten()
