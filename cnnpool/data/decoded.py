"""Rows that are decoded anew from the images each time, where no disk has room for their pixels."""

import os
import warnings
from collections.abc import Sequence

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from cnnpool.data.decode import Picture, decode, reason
from cnnpool.data.errors import DataError
from cnnpool.data.pictures import Pictures
from cnnpool.data.rows import Placed, Shape
from cnnpool.data.threads import in_threads

BUDGET = 3 << 28
"""Bytes of the files that are decoded at the same time, before they are reduced."""


class Decoded(Placed):
    """Rows decoded in all cores when they are read; the number of cores changes no bit.

    Args:
        pictures: of the whole data set.
        numbers: of the rows' images among them.
        costs: bytes of memory that each takes while it is decoded.
        shape: (H, W, C) of a row.
    """

    def __init__(self, pictures: Pictures, numbers: Sequence[int], costs: Sequence[int], shape: Shape):
        count = len(numbers)
        super().__init__(shape, torch.arange(count), torch.zeros((count, 2, shape[2]), dtype=torch.int64))
        self.pictures, self.numbers, self.costs = pictures, numbers, costs
        self.states = np.zeros((count, 2), np.int64)
        # For good: batches are read in other threads, where neither can be set for a while only.
        Image.MAX_IMAGE_PIXELS = None
        warnings.filterwarnings("ignore", module=r"PIL\.")

    def put(self, place: int, pixels: np.ndarray) -> None:
        super().put(place, pixels)
        self.states[place] = _state(self.pictures.open(self.numbers[place]))

    def read(self, index: Tensor) -> Tensor:
        places = self.places[index].tolist()
        pixels = np.empty((len(places), *self.shape), np.uint8)

        def take(i: int) -> None:
            pixels[i] = self._decode(places[i])

        in_threads(take, [self.costs[place] for place in places], budget=BUDGET)
        return torch.from_numpy(pixels)

    def _decode(self, place: int) -> np.ndarray:
        """Raises DataError if the image was changed since it was put, or cannot be read."""
        number = self.numbers[place]
        try:
            picture = self.pictures.open(number)
            changed = _state(picture) != tuple(self.states[place])
            pixels = decode(picture, self.shape[:2], self.shape[2])
        except Exception as error:
            # A damaged file raises nearly anything, by its format.
            raise DataError(
                f"cannot read {self.pictures.name(number)} any more ({reason(error)}): run again"
            ) from error
        if changed:
            raise DataError(f"{self.pictures.name(number)} was changed while it was in use: run again")
        return pixels


def _state(picture: Picture) -> tuple[int, int]:
    """Size and time of change of an image's file; zeros for an image without one."""
    if not isinstance(picture, str):
        return 0, 0
    status = os.stat(picture)
    return status.st_size, status.st_mtime_ns
