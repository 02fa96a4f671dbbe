"""A fixed batch for probes, collected from the batches that pass by anyway."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Unpack = Callable[[Any], tuple[Tensor, Tensor]]


def first_two(batch: Any) -> tuple[Tensor, Tensor]:
    """(images, labels): the first two items of a sequence.

    Raises:
        ValueError: if the batch is anything else.
    """
    if isinstance(batch, list | tuple) and len(batch) >= 2:
        images, labels = batch[0], batch[1]
        if isinstance(images, Tensor) and isinstance(labels, Tensor):
            return images, labels
    raise ValueError(
        f"a batch of type {type(batch).__name__} is not (images, labels): pass unpack=, a function that "
        "returns them"
    )


class BatchCollector:
    """The first ``samples`` images and labels of the batches added, kept on the CPU.

    Args:
        samples: images wanted, >= 1.
        unpack: from a batch to (images, labels).

    Raises:
        ValueError: if ``samples`` is out of range.
    """

    def __init__(self, samples: int, unpack: Unpack = first_two):
        if samples < 1:
            raise ValueError(f"samples must be at least 1, got {samples}")
        self.samples = samples
        self.unpack = unpack
        self.count = 0
        """Images kept."""
        self._parts: list[tuple[Tensor, Tensor]] = []
        self._closed = False

    def add(self, batch: Any) -> None:
        """Keep the first images of ``batch``, as many as are still missing."""
        missing = self.samples - self.count
        if missing > 0 and not self._closed:
            images, labels = self.unpack(batch)
            # A copy: loaders may reuse the memory of a batch.
            part = images[:missing].detach().cpu().clone(), labels[:missing].detach().cpu().clone()
            self._parts.append(part)
            self.count += len(part[0])

    def close(self) -> None:
        """Keep no more images if there are any: a second pass over the loader would bring them again."""
        self._closed = self.count > 0

    def batch(self) -> tuple[Tensor, Tensor]:
        """Images (N, C, H, W) and labels (N,), N at most ``samples``.

        Raises:
            ValueError: if no batch was added.
        """
        if not self._parts:
            raise ValueError("no batch has been seen yet: a probe needs a validation or training loader")
        images, labels = zip(*self._parts, strict=True)
        return torch.cat(images), torch.cat(labels)
