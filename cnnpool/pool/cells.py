"""Views of a map, one for each cell of a window, and a sorting network to put the cells in order."""

from collections.abc import Iterable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from cnnpool.pool.internals import is_exported
from cnnpool.pool.window import Window


def cells(x: Tensor, window: Window, fill: float | bool = 0.0) -> list[Tensor]:
    """Views of every window's cells in raster order, each (N, C, H', W'); ``fill`` stands outside the map."""
    rows, columns = window.output_size(*x.shape[-2:])
    pads = window.pads(*x.shape[-2:])
    if any(pads):
        x = F.pad(x, pads, value=fill)
    if window.kernel == window.stride and window.dilation == (1, 1) and not is_exported():
        # For tiles the backward of unbind is one stack, that of kh*kw slices as many sums of whole maps.
        kh, kw = window.kernel
        lines = x[..., : rows * kh, : columns * kw].unflatten(-2, (rows, kh)).unbind(-2)
        return [cell for line in lines for cell in line.unflatten(-1, (columns, kw)).unbind(-1)]
    return list(cell_views(x, window, rows, columns))


def cell_views(padded: Tensor, window: Window, down: int, across: int) -> Iterator[Tensor]:
    """Views of each cell of an already padded map, which may be written to."""
    (sh, sw), (dh, dw) = window.stride, window.dilation
    for row in range(window.kernel[0]):
        for column in range(window.kernel[1]):
            rows = slice(row * dh, row * dh + (down - 1) * sh + 1, sh)
            columns = slice(column * dw, column * dw + (across - 1) * sw + 1, sw)
            yield padded[..., rows, columns]


def inside(x: Tensor, window: Window) -> list[Tensor] | None:
    """For each cell 1 where it lies in the map, 0 where it does not, (1, H', W'); None if every cell does."""
    if not any(window.pads(*x.shape[-2:])):
        return None
    return cells(x.new_ones(1, *x.shape[-2:]), window)


def count(x: Tensor, window: Window) -> Tensor | int:
    """Number of cells of each window that lie in the map, (1, H', W') or one number for all."""
    present = inside(x, window)
    return window.cells if present is None else sum(present)


def added(parts: Iterable[Tensor]) -> Tensor:
    """The sum of one or more tensors, added in order."""
    # Python's sum starts from 0: -0 becomes 0 even in a sum of one tensor.
    return sum(parts)  # type: ignore[return-value]


def per_cell(weight: Tensor, parts: list[Tensor]) -> tuple[Tensor, ...]:
    """``weight``, (C or 1, cells), as a factor for each of ``parts``, in their type."""
    if weight.dim() != 2 or weight.shape[1] != len(parts):
        raise ValueError(f"weight must be (C or 1, {len(parts)}), got {tuple(weight.shape)}")
    return weight.to(parts[0].dtype)[:, :, None, None].unbind(1)


def weighted_sum(parts: list[Tensor], weight: Tensor) -> Tensor:
    """sum w_i x_i, added in order, by a ``weight`` of (C or 1, cells)."""
    return added(part * tap for part, tap in zip(parts, per_cell(weight, parts), strict=True))


def weighted_mean(parts: list[Tensor], weights: list[Tensor]) -> Tensor:
    """sum w_i x_i / sum w_i, added in order."""
    weighted = added(part * weight for part, weight in zip(parts, weights, strict=True))
    return weighted / added(weights)


def peak(x: Tensor, window: Window) -> Tensor:
    """Largest cell of each window, NaN if one is NaN, without gradient; stable formulas subtract it."""
    return F.max_pool2d(x.detach(), *window)


def power_of_2(size: Tensor) -> Tensor:
    """The power of 2 that brings ``size`` between 1/2 and 1, as far as the exponent's range allows."""
    if is_exported():
        # Other runtimes have no frexp; a factor of 2 more or less makes no difference.
        return (-size.log2().floor() - 1).clamp(-126, 126).exp2()
    _, exponent = torch.frexp(size)
    return torch.ldexp(torch.ones_like(size), -exponent.clamp(-126, 126))


def order(parts: list[Tensor], wanted: range) -> list[Tensor]:
    """``parts`` sorted in ascending order, at the places ``wanted``, by a network of selections: equal
    numbers keep their own gradients, and backward is deterministic and needs one byte per comparison.
    """
    parts = list(parts)
    for low, high in _exchanges(len(parts), wanted):
        swap = parts[low] > parts[high]
        first, second = parts[low], parts[high]
        parts[low], parts[high] = torch.where(swap, second, first), torch.where(swap, first, second)
    return parts


def comparisons(length: int, wanted: range) -> int:
    """Number of comparisons per window in ``order``."""
    return len(_exchanges(length, wanted))


def _exchanges(length: int, wanted: range) -> list[tuple[int, int]]:
    """Comparisons of Batcher's merge exchange (Knuth 5.2.2M) that the places ``wanted`` need."""
    needed, kept = set(wanted), []
    for low, high in reversed(list(_merge_exchange(length))):
        if low in needed or high in needed:
            needed |= {low, high}
            kept.append((low, high))
    return kept[::-1]


def _merge_exchange(length: int) -> Iterator[tuple[int, int]]:
    top = 1 << max((length - 1).bit_length() - 1, 0)
    step = top
    while step:
        reach, bit, distance = top, 0, step
        while distance > 0:
            yield from ((i, i + distance) for i in range(length - distance) if i & step == bit)
            distance, reach, bit = reach - step, reach >> 1, step
        step >>= 1
