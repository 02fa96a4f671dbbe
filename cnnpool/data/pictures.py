"""Images with their labels by number, as a data set hands them out."""

import os
from pathlib import Path
from typing import Protocol

import numpy as np

from cnnpool.data.decode import Picture, opened
from cnnpool.data.errors import DataError

GREY = ("1", "L", "LA", "I", "I;16")


class Items(Protocol):
    """A data set of (image, label), as ``torch.utils.data.Dataset`` describes it."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> tuple[Picture, int]: ...


class Pictures:
    """The images of all parts of a data set, one part after another.

    Args:
        items: images with their labels, read from several threads at once.
        title: of the data set, in messages on images without a path.

    Attributes:
        labels: int64, (N,); -1 for an image that was not opened yet.
    """

    def __init__(self, items: Items, title: str = ""):
        self.items, self.title = items, title
        self.labels = np.full(len(items), -1, np.int64)

    def __len__(self) -> int:
        return len(self.items)

    def open(self, place: int) -> Picture:
        """The image at ``place``; its label is noted.

        Raises:
            Exception: nearly any, by the data set.
        """
        picture, label = self.items[place]
        if label is None or int(label) < 0:
            raise DataError(f"{self._named(place, picture)} has no label")
        self.labels[place] = int(label)
        return picture

    def name(self, place: int) -> str:
        """The path of the image, or its number."""
        try:
            return self._named(place, self.items[place][0])
        except Exception:
            # It is asked for to say that the image cannot be read.
            return self._named(place, b"")

    def name_below(self, root: Path, place: int) -> str:
        """The path of the image seen from ``root``, or its number."""
        name = self.name(place)
        return os.path.relpath(name, root) if os.path.isabs(name) else name

    def is_grey(self) -> bool:
        """Whether the first image is grey."""
        try:
            with opened(self.open(0)) as image:
                return image.mode in GREY
        except Exception:
            # It will be named with all others that cannot be read.
            return False

    def _named(self, place: int, picture: Picture) -> str:
        return picture if isinstance(picture, str) else f"image {place} of {self.title}"
