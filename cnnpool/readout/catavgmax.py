"""Global average and global maximum side by side."""

import torch
from torch import Tensor

from cnnpool.readout.gmp import GlobalMaxPool2d, Ties


class GlobalCatAvgMaxPool2d(GlobalMaxPool2d):
    """Average and maximum over all positions, concatenated: y = [mean x, max x] (Howard & Gugger 2020).

    Twice as many features as channels; the classifier weighs the two. The gradient is dense by the average
    and larger at the maximum.

    Args:
        channels: C; the vector has 2C entries, averages first (timm's order; fastai has maxima first).
        ties: which of equal maxima gets the gradient: first in raster order, or split evenly.
    """

    formula = "[mean x_i, max x_i]"
    paper = "Howard & Gugger 2020, arXiv:2002.04688"
    shift = "invariant"

    def __init__(self, channels: int, size: tuple[int, int], *, ties: Ties = "first"):
        super().__init__(channels, size, ties=ties)
        self.out_features = 2 * channels

    def flops(self, height: int, width: int) -> int:
        return self.channels * (2 * height * width - 1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x.mean((2, 3)), super().forward(x)], 1)
