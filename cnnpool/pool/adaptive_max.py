"""Adaptive max pooling to a given size."""

from typing import Self

import torch.nn.functional as F
from torch import Tensor, nn

from cnnpool.pool.base import Pool2d, Size, both
from cnnpool.pool.bins import bin_cells, even_bins, fixed_size, largest
from cnnpool.pool.exporting import is_exported
from cnnpool.pool.integers import refuse_quantized
from cnnpool.pool.max import max_pool2d
from cnnpool.pool.resize import reduced


class AdaptiveMaxPool2d(Pool2d):
    """Maximum over the bin [floor(i H/H'), ceil((i+1) H/H')) of every output i (He 2014, SPP).

    Gradient: 1 to the first maximum of the bin in raster order. Equal bins are computed as plain windows,
    since torch's own backward pass of adaptive pooling has no fixed order on CUDA; uneven bins are torch's.

    Edges: every row and column belongs to a bin, at any size.

    Args:
        channels: C of the input; accepted for the common signature.
        stride: H' = floor(H/stride) without ``output_size``, >= 1, or (vertical, horizontal).
        output_size: H' = W', or (H', W'), whatever the input; null for the input over ``stride``.

    Raises:
        ValueError: if a number is below 1, or the output would be empty.

    Example:
        >>> import torch
        >>> from cnnpool.pool import AdaptiveMaxPool2d
        >>> AdaptiveMaxPool2d(3, output_size=1)(torch.rand(1, 3, 8, 8)).shape
        torch.Size([1, 3, 1, 1])
    """

    formula = "max x over rows floor(i H/H') to ceil((i+1) H/H') - 1, columns alike"
    paper = "He 2014, arXiv:1406.4729"
    shift = "commutes with shifts by multiples of H/H' where H' divides H"
    gradient = "sparse"

    def __init__(self, channels: int, *, stride: Size = 2, output_size: Size | None = None):
        super().__init__()
        self.channels = channels
        self.stride = both(stride)
        self.fixed_size = None if output_size is None else both(output_size)

    @classmethod
    def like(cls, module: nn.AdaptiveMaxPool2d, channels: int = 1) -> Self:
        """The operator with the output size of torch's ``module``; ``channels`` is C, used by ``flops`` only.

        Raises:
            TypeError: if ``module`` is not a ``torch.nn.AdaptiveMaxPool2d``.
            ValueError: if it keeps the length of an axis, or returns indices.
        """
        return cls(channels, output_size=fixed_size(module, nn.AdaptiveMaxPool2d))

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        return self.fixed_size or reduced(type(self).__name__, height, width, self.stride)

    def flops(self, height: int, width: int) -> int:
        return self.channels * bin_cells(height, width, *self.output_size(height, width))

    def forward(self, x: Tensor) -> Tensor:
        size = self.output_size(*x.shape[-2:])
        steps = even_bins(x, size, None if self.fixed_size else self.stride)
        if steps is not None:
            return max_pool2d(x, steps)
        refuse_quantized(x, "adaptive pooling to uneven bins")
        return largest(x, size) if is_exported() else F.adaptive_max_pool2d(x, size)

    def extra_repr(self) -> str:
        return f"stride={self.stride}, output_size={self.fixed_size}"
