"""Many image files to pixels of one size: surveyed, decoded in all cores, the unreadable ones set apart."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock

import numpy as np

from cnnpool.data.base import DataError
from cnnpool.data.decode import Header, Size, decode, is_passing, quiet_pillow, read_header, reason
from cnnpool.data.threads import in_threads
from cnnpool.system.hardware import free_memory
from cnnpool.system.progress import Progress

LARGEST = 512
"""Pixels of H and W up to which a size is chosen without being asked for: everything must fit in memory."""
BUDGET = 3 << 28
"""Bytes of the files that are decoded at the same time, before they are reduced."""
GIB = 1 << 30
MEGA = 10**6


@dataclass(frozen=True)
class Survey:
    """Image files as their headers describe them.

    Args:
        paths: all files.
        headers: of those whose header can be read and that are not too large, by place.
        unreadable: why the others cannot be used, by place.
    """

    paths: Sequence[str]
    headers: dict[int, Header] = field(default_factory=dict)
    unreadable: dict[int, str] = field(default_factory=dict)

    def refuse(self, place: int, error: Exception) -> None:
        """Note that the file at ``place`` cannot be read because of ``error``.

        Raises:
            DataError: if that is not the file's fault.
        """
        if is_passing(error):
            raise DataError(
                f"cannot read {self.paths[place]} ({reason(error)}): put that right and run again; "
                "data.max_megapixels bounds the memory that one image takes"
            ) from error
        self.unreadable[place] = reason(error)


def survey(paths: Sequence[str], max_megapixels: int, workers: int | None = None) -> Survey:
    """The headers of all ``paths``, of which larger ones than ``max_megapixels`` count as unreadable."""
    found = Survey(paths)

    def look(place: int) -> None:
        try:
            header = read_header(paths[place])
        except Exception as error:
            found.refuse(place, error)
            return
        if header.pixels > max_megapixels * MEGA:
            found.unreadable[place] = (
                f"{header.pixels / MEGA:,.0f} megapixels, more than data.max_megapixels={max_megapixels}: "
                f"shrink it, or raise that (reading it takes {header.nbytes / GIB:.1f} GiB)"
            )
        else:
            found.headers[place] = header
        progress.step()

    with quiet_pillow(), Progress("looking at images", len(paths), "files") as progress:
        in_threads(look, [0] * len(paths), workers=workers)
    return found


def commonest_size(sizes: Sequence[Size]) -> tuple[Size, str]:
    """(H, W) that most images have, and why it was chosen.

    Raises:
        ValueError: if fewer than half have one size, or it is above ``LARGEST``.
    """
    counts = Counter(sizes)
    size = max(counts, key=lambda s: (counts[s], s))
    if 2 * counts[size] < len(sizes):
        raise ValueError(
            f"the images have {len(counts):,} sizes, {between(sizes)}: choose what to bring them to, "
            "e.g. data.size=64"
        )
    if max(size) > LARGEST:
        raise ValueError(
            f"most images are {size[0]}x{size[1]}: choose what to bring them to, e.g. data.size=224"
        )
    return size, f"that of {counts[size]:,} of {len(sizes):,} training images"


def between(sizes: Sequence[Size]) -> str:
    """``from 24x24 to 29700x20990``."""
    low, high = (pick(sizes, key=lambda s: (s[0] * s[1], s)) for pick in (min, max))
    return f"{low[0]}x{low[1]}" if low == high else f"from {low[0]}x{low[1]} to {high[0]}x{high[1]}"


def decode_all(
    found: Survey, size: Size, channels: int, workers: int | None = None
) -> tuple[np.ndarray, list[int]]:
    """Decode every image that can be read; the others join the unreadable of ``found``.

    Args:
        found: the files.
        size: (H, W) of all, see ``cnnpool.data.decode.decode``.
        channels: 3 for colour, 1 for grey.
        workers: threads; None for one for each core. They change no bit.

    Returns:
        Pixels, uint8, (N, H, W, C), of those that can be read, in order, and their places.

    Raises:
        DataError: if they do not fit into the memory that is free, or a disk fails.
    """
    places = sorted(found.headers)
    _check_memory(len(places), size, channels)
    pixels = np.empty((len(places), *size, channels), np.uint8)

    areas = [found.headers[place].pixels for place in places]
    done, lock = 0, Lock()

    def take(i: int) -> None:
        nonlocal done
        try:
            pixels[i] = decode(found.paths[places[i]], size, channels)
        except Exception as error:
            # A damaged file raises nearly anything, by its format.
            found.refuse(places[i], error)
        with lock:
            done += areas[i]
            # Not images: one may take as long as thousands of others.
            progress.done = done // MEGA

    costs = [found.headers[place].nbytes for place in places]
    what, total = f"decoding {len(places):,} images", sum(areas) // MEGA
    with quiet_pillow(), Progress(what, total, "megapixels") as progress:
        in_threads(take, costs, budget=BUDGET, workers=workers)
    kept = [i for i, place in enumerate(places) if place not in found.unreadable]
    if len(kept) < len(places):
        # In place: there may be no room for all of them twice.
        for new, old in enumerate(kept):
            pixels[new] = pixels[old]
    return pixels[: len(kept)], [places[i] for i in kept]


def _check_memory(images: int, size: Size, channels: int) -> None:
    """Raise unless so many images fit into memory twice, as they lie there while a run cuts its splits."""
    needed, free = 2 * images * size[0] * size[1] * channels, free_memory()
    if free is not None and needed > free:
        raise DataError(
            f"{images:,} images of {size[0]}x{size[1]} take {needed / GIB:.1f} GiB of memory while a run "
            f"starts, and {max(free, 0) / GIB:.1f} GiB are free: lower data.size, or data.channels to 1"
        )
