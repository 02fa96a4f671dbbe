"""Many images to pixels of one size: surveyed, decoded in all cores, the unreadable ones set apart."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Lock

from cnnpool.data.decode import Header, Size, decode, is_passing, quiet_pillow, read_header, reason
from cnnpool.data.decoded import BUDGET
from cnnpool.data.errors import DataError
from cnnpool.data.pictures import Pictures
from cnnpool.data.rows import Rows, Shape
from cnnpool.data.threads import in_threads
from cnnpool.system.progress import Progress

LARGEST = 512
"""Pixels of H and W up to which a size is chosen without being asked for."""
GIB = 1 << 30
MEGA = 10**6


@dataclass(frozen=True)
class Survey:
    """Images as their headers describe them.

    Args:
        pictures: all images.
        headers: of those whose header can be read and that are not too large, by place.
        unreadable: why the others cannot be used, by place.
    """

    pictures: Pictures
    headers: dict[int, Header] = field(default_factory=dict)
    unreadable: dict[int, str] = field(default_factory=dict)

    def refuse(self, place: int, error: Exception) -> None:
        """Note that the file at ``place`` cannot be read because of ``error``.

        Raises:
            DataError: if that is not the file's fault.
        """
        if isinstance(error, DataError):
            raise error
        if is_passing(error):
            raise DataError(
                f"cannot read {self.pictures.name(place)} ({reason(error)}): fix that and run again; "
                "data.max_megapixels bounds the memory that one image takes"
            ) from error
        self.unreadable[place] = reason(error)


def survey(pictures: Pictures, max_megapixels: int, workers: int | None = None) -> Survey:
    """The headers of all ``pictures``, of which larger ones than ``max_megapixels`` count as unreadable."""
    found = Survey(pictures)

    def look(place: int) -> None:
        try:
            header = read_header(pictures.open(place))
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

    with quiet_pillow(), Progress("looking at images", len(pictures), "files") as progress:
        in_threads(look, [0] * len(pictures), workers=workers)
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
            f"the images have {len(counts):,} sizes, {between(sizes)}: choose one size for all, "
            "e.g. data.size=64"
        )
    if max(size) > LARGEST:
        raise ValueError(f"most images are {size[0]}x{size[1]}: choose one size for all, e.g. data.size=224")
    return size, f"that of {counts[size]:,} of {len(sizes):,} images before any are put aside"


def between(sizes: Sequence[Size]) -> str:
    """``from 24x24 to 29700x20990``."""
    low, high = (pick(sizes, key=lambda s: (s[0] * s[1], s)) for pick in (min, max))
    return f"{low[0]}x{low[1]}" if low == high else f"from {low[0]}x{low[1]} to {high[0]}x{high[1]}"


Begin = Callable[[Pictures, Sequence[int], Sequence[int], Shape], Rows]
"""Makes the rows that take the pixels: given all images, the numbers of those to be decoded among them, the
bytes that each takes meanwhile, and (H, W, C)."""


def decode_all(
    found: Survey, size: Size, channels: int, begin: Begin, workers: int | None = None
) -> tuple[Rows, list[int]]:
    """Decode every image that can be read; the others join the unreadable of ``found``.

    Args:
        found: the images.
        size: (H, W) of all, see ``cnnpool.data.decode.decode``.
        channels: 3 for colour, 1 for grey.
        begin: makes the rows.
        workers: threads; None for one for each core. They change no bit.

    Returns:
        The rows of those that can be read, in order, and their places.

    Raises:
        DataError: if there is no room for them, or a disk fails.
    """
    places = sorted(found.headers)
    costs = [found.headers[place].nbytes for place in places]
    rows = begin(found.pictures, places, costs, (*size, channels))
    areas = [found.headers[place].pixels for place in places]
    done, lock = 0, Lock()

    def take(i: int) -> None:
        nonlocal done
        try:
            pixels = decode(found.pictures.open(places[i]), size, channels)
        except Exception as error:
            # A damaged file raises nearly anything, by its format.
            found.refuse(places[i], error)
        else:
            rows.put(i, pixels)
        with lock:
            done += areas[i]
            # Not images: one may take as long as thousands of others.
            progress.step(done // MEGA - progress.n)

    title, total = f"decoding {len(places):,} images", sum(areas) // MEGA
    with quiet_pillow(), Progress(title, total, "megapixels") as progress:
        in_threads(take, costs, budget=BUDGET, workers=workers)
    kept = [i for i, place in enumerate(places) if place not in found.unreadable]
    return rows.keep(kept), [places[i] for i in kept]
