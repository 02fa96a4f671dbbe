"""Rows that are decoded anew from the images each time, where no disk has room for their pixels."""

import warnings
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from cnnpool.data.decode import decode, reason
from cnnpool.data.draft import Draft
from cnnpool.data.errors import DataError
from cnnpool.data.pictures import Pictures, state_of
from cnnpool.data.pillow_limits import unlimited_pillow
from cnnpool.data.rows import Placed, Rows, Shape, sums_of
from cnnpool.data.threads import in_threads

BUDGET = 3 << 28
"""Bytes of the files that are decoded at the same time, before they are reduced."""


class Decoded(Placed):
    """Rows decoded in all cores when they are read; the number of cores changes no bit.

    Args:
        files: of all images, their memory while they are decoded, and their state when they were first read.
        shape, places, row_sums: as of ``Placed``, a place being the number among ``files``.
    """

    def __init__(self, files: "Files", shape: Shape, places: Tensor, row_sums: Tensor):
        super().__init__(shape, places, row_sums)
        self.files = files
        # In another thread than the main one, a filter cannot be set for a while only.
        warnings.filterwarnings("ignore", module=r"PIL\.")

    def read(self, index: Tensor) -> Tensor:
        places = self.places[index].tolist()
        pixels = np.empty((len(places), *self.shape), np.uint8)

        def take(i: int) -> None:
            pixels[i] = self.files.decode(places[i], self.shape)

        with unlimited_pillow():
            in_threads(take, [self.files.costs[place] for place in places], budget=BUDGET)
        return torch.from_numpy(pixels)


class Files:
    """Images as they were when they were first read.

    Args:
        pictures: of the whole data set.
        places: of the images among ``pictures``.
        costs: bytes of memory that each takes while it is decoded.
    """

    def __init__(self, pictures: Pictures, places: Sequence[int], costs: Sequence[int]):
        self.pictures, self.places, self.costs = pictures, places, costs
        self.states = np.zeros((len(places), 2), np.int64)

    def note(self, i: int) -> None:
        """Remember the state of the image number ``i``."""
        self.states[i] = state_of(self.pictures.open(self.places[i]))

    def decode(self, i: int, shape: Shape) -> np.ndarray:
        """The pixels, (H, W, C), of the image number ``i``.

        Raises:
            DataError: if it was changed since its state was noted, or cannot be read.
        """
        place = self.places[i]
        try:
            picture = self.pictures.open(place)
            changed = state_of(picture) != tuple(self.states[i])
            pixels = decode(picture, shape[:2], shape[2])
        except Exception as error:
            # A damaged file raises nearly anything, by its format.
            raise DataError(
                f"cannot read {self.pictures.name(place)} any more ({reason(error)}): run again"
            ) from error
        if changed:
            raise DataError(f"{self.pictures.name(place)} was changed while it was in use: run again")
        return pixels


class DecodedDraft(Draft):
    """Keeps of each image only what statistics need; its rows are decoded anew.

    Args:
        files: of the images.
        shape: (H, W, C) of each.
    """

    def __init__(self, files: Files, shape: Shape):
        super().__init__(len(files.places), shape)
        self.files = files
        self.row_sums = np.zeros((self.count, 2, shape[2]), np.int64)

    def put(self, place: int, pixels: np.ndarray) -> None:
        self.files.note(place)
        self.row_sums[place] = sums_of(pixels)

    def rows(self, kept: Sequence[int]) -> Rows:
        places = torch.tensor(list(kept), dtype=torch.int64)
        return Decoded(self.files, self.shape, places, torch.from_numpy(self.row_sums)[places])
