"""Decode many images to one size: survey and decode on all cores, and separate unreadable ones."""

import math
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from cnnpool.data.decode import (
    Header,
    Picture,
    Size,
    decode,
    is_passing,
    largest,
    read_header,
    reason,
    white_of,
)
from cnnpool.data.errors import DataError
from cnnpool.data.rows import CHUNK, Shape, sums_of
from cnnpool.data.threads import Budget, in_threads
from cnnpool.system.load import usable
from cnnpool.system.progress import Progress

LARGEST = 512  # Largest H and W of an automatically chosen size, in pixels
GIB = 1 << 30
AHEAD = 256  # Most images read in advance

Made = TypeVar("Made")
Known = Callable[[int], tuple[np.ndarray, np.ndarray] | None]
"""Pixels and sums of the image at an index, if they are known already."""
_budget = Budget(3 << 28)  # Bytes of the files decoded at the same time, before they are reduced


class Pictures:
    """The images of all parts of a data set, one part after another.

    ``items`` is a data set of (image, label), read by several threads at once; ``counts`` has the number of
    images of train, val and test. A label without a class is named by its number. Labels ``used``
    belong to classes of the data set, whether or not an image here has them.
    """

    def __init__(
        self,
        items: Any,
        counts: Mapping[str, int],
        classes: Sequence[str] = (),
        title: str = "",
        used: Sequence[int] = (),
    ):
        self.items, self.counts, self.classes, self.title = items, counts, classes, title
        self.used = np.array(used, np.int64)
        self.labels = np.full(len(items), -1, np.int64)  # -1 for an image that has not been opened yet

    def open(self, place: int) -> Picture:
        """Open the image at ``place`` and store its label. May raise any exception."""
        picture: Picture
        picture, label = self.items[place]
        if label is None or int(label) < 0:
            raise DataError(f"{self.name(place)} has no label")
        self.labels[place] = int(label)
        return picture

    def name(self, place: int, root: Path | None = None) -> str:
        """The path of the image, relative to ``root`` if given, or its number."""
        name = None
        with suppress(Exception):
            # Called to report that the image cannot be read.
            name = self.items[place][0]
        if not isinstance(name, str):
            return f"image {place} of {self.title}"
        return os.path.relpath(name, root) if root and os.path.isabs(name) else name

    def attempt(self, place: int, work: Callable[[Picture], Made]) -> Made | str:
        """``work`` on the image at ``place``, or why that fails; a DataError if the file is not the cause."""
        try:
            return work(self.open(place))
        except DataError:
            raise
        except Exception as error:
            # A damaged file may raise any exception, depending on its format.
            if is_passing(error):
                raise DataError(
                    f"cannot read {self.name(place)} ({reason(error)}): fix that and run again; "
                    "data.max_megapixels bounds the memory that one image takes"
                ) from error
            return reason(error)


def survey(pictures: Pictures, max_megapixels: int) -> tuple[dict[int, Header], dict[int, str]]:
    """The header of each image by index, and why others, including too large ones, cannot be used."""

    def look(place: int) -> Header | str:
        header = pictures.attempt(place, read_header)
        if isinstance(header, str) or (megapixels := math.prod(header.size) / 1e6) <= max_megapixels:
            return header
        return (
            f"{megapixels:,.0f} megapixels, more than data.max_megapixels={max_megapixels}: "
            f"shrink it, or raise that (reading it takes {header.nbytes / GIB:.1f} GiB)"
        )

    headers: dict[int, Header] = {}
    unreadable: dict[int, str] = {}
    count = len(pictures.items)
    with Progress("looking at images", count, "files") as progress:
        for place, found in enumerate(in_threads(look, range(count), ahead=AHEAD)):
            progress.step()
            if isinstance(found, str):
                unreadable[place] = found
            else:
                headers[place] = found
    return headers, unreadable


def white_of_all(pictures: Pictures, headers: Mapping[int, Header]) -> tuple[int | None, str]:
    """The white of all grey images of more than 8 bits, and a note on it; None and "" if there are none.

    It is that of the bits that the files state, or of the largest value of all.
    """
    deep = {place: header for place, header in headers.items() if header.deep}
    if not deep:
        return None, ""

    def look(place: int) -> int | str:
        # As an array it is copied twice.
        with _budget.taken(3 * headers[place].nbytes):
            return pictures.attempt(place, largest)

    unstated = [place for place, header in deep.items() if header.bits is None]
    with Progress("looking for the whitest pixel", len(unstated), "images") as progress:
        most = 0
        for found in in_threads(look, unstated, ahead=AHEAD):
            progress.step()
            # One that cannot be read is reported when it is decoded.
            most = max(most, found if isinstance(found, int) else 0)
    stated = max((1 << header.bits) - 1 if header.bits else 0 for header in deep.values())
    limit = max(stated, white_of(most) if unstated else 0)
    why = f"their largest value is {most:,}" if unstated else "as the files state"
    count = f"{len(deep):,} grey images of more than 8 bits"
    return limit, f"white: {limit:,} ({limit.bit_length()} bits) in {count}; {why}"


def decoded(
    pictures: Pictures,
    headers: Mapping[int, Header],
    shape: Shape,
    white: int | None = None,
    known: Known | None = None,
) -> Iterator[tuple[np.ndarray, np.ndarray] | str]:
    """Pixels, (H, W, C), and sums of each image in ``headers``, or why it cannot be read, in that order.

    Those that ``known`` gives are not decoded.
    """

    def pixels_and_sums(picture: Picture) -> tuple[np.ndarray, np.ndarray]:
        pixels = decode(picture, shape[:2], shape[2], white)
        return pixels, sums_of(pixels)

    def work(place: int) -> tuple[np.ndarray, np.ndarray] | str:
        if known and (found := known(place)):
            return found
        with _budget.taken(headers[place].nbytes):
            return pictures.attempt(place, pixels_and_sums)

    ahead = max(len(usable()), min(AHEAD, CHUNK // (shape[0] * shape[1] * shape[2])))
    return in_threads(work, headers, ahead=ahead)


def commonest_size(sizes: Sequence[Size]) -> tuple[Size, str]:
    """(H, W) of at least half of the images, up to ``LARGEST``, and why it was chosen; else a ValueError."""
    counts = Counter(sizes)
    size = max(counts, key=lambda s: (counts[s], s))
    if 2 * counts[size] < len(sizes):
        raise ValueError(
            f"the images have {len(counts):,} sizes, {between(sizes)}: choose one size for all, "
            "e.g. data.size=64"
        )
    if max(size) > LARGEST:
        raise ValueError(f"most images are {size[0]}x{size[1]}: choose one size for all, e.g. data.size=224")
    return size, f"that of {counts[size]:,} of {len(sizes):,} images before any are put aside"


def between(sizes: Sequence[Size]) -> str:
    low, high = (pick(sizes, key=lambda s: (s[0] * s[1], s)) for pick in (min, max))
    return f"{low[0]}x{low[1]}" if low == high else f"from {low[0]}x{low[1]} to {high[0]}x{high[1]}"
