"""A sorting network: the cells of a window in order, without a sort."""

from collections.abc import Iterator

import torch
from torch import Tensor


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


def comparisons(length: int, wanted: range) -> int:
    """How many comparisons ``order`` makes per window."""
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
