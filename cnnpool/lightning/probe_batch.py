"""A fixed batch for probes, collected from the training's own batches, in the form that probes take."""

import re
from collections.abc import Callable, Sequence
from types import CellType
from typing import Any
from zlib import crc32

import torch
from torch import Tensor

from cnnpool.probe.base import classes_of, described

Unpack = Callable[[Any], tuple[Tensor, Tensor]]
# Of an object in memory, and where a function is written in a file.
_ADDRESS = re.compile(r" at 0x[0-9a-f]+(, file .*?, line \d+)?")
EMPTY = CellType()  # Of a variable that a function will be given later
UNPACK = "pass unpack=, a function from a batch to (images, labels)"


def first_two(batch: Any) -> tuple[Tensor, Tensor]:
    """(images, labels): the first two items of a sequence; ValueError for anything else."""
    if isinstance(batch, list | tuple) and len(batch) >= 2:
        return batch[0], batch[1]
    raise ValueError(f"a batch of type {type(batch).__name__} is not (images, labels): {UNPACK}")


def measurable(images: Any, labels: Any) -> tuple[Tensor, Tensor]:
    """``images`` (N, C, H, W) unchanged, and ``labels`` (N,) as int64; ValueError for anything else."""
    if not (isinstance(images, Tensor) and images.ndim == 4 and images.is_floating_point()):
        raise ValueError(
            f"images must be a floating-point tensor (N, C, H, W), got {described(images)}: {UNPACK}"
        )
    labels = classes_of(images, labels, (1,), f": {UNPACK}")
    if len(labels) and labels.min() < 0:
        raise ValueError(f"labels must be class indices >= 0, got {int(labels.min())}: {UNPACK}")
    return images, labels


def mixed(labels: Any) -> bool:
    """Whether ``labels`` are shares of classes (N, K), as from mixup and CutMix."""
    return (
        isinstance(labels, Tensor) and labels.is_floating_point() and labels.ndim == 2 and labels.shape[1] > 1
    )


def fingerprint(argument: Any) -> str:
    """Text that tells ``argument`` from others, the same in every process: functions by their code and what
    they hold, tensors by their numbers.
    """
    if isinstance(argument, Tensor):
        numbers = argument.detach().cpu().contiguous().flatten().view(torch.uint8).numpy()
        return f"({described(argument)} {crc32(numbers.tobytes()):08x})"
    if isinstance(argument, Sequence) and not isinstance(argument, str):
        return f"({''.join(map(fingerprint, argument))})"
    if (code := getattr(argument, "__code__", None)) is not None:
        held = [cell.cell_contents for cell in argument.__closure__ or () if cell != EMPTY]
        text = repr((code.co_code, code.co_names, code.co_consts, argument.__defaults__, held))
        return f"({argument.__module__}.{argument.__qualname__} {crc32(_ADDRESS.sub('', text).encode()):08x})"
    return f"({_ADDRESS.sub('', repr(argument))})"


class BatchCollector:
    """The first ``samples`` images and labels of the batches added, by ``unpack``, kept on the CPU."""

    def __init__(self, samples: int, unpack: Unpack = first_two):
        if samples < 1:
            raise ValueError(f"samples must be at least 1, got {samples}")
        self.samples = samples
        self.unpack = unpack
        self._parts: list[tuple[Tensor, Tensor]] = []
        self._closed = False

    @property
    def count(self) -> int:
        """Number of collected images."""
        return sum(len(images) for images, _ in self._parts)

    def add(self, batch: Any) -> None:
        """Collect the first images of ``batch``, as many as are missing; they must be ``measurable``."""
        missing = self.samples - self.count
        if missing > 0 and not self._closed:
            images, labels = (part[:missing].detach().cpu() for part in measurable(*self.unpack(batch)))
            # A copy: loaders may reuse the memory of a batch.
            self._parts.append((images.clone(), labels.clone()))

    def close(self) -> None:
        """Stop collecting if there are images: a second pass over the loader would repeat them."""
        self._closed = self.count > 0

    def batch(self) -> tuple[Tensor, Tensor]:
        """Images (N, C, H, W) and labels (N,), N at most ``samples`` and at least 1."""
        images, labels = zip(*self._parts, strict=True)
        return torch.cat(images), torch.cat(labels)

    def state_dict(self) -> dict[str, Any]:
        """The collected images and labels, and whether more may follow."""
        return {"batch": self.batch() if self.count else None, "closed": self._closed}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from ``state_dict``."""
        self._parts = [state["batch"]] if state["batch"] else []
        self._closed = state["closed"]
