"""Shifts of whole batches, and the named protocols by which papers draw them."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor


def shift(images: Tensor, down: Tensor | int, right: Tensor | int, *, circular: bool = True) -> Tensor:
    """Each image moved by its own whole number of pixels.

    Args:
        images: (N, C, H, W).
        down, right: pixels, one number or one per image (N,); negative moves up or left.
        circular: what leaves on one side enters on the other; else zeros enter.
    """
    n, _, height, width = images.shape
    rows, row_inside = _source(down, n, height, images.device)
    columns, column_inside = _source(right, n, width, images.device)
    sample = torch.arange(n, device=images.device)[:, None, None]
    moved = images.permute(0, 2, 3, 1)[sample, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
    if circular:
        return moved
    inside = row_inside[:, None, :, None] & column_inside[:, None, None, :]
    return torch.where(inside, moved, moved.new_zeros(()))


def _source(amount: Tensor | int, n: int, length: int, device: torch.device) -> tuple[Tensor, Tensor]:
    amount = torch.as_tensor(amount, device=device).expand(n)
    source = torch.arange(length, device=device) - amount[:, None]
    return source % length, (source >= 0) & (source < length)


@dataclass(frozen=True)
class Protocol:
    """How a pair of shifted views of an image is drawn.

    Both views are shifted, each by a vertical and a horizontal number of pixels from ``low`` to ``high``
    (both included), uniformly; null bounds mean every position of the map.

    Args:
        low, high: pixels; null: 0 and the map's size less one.
        quarter: the bounds are -H/4 and H/4 instead.
        circular: circular shifts, else zeros enter.
        per_image: each image draws its own pair, else a batch shares one.
        distinct: the two views of a pair are never shifted alike.
        batch: images that share a pair where ``per_image`` is false.
        source: where the protocol comes from.
    """

    low: int | None
    high: int | None
    source: str
    quarter: bool = False
    circular: bool = True
    per_image: bool = False
    distinct: bool = False
    batch: int = 256

    def bounds(self, length: int) -> tuple[int, int]:
        """(lowest, highest) shift in pixels along an axis of ``length`` pixels."""
        if self.quarter:
            return -(length // 4), length // 4
        return (0, length - 1) if self.low is None else (self.low, self.high)

    def draw(self, n: int, size: tuple[int, int], generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Shifts of the first and second views, each (N, 2): down, right."""
        (top, bottom), (left, right) = (self.bounds(length) for length in size)
        columns = right - left + 1
        positions = (bottom - top + 1) * columns
        pairs = n if self.per_image else -(-n // self.batch)
        first = torch.randint(positions, (pairs,), generator=generator)
        if self.distinct:
            second = (first + torch.randint(1, positions, (pairs,), generator=generator)) % positions
        else:
            second = torch.randint(positions, (pairs,), generator=generator)
        if not self.per_image:
            first, second = (p.repeat_interleave(self.batch)[:n] for p in (first, second))
        return tuple(torch.stack((p // columns + top, p % columns + left), 1) for p in (first, second))


PROTOCOLS: dict[str, Protocol] = {
    "distinct": Protocol(
        -3, 3, "cnnpool: +-3 pixels, a distinct pair per image", per_image=True, distinct=True
    ),
    "aps_cifar": Protocol(-3, 2, "Chaman 2021, CIFAR: -3..2 pixels, one pair per batch of 256"),
    "zhang_cifar": Protocol(None, None, "Zhang 2019, CIFAR: every position, one pair per batch", batch=100),
    "tips": Protocol(None, None, "Saha 2024: +-H/4 pixels, one pair per batch", quarter=True),
}

PresetName = Literal["distinct", "aps_cifar", "zhang_cifar", "tips"]
