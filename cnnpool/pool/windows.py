"""Windows of a map as strided slices, one per cell: operators accumulate over them instead of unfolding."""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from cnnpool.pool.base import Pool2d, Size
from cnnpool.pool.window import Window, check_map, window_of


class WindowPool2d(Pool2d):
    """An operator that slides a window of ``channels``-channel maps; a subclass adds the mathematics."""

    def __init__(self, channels: int, kernel_size: Size, stride: Size, padding: Size, ceil_mode: bool):
        super().__init__()
        self.channels = channels
        window = window_of(kernel_size, stride, padding, ceil_mode=ceil_mode)
        self.kernel_size, self.stride, self.padding, self.ceil_mode = *window[:3], ceil_mode

    @property
    def window(self) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int], bool]:
        """Kernel size, stride, padding and ceil mode, in the order the functions take them."""
        return self.kernel_size, self.stride, self.padding, self.ceil_mode

    def window_cells(self, height: int, width: int) -> int:
        """Cells in all windows of a sample: C H' W' k k."""
        rows, columns = self.output_size(height, width)
        return self.channels * rows * columns * self.kernel_size[0] * self.kernel_size[1]

    def extra_repr(self) -> str:
        names = ("kernel_size", "stride", "padding", "ceil_mode")
        return ", ".join(f"{name}={value}" for name, value in zip(names, self.window, strict=True))


def check(x: Tensor, window: Window) -> None:
    """Refuse what cannot be pooled.

    Raises:
        ValueError: if ``x`` is no map of floating numbers, or no window fits.
    """
    _check_floating(x)
    check_map(x, window, "pooling")


def _check_floating(x: Tensor) -> None:
    if not x.is_floating_point():
        raise ValueError(f"pooling takes maps of floating numbers, got {x.dtype}")


def cells(x: Tensor, window: Window, fill: float = 0.0) -> list[Tensor]:
    """The kh*kw cells of every window in raster order, each (N, C, H', W'); ``fill`` stands outside the map.

    Views of the (padded) map: nothing is copied, and the memory format stays.

    Raises:
        ValueError: if ``x`` is no map of floating numbers, or no window fits.
    """
    check(x, window)
    rows, columns = window.output_size(*x.shape[-2:])
    (kh, kw), (sh, sw) = window.kernel, window.stride
    pads = window.pads(*x.shape[-2:])
    if any(pads):
        x = F.pad(x, pads, value=fill)
    if window.kernel == window.stride:
        # Tiles: the backward of unbind is one stack, that of kh*kw slices as many sums of whole maps.
        x = x[..., : rows * kh, : columns * kw]
        lines = x.unflatten(-2, (rows, kh)).unbind(-2)
        return [cell for line in lines for cell in line.unflatten(-1, (columns, kw)).unbind(-1)]
    last_row, last_column = sh * (rows - 1) + 1, sw * (columns - 1) + 1
    return [x[..., i : i + last_row : sh, j : j + last_column : sw] for i in range(kh) for j in range(kw)]


def inside(x: Tensor, window: Window) -> list[Tensor] | None:
    """For each cell 1 where it lies in the map, 0 where it does not, (1, H', W'); None if every cell does."""
    if not any(window.pads(*x.shape[-2:])):
        return None
    return cells(x.new_ones(1, *x.shape[-2:]), window)


def count(x: Tensor, window: Window) -> Tensor | int:
    """Number of cells of each window that lie in the map, (1, H', W') or one number for all."""
    present = inside(x, window)
    return window.cells if present is None else sum(present)


def peak(x: Tensor, window: Window) -> Tensor:
    """Largest cell of each window, NaN if one is NaN, without gradient: what stable formulas subtract."""
    return F.max_pool2d(x.detach(), *window)


def wide(x: Tensor) -> Tensor:
    """``x`` in the type sums are kept in: float32 for half precision, else its own.

    Raises:
        ValueError: if ``x`` is not of a floating dtype.
    """
    _check_floating(x)
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def largest_finite(x: Tensor) -> float:
    """What stands for infinity in ``x``, with room to subtract two of them."""
    return torch.finfo(x.dtype).max / 4


def order(parts: list[Tensor], wanted: range) -> list[Tensor]:
    """``parts`` sorted, ascending, at the places ``wanted``; each of equal numbers keeps its own gradient.

    A sorting network of selections: deterministic on every device, and it keeps one byte per comparison for
    the backward pass.
    """
    parts = list(parts)
    for low, high in _exchanges(len(parts), wanted):
        swap = parts[low] > parts[high]
        first, second = parts[low], parts[high]
        parts[low], parts[high] = torch.where(swap, second, first), torch.where(swap, first, second)
    return parts


def _exchanges(length: int, wanted: range) -> list[tuple[int, int]]:
    """Comparisons of Batcher's merge exchange (Knuth 5.2.2M) that the places ``wanted`` need."""
    needed, kept = set(wanted), []
    for low, high in reversed(list(_merge_exchange(length))):
        if low in needed or high in needed:
            needed |= {low, high}
            kept.append((low, high))
    return kept[::-1]


def comparisons(length: int, wanted: range) -> int:
    """How many comparisons ``order`` makes per window."""
    return len(_exchanges(length, wanted))


def _merge_exchange(length: int) -> Iterator[tuple[int, int]]:
    top = 1 << max((length - 1).bit_length() - 1, 0)
    step = top
    while step:
        reach, bit, distance = top, 0, step
        while distance > 0:
            yield from ((i, i + distance) for i in range(length - distance) if i & step == bit)
            distance, reach, bit = reach - step, reach >> 1, step
        step >>= 1
