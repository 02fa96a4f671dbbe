"""Adaptive pooling: the bin of output i of H' is [floor(i H/H'), ceil((i+1) H/H')); and resizing."""

from typing import Any, Literal, Unpack

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cnnpool.pool.avg import avg_pool2d
from cnnpool.pool.base import LikeTorch, Place, Size, WholeCellPool2d, both
from cnnpool.pool.internals import holds, is_exported
from cnnpool.pool.max import max_pool2d
from cnnpool.pool.window import ceil_div, check_real, refuse_quantized, wide


class AdaptivePool2d(LikeTorch, WholeCellPool2d):
    """An operator whose windows are bins, one per output; a subclass adds the mathematics.

    Args:
        stride: H' = floor(H/stride) without ``output_size``, >= 1, or (vertical, horizontal).
        output_size: H' = W', or (H', W'), whatever the input; null for the input over ``stride``.
    """

    paper = "He 2014, arXiv:1406.4729"
    shift = "equivariant to shifts by multiples of H/H' where H' divides H"

    def __init__(
        self, channels: int, *, stride: Size = 2, output_size: Size | None = None, **place: Unpack[Place]
    ):
        super().__init__(channels, stride=stride, **place)
        self.fixed_size = None if output_size is None else both(output_size)

    @classmethod
    def options_like(cls, module: nn.Module) -> dict[str, Any]:
        options = super().options_like(module)
        size = options["output_size"]
        if None in (size if isinstance(size, tuple) else (size,)):
            raise ValueError(f"an operator here has a fixed output size, unlike {module}")
        return options

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        return self.fixed_size or super().output_size(height, width)

    def flops(self, height: int, width: int) -> int:
        """Cells in all bins, those in two bins counted twice."""

        def along(length: int, bins: int) -> int:
            return sum(ceil_div((i + 1) * length, bins) - i * length // bins for i in range(bins))

        rows, columns = self.output_size(height, width)
        return self.channels * along(height, rows) * along(width, columns)

    def bins(self, x: Tensor) -> tuple[tuple[int, int], tuple[int, int] | None]:
        """(H', W') and, if bins are equal at every size that a graph serves, (H/H', W/W'), else None."""
        check_real(x, type(self).__name__)
        (height, width), stride = x.shape[-2:], self.stride
        size = rows, columns = self.output_size(height, width)
        if self.fixed_size is None and holds(height % stride[0] == 0) and holds(width % stride[1] == 0):
            return size, stride
        if any(type(length) is not int for length in (height, width)):
            return size, None
        even = holds(height % rows == 0) and holds(width % columns == 0)
        return size, (height // rows, width // columns) if even else None

    def extra_repr(self) -> str:
        return f"stride={self.stride}, output_size={self.fixed_size}"


def largest(x: Tensor, size: tuple[int, int]) -> Tensor:
    """Maxima of the bins, in plain operations that are right for maps of any size."""
    for axis in (3, 2):
        if holds(size[axis - 2] == 1):
            x = x.amax(axis, keepdim=True)
        else:
            x = max_between(x, *_bins(x.shape[axis], size[axis - 2], x.device), axis)
    return x


def averages(x: Tensor, size: tuple[int, int]) -> Tensor:
    """Means of the bins, in plain operations that are right for maps of any size."""
    y = wide(x)
    for axis in (3, 2):
        if holds(size[axis - 2] == 1):
            y = y.mean(axis, keepdim=True)
            continue
        start, last, reach = _bins(x.shape[axis], size[axis - 2], x.device)
        cells = (last - start)[0, :, None]
        filled, cells = torch.arange(reach, device=x.device) <= cells, (cells + 1).to(y.dtype)
        if axis == 2:
            filled, cells = filled[..., None], cells[..., None]
        y = (torch.where(filled, _between(y, start, last, reach, axis), 0) / cells).sum(axis + 1)
    return y.to(x.dtype)


def _bins(length: int, count: int, device: torch.device) -> tuple[Tensor, Tensor, int]:
    """First and last pixel of each bin along an axis, (1, count), and the largest size of a bin."""
    bins = torch.arange(count, device=device)[None]
    pixels, whole = torch.full_like(bins, length), torch.full_like(bins, count)
    last = ((bins + 1) * pixels - 1) // whole
    return bins * pixels // whole, last, ceil_div(length, count) + 1


def max_between(x: Tensor, start: Tensor, last: Tensor, reach: int, axis: int) -> Tensor:
    """Maxima along ``axis`` of the windows from ``start`` to ``last``, (samples or 1, windows)."""
    return _between(x, start, last, reach, axis).max(axis + 1).values


def _between(x: Tensor, start: Tensor, last: Tensor, reach: int, axis: int) -> Tensor:
    """``reach`` pixels of each window side by side in a new axis, after ``axis``."""
    # A shorter window repeats its last pixel, which changes neither the maximum nor which comes first.
    places = torch.minimum(start[..., None] + torch.arange(reach, device=x.device), last[..., None])
    samples, count = places.shape[:2]
    places = places.reshape([samples if i == 0 else count * reach if i == axis else 1 for i in range(4)])
    shape = [count * reach if i == axis else n for i, n in enumerate(x.shape)]
    windows: Tensor = x.gather(axis, places.expand(shape)).unflatten(axis, (count, reach))
    return windows


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


class Resize2d(WholeCellPool2d):
    """Resample the map with a kernel widened by the stride, as PIL does: a low-pass filter and a subsampling.

    y = sum_i w_i x_i with a triangle of half-width s (bilinear) or a cubic of half-width 2 s (bicubic, with
    negative weights) around the output's centre, divided by the weights that lie inside the map.
    ``torch.nn.functional.interpolate(antialias=True)`` does the work; without ``antialias`` the kernel keeps
    the width of one pixel, which at stride 2 is the 2 x 2 average (bilinear) and aliases at larger strides.

    Gradient: w_i, uneven for odd sizes only. On CUDA torch adds it up in no fixed order.

    Edges: H' = floor(H/s), and the scale is then H/H', so no row is dropped.

    Args:
        stride: H is divided by it, >= 1, or (vertical, horizontal).
        mode: bilinear or bicubic.
        antialias: widen the kernel.
    """

    formula = "sum_i w_i x_i, w a triangle of half-width s, normalised inside the map"
    paper = "Turkowski 1990, Filters for Common Resampling Tasks (Graphics Gems)"
    shift = "equivariant to shifts by multiples of the stride; aliases less than the average"
    gradient = "dense"

    def __init__(
        self,
        channels: int,
        *,
        stride: Size = 2,
        mode: Literal["bilinear", "bicubic"] = "bilinear",
        antialias: bool = True,
        **place: Unpack[Place],
    ):
        super().__init__(channels, stride=stride, **place)
        self.mode, self.antialias = mode, antialias

    def flops(self, height: int, width: int) -> int:
        rows, columns = self.output_size(height, width)
        half = {"bilinear": 1, "bicubic": 2}[self.mode]
        down, across = (2 * half * (s if self.antialias else 1) for s in self.stride)
        return 2 * self.channels * (columns * height * across + rows * columns * down)

    def forward(self, x: Tensor) -> Tensor:
        size = self.check_batch(x)
        # torch's antialiased kernel has no half precision, and in torch 2.15 on CPU it treats a map as
        # channels_last and mixes its rows if the output is one column wide: such a map is transposed.
        turned = size[1] == 1
        exact, size = (wide(x).mT, size[::-1]) if turned else (wide(x), size)
        out = F.interpolate(exact, size, mode=self.mode, antialias=self.antialias)
        return (out.mT if turned else out).to(x.dtype)
