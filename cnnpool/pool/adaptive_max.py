"""Adaptive max pooling to a given size."""

import torch.nn.functional as F
from torch import Tensor, nn

from cnnpool.pool.bins import AdaptivePool2d, largest
from cnnpool.pool.internals import is_exported
from cnnpool.pool.max import max_pool2d
from cnnpool.pool.window import refuse_quantized


class AdaptiveMaxPool2d(AdaptivePool2d):
    """Maximum over the bin [floor(i H/H'), ceil((i+1) H/H')) of every output i (He 2014, SPP).

    Gradient: 1 to the first maximum of the bin in raster order. Equal and uneven bins are computed as by
    ``AdaptiveAvgPool2d``.

    Edges: every row and column belongs to a bin, at any size.
    """

    formula = "max x over rows floor(i H/H') to ceil((i+1) H/H') - 1, columns alike"
    gradient = "sparse"
    torch_module = nn.AdaptiveMaxPool2d

    def forward(self, x: Tensor) -> Tensor:
        size, steps = self.bins(x)
        if steps is not None:
            return max_pool2d(x, steps)
        refuse_quantized(x, "adaptive pooling to uneven bins")
        return largest(x, size) if is_exported() else F.adaptive_max_pool2d(x, size)
