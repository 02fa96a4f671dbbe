"""Pixels of a split as rows, read by index from memory or from a file."""

import math
import os
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cnnpool.data.errors import DataError

Shape = tuple[int, int, int]  # (H, W, C) of every image
CHUNK = 1 << 24  # Bytes read at once when all rows are read in order


class Rows(ABC):
    """Images as rows of uint8 pixels, (H, W, C) each."""

    shape: Shape
    in_memory: bool = False

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def read(self, index: Tensor) -> Tensor:
        """The rows at ``index``, (B,) of int64, as a fresh tensor (B, H, W, C)."""

    @abstractmethod
    def take(self, index: Tensor | slice) -> "Rows":
        """The rows at ``index``, (N,), as a new ``Rows``; a slice in memory is a view."""

    @abstractmethod
    def sums(self) -> Tensor:
        """Exact sums over all pixels of the values and of their squares, by channel: (2, C) of float64."""

    @abstractmethod
    def keys(self) -> list[bytes]:
        """A key per row: equal for equal images, and rarely for different ones."""

    @property
    def nbytes(self) -> int:
        return len(self) * math.prod(self.shape)

    def chunks(self) -> Iterator[Tensor]:
        """All rows in order, about ``CHUNK`` bytes at a time: (B, H, W, C) each."""
        at_once = max(1, CHUNK // math.prod(self.shape))
        return map(self.read, torch.arange(len(self)).split(at_once))

    def whole(self) -> Tensor:
        pixels = torch.empty((len(self), *self.shape), dtype=torch.uint8)
        done = 0
        for chunk in self.chunks():
            pixels[done : done + len(chunk)] = chunk
            done += len(chunk)
        return pixels


class InMemory(Rows):
    in_memory = True

    def __init__(self, pixels: Tensor):
        self.pixels = pixels
        height, width, channels = pixels.shape[1:]
        self.shape = (height, width, channels)

    def __len__(self) -> int:
        return len(self.pixels)

    def read(self, index: Tensor) -> Tensor:
        return self.pixels.index_select(0, index)

    def take(self, index: Tensor | slice) -> "InMemory":
        return InMemory(self.pixels[index] if isinstance(index, slice) else self.read(index))

    def sums(self) -> Tensor:
        counts = torch.zeros(self.shape[2], 256, dtype=torch.int64)
        for chunk in self.chunks():
            for channel, count in enumerate(counts):
                count += torch.bincount(chunk[..., channel].reshape(-1), minlength=256)
        value = torch.arange(256)
        return torch.stack([(counts * value).sum(1), (counts * value.square()).sum(1)]).double()

    def keys(self) -> list[bytes]:
        # 11 divides no usual width, so the bytes come from different columns.
        return [key.tobytes() for key in self.pixels.flatten(1)[:, ::11].numpy()]

    def whole(self) -> Tensor:
        return self.pixels


class Stored(Rows):
    """Rows of a file, given by their indices there, (N,), and the terms of ``sums``, (N, 2, C) of int64."""

    def __init__(self, file: "File", shape: Shape, places: Tensor, row_sums: Tensor):
        self.file, self.shape, self.places, self.row_sums = file, shape, places, row_sums

    def __len__(self) -> int:
        return len(self.places)

    def read(self, index: Tensor) -> Tensor:
        return torch.from_numpy(self.file.read(self.places[index].numpy(), self.shape))

    def take(self, index: Tensor | slice) -> "Stored":
        return Stored(self.file, self.shape, self.places[index], self.row_sums[index])

    def sums(self) -> Tensor:
        return self.row_sums.sum(0).double()

    def keys(self) -> list[bytes]:
        return [key.tobytes() for key in self.row_sums.numpy()]


class File:
    """Rows one after another in a file, read by position from any thread; closed when unreferenced.

    Not memory-mapped: mapped pages count as memory of the process, and a file truncated by another program
    would kill it.
    """

    def __init__(self, path: Path):
        self.path = path
        self.descriptor = os.open(path, os.O_RDONLY)
        weakref.finalize(self, os.close, self.descriptor)

    def __reduce__(self) -> tuple[Any, ...]:
        return _opened_again, (self.path, self._identity())

    def _identity(self) -> tuple[int, int]:
        status = os.fstat(self.descriptor)
        return status.st_ino, status.st_size

    def read(self, places: np.ndarray, shape: Shape) -> np.ndarray:
        """The rows at ``places``, (B,), as (B, H, W, C) of uint8; a DataError if they are gone."""
        pixels = np.empty((len(places), *shape), np.uint8)
        # Read neighbours in the file together.
        cuts = (np.flatnonzero(np.diff(places) != 1) + 1).tolist()
        for begin, end in zip([0, *cuts], [*cuts, len(places)], strict=True) if len(places) else ():
            self._fill(pixels[begin:end].reshape(-1).data, int(places[begin]) * int(np.prod(shape)))
        return pixels

    def _fill(self, view: memoryview, position: int) -> None:
        done = 0
        while done < len(view):
            try:
                count = os.preadv(self.descriptor, [view[done:]], position + done)
            except OSError as error:
                raise DataError(f"cannot read {self.path} ({error.strerror}): run again") from error
            if not count:
                raise DataError(f"{self.path} ended too early: it was changed by another program; run again")
            done += count


def _opened_again(path: Path, identity: tuple[int, int]) -> File:
    """The file in another process; a DataError if it has been replaced."""
    file = File(path)
    if file._identity() != identity:
        raise DataError(f"{path} was changed by another program: run again")
    return file


def sums_of(pixels: np.ndarray) -> np.ndarray:
    """(2, C) of int64: sum of the values and of their squares in each channel of an image (H, W, C)."""
    # Over rows first: a sum that leaves 3 channels does not vectorise. Images have at most 8,192 rows.
    rows = pixels.reshape(len(pixels), -1).astype(np.uint32)
    sums = np.stack((rows.sum(0, dtype=np.uint32), np.einsum("ij,ij->j", rows, rows)))
    return np.asarray(sums.reshape(2, -1, pixels.shape[2]).sum(1, dtype=np.int64))


def digests(rows: Rows, places: Sequence[int]) -> list[bytes]:
    """Digests of the pixels of the rows at ``places``; no other row is read."""
    chosen = rows.take(torch.tensor(places, dtype=torch.int64))
    return [blake2b(row).digest() for chunk in chosen.chunks() for row in chunk.numpy()]


def copies(rows: Rows, others: Rows) -> int:
    """Number of ``rows`` that equal one of ``others`` bit for bit; only rows with equal keys are read."""
    keys, known = rows.keys(), others.keys()
    common = set(keys) & set(known)
    found, there = (
        digests(each, [place for place, key in enumerate(own) if key in common])
        for each, own in ((rows, keys), (others, known))
    )
    originals = set(there)
    return sum(digest in originals for digest in found)
