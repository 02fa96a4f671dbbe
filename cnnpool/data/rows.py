"""Pixels of a split as rows that are read by their number, from memory or from a file."""

import os
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from copy import copy
from hashlib import blake2b
from pathlib import Path
from typing import Self

import numpy as np
import torch
from torch import Tensor

from cnnpool.data.errors import DataError

Shape = tuple[int, int, int]
"""(H, W, C) of every image."""
CHUNK = 1 << 24
"""Bytes that are read at once when all rows are needed, one after another."""


class Rows(ABC):
    """Images as rows of uint8 pixels, (H, W, C) each.

    They are filled by ``put``, in any order and from several threads, and closed by ``keep``.

    Args:
        shape: (H, W, C) of a row.
        in_memory: whether they are held in memory, so that any of them is at hand at once.
    """

    shape: Shape
    in_memory: bool = False

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def read(self, index: Tensor) -> Tensor:
        """The rows at ``index``, (B,) of int64, as a fresh tensor (B, H, W, C).

        Raises:
            DataError: if they cannot be read any more.
        """

    @abstractmethod
    def take(self, index: Tensor) -> "Rows":
        """The rows at ``index``, (N,), as rows of their own."""

    def part(self, begin: int, end: int) -> "Rows":
        """The rows from ``begin`` up to ``end``; of rows in memory a view."""
        return self.take(torch.arange(begin, end))

    @abstractmethod
    def sums(self) -> Tensor:
        """Exact sums over all pixels of the values, and of their squares, by channel: (2, C) of float64."""

    @abstractmethod
    def keys(self) -> Tensor:
        """(N, K), a row each: equal where the images are, and of different images seldom."""

    @abstractmethod
    def put(self, place: int, pixels: np.ndarray) -> None:
        """Take the pixels, (H, W, C), of the row at ``place``."""

    @abstractmethod
    def keep(self, kept: Sequence[int]) -> "Rows":
        """The rows at ``kept``, in increasing order, after the last ``put``; the others are given up."""

    @property
    def nbytes(self) -> int:
        """Memory that all rows would take."""
        height, width, channels = self.shape
        return len(self) * height * width * channels

    def chunks(self) -> Iterator[Tensor]:
        """All rows in order, some at a time: (B, H, W, C) each."""
        height, width, channels = self.shape
        step = max(1, CHUNK // max(1, height * width * channels))
        for begin in range(0, len(self), step):
            yield self.read(torch.arange(begin, min(begin + step, len(self))))

    def whole(self) -> Tensor:
        """All rows in memory, (N, H, W, C)."""
        pixels = torch.empty((len(self), *self.shape), dtype=torch.uint8)
        done = 0
        for chunk in self.chunks():
            pixels[done : done + len(chunk)] = chunk
            done += len(chunk)
        return pixels


class InMemory(Rows):
    """Rows of a tensor (N, H, W, C) of uint8."""

    in_memory = True

    def __init__(self, pixels: Tensor):
        self.pixels = pixels
        height, width, channels = pixels.shape[1:]
        self.shape = (height, width, channels)

    def __len__(self) -> int:
        return len(self.pixels)

    def read(self, index: Tensor) -> Tensor:
        return self.pixels.index_select(0, index)

    def take(self, index: Tensor) -> "InMemory":
        return InMemory(self.read(index))

    def part(self, begin: int, end: int) -> "InMemory":
        return InMemory(self.pixels[begin:end])

    def sums(self) -> Tensor:
        counts = torch.zeros(self.shape[2], 256, dtype=torch.int64)
        for chunk in self.chunks():
            for channel, count in enumerate(counts):
                count += torch.bincount(chunk[..., channel].reshape(-1), minlength=256)
        value = torch.arange(256)
        return torch.stack([(counts * value).sum(1), (counts * value.square()).sum(1)]).double()

    def keys(self) -> Tensor:
        # 11 divides no usual width, so that the bytes are not all of the same columns.
        return self.pixels.flatten(1)[:, ::11]

    def put(self, place: int, pixels: np.ndarray) -> None:
        self.pixels.numpy()[place] = pixels

    def keep(self, kept: Sequence[int]) -> "InMemory":
        # In place: there may be no room for all of them twice.
        for new, old in enumerate(kept):
            if new != old:
                self.pixels[new] = self.pixels[old]
        return InMemory(self.pixels[: len(kept)])

    def chunks(self) -> Iterator[Tensor]:
        height, width, channels = self.shape
        return iter(self.pixels.split(max(1, CHUNK // max(1, height * width * channels))))

    def whole(self) -> Tensor:
        return self.pixels


class File:
    """A file read and written by position, from any thread; closed when nobody holds it any more."""

    def __init__(self, path: Path, flags: int = os.O_RDONLY):
        self.path = path
        self.descriptor = os.open(path, flags, 0o666)
        weakref.finalize(self, os.close, self.descriptor)

    def read_into(self, target: np.ndarray, position: int) -> None:
        """Fill ``target``, contiguous uint8, with the bytes from ``position`` on.

        Raises:
            DataError: if the file is shorter, or the disk fails.
        """
        view, done = target.reshape(-1).data, 0
        while done < len(view):
            try:
                count = os.preadv(self.descriptor, [view[done:]], position + done)
            except OSError as error:
                raise DataError(f"cannot read {self.path} ({error.strerror}): run again") from error
            if not count:
                raise DataError(f"{self.path} ended too early: it was changed by another program; run again")
            done += count

    def write(self, content: np.ndarray, position: int) -> None:
        """Write ``content``, uint8, from ``position`` on.

        Raises:
            DataError: if the disk is full or fails.
        """
        view, done = np.ascontiguousarray(content).reshape(-1).data, 0
        while done < len(view):
            try:
                done += os.pwrite(self.descriptor, view[done:], position + done)
            except OSError as error:
                raise DataError(
                    f"cannot write {self.path} ({error.strerror}): make room there, or keep the images "
                    "elsewhere by XDG_CACHE_HOME"
                ) from error


class Placed(Rows):
    """Rows that are read from where they lie, with the sums of each at hand.

    Args:
        shape: (H, W, C) of a row.
        places: of each row where they lie, (N,) of int64.
        row_sums: of each row what ``sums`` adds up, (N, 2, C) of int64.
    """

    def __init__(self, shape: Shape, places: Tensor, row_sums: Tensor):
        self.shape, self.places, self.row_sums = shape, places, row_sums

    def __len__(self) -> int:
        return len(self.places)

    def take(self, index: Tensor) -> Self:
        taken = copy(self)
        taken.places, taken.row_sums = self.places[index], self.row_sums[index]
        return taken

    def sums(self) -> Tensor:
        return self.row_sums.sum(0).double()

    def keys(self) -> Tensor:
        return self.row_sums.flatten(1)

    def put(self, place: int, pixels: np.ndarray) -> None:
        self.row_sums[place] = torch.from_numpy(sums_of(pixels))

    def keep(self, kept: Sequence[int]) -> Self:
        return self.take(torch.tensor(list(kept), dtype=torch.int64))


class OnDisk(Placed):
    """Rows that lie in a file, each at its place times the size of a row.

    Read by position and not mapped: mapped pages count as memory of the process, and a file that another
    program cuts short would kill it.

    Args:
        file: that holds them.
        shape, places, row_sums: as of ``Placed``, a place being the row's number in the file.
    """

    def __init__(self, file: File, shape: Shape, places: Tensor, row_sums: Tensor):
        super().__init__(shape, places, row_sums)
        self.file, self.size = file, int(np.prod(shape))

    @classmethod
    def new(cls, path: Path, count: int, shape: Shape) -> Self:
        """``count`` rows to be filled, in a file made or emptied, whose room is reserved at once.

        Raises:
            OSError: if the file cannot be made, or there is no room.
        """
        file = File(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        rows = cls(file, shape, torch.arange(count), torch.zeros((count, 2, shape[2]), dtype=torch.int64))
        if hasattr(os, "posix_fallocate") and rows.nbytes:
            os.posix_fallocate(file.descriptor, 0, rows.nbytes)
        return rows

    def put(self, place: int, pixels: np.ndarray) -> None:
        super().put(place, pixels)
        self.file.write(pixels, place * self.size)

    def read(self, index: Tensor) -> Tensor:
        places = self.places[index].numpy()
        pixels = np.empty((len(places), *self.shape), np.uint8)
        # Neighbours in the file at one go.
        cuts = np.flatnonzero(np.diff(places) != 1) + 1
        for begin, end in zip([0, *cuts], [*cuts, len(places)], strict=True):
            if end > begin:
                self.file.read_into(pixels[begin:end], int(places[begin]) * self.size)
        return torch.from_numpy(pixels)


def sums_of(pixels: np.ndarray) -> np.ndarray:
    """(2, C) of int64: sum of the values and of their squares in each channel of an image (H, W, C)."""
    # Over rows first: a sum that leaves 3 channels does not vectorise. Images are at most 8,192 rows high.
    rows = pixels.reshape(len(pixels), -1).astype(np.uint32)
    sums = np.stack((rows.sum(0, dtype=np.uint32), np.einsum("ij,ij->j", rows, rows)))
    return np.asarray(sums.reshape(2, -1, pixels.shape[2]).sum(1, dtype=np.int64))


def copies(rows: Rows, others: Rows) -> int:
    """How many of ``rows`` are also among ``others``, to the last bit; both in memory, or neither.

    Of those whose keys are not found among the others no pixel is read.
    """
    keys = [[key.tobytes() for key in each.keys().contiguous().numpy()] for each in (rows, others)]
    common = set(keys[0]) & set(keys[1])
    found = []
    for each, own in zip((rows, others), keys, strict=True):
        alike = each.take(torch.tensor([i for i, key in enumerate(own) if key in common], dtype=torch.int64))
        found.append([blake2b(row).digest() for chunk in alike.chunks() for row in chunk.numpy()])
    known = set(found[1])
    return sum(digest in known for digest in found[0])
