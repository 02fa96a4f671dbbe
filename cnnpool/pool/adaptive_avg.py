"""Adaptive average pooling to a given size."""

import torch.nn.functional as F
from torch import Tensor, nn

from cnnpool.pool.avg import avg_pool2d
from cnnpool.pool.bins import AdaptivePool2d, averages
from cnnpool.pool.internals import is_exported


class AdaptiveAvgPool2d(AdaptivePool2d):
    """Average over the bin [floor(i H/H'), ceil((i+1) H/H')) of every output i (He 2014, SPP).

    Gradient: 1 over the bin's size to every cell of it; where H' does not divide H, neighbouring bins overlap
    by a row and cells there get more. Equal bins are computed as plain windows, since torch's own backward
    pass of adaptive pooling has no fixed order on CUDA; uneven bins are torch's.

    Edges: every row and column belongs to a bin, at any size.
    """

    formula = "mean x over rows floor(i H/H') to ceil((i+1) H/H') - 1, columns alike"
    gradient = "dense"
    torch_module = nn.AdaptiveAvgPool2d

    def forward(self, x: Tensor) -> Tensor:
        size, steps = self.bins(x)
        if steps is not None:
            return avg_pool2d(x, steps)
        return averages(x, size) if is_exported() else F.adaptive_avg_pool2d(x, size)
