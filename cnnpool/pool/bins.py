"""Windows of unequal size along an axis, as the bins of adaptive pooling are.

The bin of output i of H' is [floor(i H/H'), ceil((i+1) H/H')).
"""

from typing import Any

import torch
from torch import Tensor, nn

from cnnpool.pool.base import ceil_div
from cnnpool.pool.exporting import holds
from cnnpool.pool.precision import wide


def fixed_size(module: nn.Module, kind: type[nn.Module]) -> tuple[int, int]:
    """(H', W') of an adaptive pooling of torch.

    Raises:
        TypeError: if ``module`` is not of this ``kind``.
        ValueError: if it keeps the length of an axis, or returns indices.
    """
    if not isinstance(module, kind):
        raise TypeError(f"like takes a torch.nn.{kind.__name__}, got {type(module).__name__}")
    size: Any = module.output_size
    down, across = size if isinstance(size, tuple) else (size, size)
    if down is None or across is None or getattr(module, "return_indices", False):
        raise ValueError(f"an operator here has a fixed output size and returns one map, unlike {module}")
    return down, across


def even_bins(x: Tensor, size: tuple[int, int], stride: tuple[int, int] | None) -> tuple[int, int] | None:
    """(H/H', W/W') where both are whole, in a graph numbers that are whole at every size; else None.

    ``stride`` is that of an output size H' = floor(H/stride).
    """
    (height, width), (rows, columns) = x.shape[-2:], size
    if stride is not None and holds(height % stride[0] == 0) and holds(width % stride[1] == 0):
        return stride
    if any(type(length) is not int for length in (height, width)):
        return None
    even = holds(height % rows == 0) and holds(width % columns == 0)
    return (height // rows, width // columns) if even else None


def bin_cells(height: int, width: int, rows: int, columns: int) -> int:
    """Cells in all bins of one channel, those in two bins counted twice."""

    def along(length: int, bins: int) -> int:
        return sum(ceil_div((i + 1) * length, bins) - i * length // bins for i in range(bins))

    return along(height, rows) * along(width, columns)


def largest(x: Tensor, size: tuple[int, int]) -> Tensor:
    """Maxima of the bins, in plain operations that are right for maps of any size."""
    for axis in (3, 2):
        if holds(size[axis - 2] == 1):
            x = x.amax(axis, keepdim=True)
        else:
            x = max_between(x, *_bins(x.shape[axis], size[axis - 2], x.device), axis)
    return x


def averages(x: Tensor, size: tuple[int, int]) -> Tensor:
    """Means of the bins, likewise."""
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
    """First and last pixel of each bin along an axis, (1, count), and the most pixels that one can have."""
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
