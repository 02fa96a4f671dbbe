"""Probe batches of large images in parts, so that memory depends on the part and not on the batch."""

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import add
from typing import TypeVar

from torch import Tensor

Mean = TypeVar("Mean", float, Tensor)
FORWARD = 1 << 20
"""Pixels that pass forward at once: 256 images of 64 pixels, 20 of 224."""
BACKWARD = 1 << 18
"""Pixels that pass at once where much is kept of each, as for the backward pass: 256 images of 32 pixels,
64 of 64, 5 of 224."""


def at_once(images: Tensor, *, kept: bool) -> int:
    """How many of ``images`` (N, C, H, W) pass at once; at least one.

    Args:
        kept: whether much is kept of each, as for the backward pass.

    Example:
        >>> import torch
        >>> from cnnpool.probe.parts import at_once
        >>> images = torch.empty(128, 3, 224, 224, device="meta")
        >>> at_once(images, kept=False), at_once(images, kept=True)
        (20, 5)
    """
    return max(1, (BACKWARD if kept else FORWARD) // (images.shape[-2] * images.shape[-1]))


def parts(images: Tensor, *others: Tensor) -> Iterable[tuple[Tensor, ...]]:
    """``images`` and what belongs to each, in parts of which much may be kept."""
    size = at_once(images, kept=True)
    return zip(*(each.split(size) for each in (images, *others)), strict=True)


def mean_over(values: Sequence[Mean], counts: Sequence[int]) -> Mean:
    """The mean over all images, from the mean over each part and its number of images.

    Example:
        >>> from cnnpool.probe.parts import mean_over
        >>> mean_over([1.0, 4.0], [2, 1])
        2.0
    """
    total = sum(counts)
    # A single part keeps its bits.
    weighted = [value * (count / total) for value, count in zip(values, counts, strict=True)]
    return reduce(add, weighted)
