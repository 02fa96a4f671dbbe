"""Readouts that keep positions: flattening, and maxima over grids of several sizes."""

from typing import Annotated

import torch
from annotated_types import Ge, Le, MaxLen, MinLen
from torch import Tensor, nn

from cnnpool.pool.adaptive import AdaptiveMaxPool2d
from cnnpool.readout.base import Readout, check_maps, require_size

Levels = Annotated[tuple[Annotated[int, Ge(1), Le(64)], ...], MinLen(1), MaxLen(16)]


class Flatten(Readout):
    """All positions side by side, then a fully connected layer: y = relu(W vec x + b) (LeCun 1998, LeNet-5).

    The textbook ending, with most of a small CNN's weights: HWC per hidden unit. The gradient of an input is
    its row of W^T; each position has weights of its own, so the classifier sees where things are.

    The entries are in the order (H, W, C), which is the order in memory of channels_last maps and costs no
    copy there; torch.nn.Flatten's is (C, H, W).

    Args:
        channels: C of the map.
        size: (H, W) of the map, the only one accepted.
        hidden: width of the fully connected layer; 0 for flattening alone.

    Raises:
        ValueError: if hidden is negative, or a map has another size.
    """

    formula = "relu(W vec(x) + b), or vec(x) if hidden is 0"
    paper = "LeCun 1998, doi:10.1109/5.726791"
    shift = "changes: each position has its own weights"
    any_size = False
    fixed_channels = True

    def __init__(
        self, channels: int, size: tuple[int, int], *, hidden: Annotated[int, Ge(0), Le(65536)] = 128
    ):
        super().__init__()
        self.channels = channels
        self.size = (size[0], size[1])
        self.entries = channels * size[0] * size[1]
        self.out_features = hidden or self.entries
        self.layer = nn.Sequential(nn.Linear(self.entries, hidden), nn.ReLU()) if hidden else nn.Identity()

    def flops(self, height: int, width: int) -> int:
        return 0 if isinstance(self.layer, nn.Identity) else (2 * self.entries + 1) * self.out_features

    def forward(self, x: Tensor) -> Tensor:
        require_size(self, x, self.size)
        features: Tensor = self.layer(x.permute(0, 2, 3, 1).flatten(1))
        return features


class SpatialPyramidPool2d(Readout):
    """Maxima of the cells of several grids, side by side: spatial pyramid pooling (He 2014, SPP-net).

    A level of l divides the map into l x l cells and keeps each cell's maximum, so the vector encodes rough
    positions, yet has one length for every size of map. Cell i of l covers the rows floor(i H/l) to
    ceil((i + 1) H/l): cells overlap where l does not divide H. The gradient goes to each cell's maximum (the
    first among equals), added up over the levels.

    Args:
        channels: C; the vector has C entries per cell, level after level in the order given, each (C, l, l).
        size: (H, W) of the map; any other works too that is as large as the finest level.
        levels: cells along each axis, >= 1 each.

    Raises:
        ValueError: if there is no level, one is below 1, or one is finer than the map.
    """

    formula = "[max of each cell of an l x l grid, for each level l]"
    paper = "He 2014, arXiv:1406.4729"
    shift = "the 1x1 level is invariant, finer ones change when a maximum crosses into another cell"

    def __init__(self, channels: int, size: tuple[int, int], *, levels: Levels = (1, 2, 4)):
        super().__init__()
        self.levels = levels
        self.out_features = channels * sum(level**2 for level in levels)
        self.grids = nn.ModuleList(AdaptiveMaxPool2d(channels, output_size=level) for level in levels)
        self._fit(*size)

    def flops(self, height: int, width: int) -> int:
        return sum(grid.flops(height, width) for grid in self.grids if isinstance(grid, AdaptiveMaxPool2d))

    def forward(self, x: Tensor) -> Tensor:
        check_maps(self, x)
        self._fit(*x.shape[-2:])
        return torch.cat([grid(x).flatten(1) for grid in self.grids], 1)

    def extra_repr(self) -> str:
        return f"levels={self.levels}"

    def _fit(self, height: int, width: int) -> None:
        if max(self.levels) > min(height, width):
            raise ValueError(
                f"levels={self.levels} has a grid finer than the {height}x{width} map; "
                f"levels up to {min(height, width)} fit"
            )
