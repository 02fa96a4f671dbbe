"""Decoded images on their way to memory or to a file."""

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from cnnpool.data.errors import DataError
from cnnpool.data.rows import File, InMemory, OnDisk, Rows, Shape, sums_of


class Draft(ABC):
    """Takes the pixels of images in any order, from several threads.

    Args:
        count: images, of which some may turn out unreadable.
        shape: (H, W, C) of each.
    """

    def __init__(self, count: int, shape: Shape):
        self.count, self.shape = count, shape

    @abstractmethod
    def put(self, place: int, pixels: np.ndarray) -> None:
        """Take the pixels, (H, W, C), of the image at ``place``."""

    @abstractmethod
    def rows(self, kept: Sequence[int]) -> Rows:
        """The images at ``kept``, in increasing order; nothing is put any more."""


class MemoryDraft(Draft):
    """Into one array."""

    def __init__(self, count: int, shape: Shape):
        super().__init__(count, shape)
        self.pixels = np.empty((count, *shape), np.uint8)

    def put(self, place: int, pixels: np.ndarray) -> None:
        self.pixels[place] = pixels

    def rows(self, kept: Sequence[int]) -> Rows:
        if len(kept) < self.count:
            # In place: there may be no room for all of them twice.
            for new, old in enumerate(kept):
                self.pixels[new] = self.pixels[old]
        return InMemory(torch.from_numpy(self.pixels[: len(kept)]))


class FileDraft(Draft):
    """Into a file, whose room is reserved at once; the file belongs to who named it.

    Args:
        path: made, or emptied.

    Raises:
        OSError: if it cannot be made, or there is no room.
    """

    def __init__(self, path: Path, count: int, shape: Shape):
        super().__init__(count, shape)
        self.size = int(np.prod(shape))
        self.row_sums = np.zeros((count, 2, shape[2]), np.int64)
        self.file = File(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        if hasattr(os, "posix_fallocate") and count:
            os.posix_fallocate(self.file.descriptor, 0, count * self.size)

    def put(self, place: int, pixels: np.ndarray) -> None:
        self.row_sums[place] = sums_of(pixels)
        self._write(place, np.ascontiguousarray(pixels))

    def _write(self, place: int, pixels: np.ndarray) -> None:
        view, done = pixels.reshape(-1).data, 0
        while done < len(view):
            try:
                done += os.pwrite(self.file.descriptor, view[done:], place * self.size + done)
            except OSError as error:
                raise DataError(
                    f"cannot write {self.file.path} ({error.strerror}): make room there, or keep the images "
                    "elsewhere by XDG_CACHE_HOME"
                ) from error

    def rows(self, kept: Sequence[int]) -> Rows:
        if len(kept) < self.count:
            pixels = np.empty(self.shape, np.uint8)
            for new, old in enumerate(kept):
                if new != old:
                    self.file.read_into(pixels, old * self.size)
                    self._write(new, pixels)
        os.ftruncate(self.file.descriptor, len(kept) * self.size)
        return OnDisk(
            self.file, self.shape, torch.arange(len(kept)), torch.from_numpy(self.row_sums[list(kept)])
        )
