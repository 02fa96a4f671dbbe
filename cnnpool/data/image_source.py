"""Images of any size brought to one, decoded once and kept on disk, wherever they come from."""

import hashlib
import os
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import torch
from annotated_types import Ge, Gt, Le, Lt

from cnnpool.bounds import Seed
from cnnpool.data.base import Raw, Source, Split, ValSize
from cnnpool.data.cache import Stream, cached, decoded_rows
from cnnpool.data.decode import Header, Size, quiet_pillow
from cnnpool.data.errors import DataError
from cnnpool.data.images import GIB, Anew, Pictures, between, commonest_size, survey
from cnnpool.data.sampling import cut
from cnnpool.system.progress import Progress
from cnnpool.tables import printable

NAMES = {
    "train": ("train", "training"),
    "val": ("val", "valid", "validation"),
    "test": ("test", "testing"),
}
"""The usual names of each part, in small letters."""
Side = Annotated[int, Ge(1), Le(8192)]
TestSize = Annotated[float, Gt(0), Lt(1)]


@dataclass(frozen=True)
class Found:
    """All images of a data set.

    Args:
        pictures: of train, val and test, one part after another.
        counts: part -> its images, in that order; only ``train`` where test images are still to be cut.
        names: of the classes, by label; a label without a name is named by its number.
    """

    pictures: Pictures
    counts: Mapping[str, int]
    names: Sequence[str] = ()


@dataclass(frozen=True)
class Origin:
    """A data set before any image of it is read.

    Args:
        root: folder below which the images lie.
        folder: where decoded images are kept.
        key: changes when images, labels or names do.
        listed: finds all images.
        notes: what a user should know, a sentence each.
        test: what holds the test images, as a clause; empty where they are to be cut from the others.
    """

    root: Path
    folder: Path
    key: str
    listed: Callable[[], Found]
    notes: Sequence[str] = ()
    test: str = ""


@dataclass(frozen=True, kw_only=True)
class ImageSource(Source):
    """Images of any size; ``origin`` says where they come from.

    Animations give their first frame, transparency is laid over white, where line drawings stay visible, the
    camera's orientation is applied, colour profiles are not, 16 bits become 8. Of an image of another size
    the central part of that shape is resized, with antialiasing.

    Args:
        channels: 3 for colour, 1 for grey; null for grey where the first image is.
        size: H and W, or [H, W]; null for the size of most training images, up to 512.
        resize: H and W, or [H, W], that images are brought to instead of ``size``. Training takes a part of
            ``size`` anywhere in them, validation and test their centre; null for the same as ``size``.
        test_size: share of each class that is cut off for the test where there is no folder for it.
        split_seed: of that cut.
        skip_unreadable: go on without images that cannot be read, and record which; false to end.
        max_megapixels: larger images count as unreadable. Reading takes up to 4 bytes a pixel.
        stream: read each batch from disk instead of holding all images in memory; auto where they take more
            than a quarter of the memory that is free. It changes no bit.
    """

    val_size: ValSize = 0.1
    channels: Literal[1, 3] | None = None
    size: Side | tuple[Side, Side] | None = None
    resize: Side | tuple[Side, Side] | None = None
    test_size: TestSize = 0.2
    split_seed: Seed = 0
    skip_unreadable: bool = False
    max_megapixels: Annotated[int, Ge(1), Le(100_000)] = 200
    stream: Stream = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.resize is None:
            return
        if self.size is None:
            raise ValueError(f"data.resize={self.resize} needs data.size, the size of the part that is taken")
        if any(have < want for have, want in zip(_pair(self.resize), _pair(self.size), strict=True)):
            raise ValueError(f"data.resize={self.resize} must be at least data.size={self.size}")

    @property
    def part(self) -> Size | None:
        return None if self.resize is None or self.size is None else _pair(self.size)

    @abstractmethod
    def origin(self) -> Origin:
        """Where the images come from.

        Raises:
            DataError: if they are missing.
        """

    def read(self) -> Raw:
        origin = self.origin()
        channels = "auto" if self.channels is None else self.channels
        path = origin.folder / f"{channels}x{self.resize or self.size or 'own'}.images".replace(" ", "")
        raw = cached(path, origin.key, partial(self._decode, origin), self.stream)
        notes = [*origin.notes, *raw.notes]
        if raw.skipped:
            notes.append(_left_out(raw.skipped, origin, skip=self.skip_unreadable))
        if not origin.test:
            raw = self._cut(raw)
            notes.append(
                f"test images: {100 * self.test_size:g} % of each class (data.test_size), drawn by "
                f"data.split_seed={self.split_seed}"
            )
        elif unused := [
            name for name in ("test_size", "split_seed") if getattr(self, name) != getattr(ImageSource, name)
        ]:
            notes.append(
                f"no effect: {' and '.join(f'data.{name}={getattr(self, name)}' for name in unused)}, since "
                f"{origin.test}"
            )
        if not raw.in_memory:
            notes.append(_streamed(raw, path))
        return replace(raw, notes=tuple(notes))

    def _decode(self, origin: Origin, part: Path | None) -> Raw:
        """All images that can be read, in the file ``part`` where the disk has room for them; without test
        images where they are still to be cut off.
        """
        listing = origin.listed()
        pictures, ends = listing.pictures, np.cumsum([0, *listing.counts.values()]).tolist()
        with quiet_pillow():
            headers, unreadable = self._headers(pictures)
            size, why = self._size([header.size for place, header in headers.items() if place < ends[1]])
            shape = (*size, self.channels or (1 if pictures.is_grey() else 3))
            rows, others = decoded_rows(pictures, headers, shape, part=part, stream=self.stream)
        places = [place for place in headers if place not in others]
        used = np.unique(pictures.labels[pictures.labels >= 0])
        kept = torch.from_numpy(np.searchsorted(used, pictures.labels[places]))
        parts = {}
        for name, first, end in zip(listing.counts, ends, ends[1:], strict=False):
            bounds = slice(*np.searchsorted(places, (first, end)).tolist())
            parts[name] = Split(rows.take(bounds), kept[bounds])
        none = slice(0, 0)
        test = parts.get("test", Split(rows.take(none), kept[none]))
        skipped = {pictures.name(i, origin.root): why for i, why in sorted((unreadable | others).items())}
        notes = (_sizes(size, why, [headers[place].size for place in places]),) if places else ()
        return Raw(_names(listing.names, used), parts["train"], test, parts.get("val"), notes, skipped)

    def _headers(self, pictures: Pictures) -> tuple[dict[int, Header], dict[int, str]]:
        """Of all images by place, and why others cannot be used."""
        headers: dict[int, Header] = {}
        unreadable: dict[int, str] = {}
        with Progress("looking at images", len(pictures), "files") as progress:
            for place, found in enumerate(survey(pictures, self.max_megapixels)):
                progress.step()
                if isinstance(found, str):
                    unreadable[place] = found
                else:
                    headers[place] = found
        return headers, unreadable

    def _size(self, training: Sequence[Size]) -> tuple[Size, str]:
        """(H, W) to bring all images to, and why."""
        if self.resize is not None:
            return _pair(self.resize), "data.resize"
        if self.size is not None:
            return _pair(self.size), "data.size"
        return commonest_size(training) if training else ((1, 1), "")

    def _cut(self, raw: Raw) -> Raw:
        """``raw`` with its test images cut from the training images."""
        rest, test = cut(raw.train.labels, self.test_size, seed=self.split_seed)
        if not len(test):
            raise DataError(f"no class of {self.root} has the two images that a test set needs: add some")
        # The cut is a function of the labels and these, so that no pixel need be read again.
        text = f"{raw.sha256} test_size={self.test_size} split_seed={self.split_seed}"
        digest = hashlib.sha256(text.encode()).hexdigest()
        return replace(raw, train=raw.train.take(rest), test=raw.train.take(test), known_sha256=digest)


def _pair(size: int | Size) -> Size:
    return (size, size) if isinstance(size, int) else size


def _names(names: Sequence[str], used: np.ndarray) -> tuple[str, ...]:
    """The names of the labels that are used."""
    return tuple(names[label] if label < len(names) else str(label) for label in used.tolist())


def _sizes(size: Size, why: str, sizes: Sequence[Size]) -> str:
    resized = [own for own in sizes if own != tuple(size)]
    text = f"size: {size[0]}x{size[1]} ({why}); "
    if not resized:
        return f"{text}every image has it"
    count = f"{len(resized):,} of {len(sizes):,}" if len(resized) < len(sizes) else f"all {len(sizes):,}"
    text += f"{count} images are resized, {between(resized)}"
    return f"{text}, and their centre is cut out"


def _streamed(raw: Raw, path: Path) -> str:
    gib = sum(split.rows.nbytes for split in raw.splits.values()) / GIB
    if not isinstance(getattr(raw.train.rows, "store", None), Anew):
        return f"not held in memory ({gib:.2g} GiB): each batch is read from {path}"
    return f"neither memory nor disk has room for {gib:.2g} GiB: each batch is decoded from its files"


def cache_folder(root: Path) -> Path:
    """Where decoded images of the data in ``root`` are kept: there, or in the user's cache."""
    own = root / ".cnnpool-cache"
    if os.access(own if own.exists() else root, os.W_OK):
        return own
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "cnnpool" / hashlib.sha256(str(root).encode()).hexdigest()[:16]


def stamp(head: str, root: Path, paths: Iterable[str]) -> str:
    """Digest of ``head``, and of the name below ``root``, size, time of change and rights of every file."""
    digest = hashlib.sha256(head.encode())
    for path in paths:
        name = os.fsencode(path)[len(os.fsencode(root)) :]
        try:
            status = os.stat(path)
            facts = (status.st_size, status.st_mtime_ns, status.st_mode)
        except OSError as error:
            # A broken link.
            facts = (-1, error.errno or 0, 0)
        digest.update(b"%s\0%d\0%d\0%d\0" % (name, *facts))
    return digest.hexdigest()


def _left_out(skipped: Mapping[str, str], origin: Origin, *, skip: bool) -> str:
    """A note on the images that cannot be read, which a file beside the decoded ones names.

    Raises:
        DataError: if they are not to be skipped.
    """
    listed = origin.folder / "unreadable.txt"
    try:
        listed.parent.mkdir(parents=True, exist_ok=True)
        lines = [f"{printable(path)}: {why}\n" for path, why in skipped.items()]
        listed.write_text("".join(lines), encoding="utf-8")
        place = f"see {listed}"
    except OSError as error:
        place = f"their list cannot be kept in {listed.parent}: {error.strerror}"
    count = len(skipped)
    if skip:
        images = "1 image" if count == 1 else f"{count:,} images"
        return f"{images} left out, which cannot be read (data.skip_unreadable): {place}"
    path, why = next(iter(skipped.items()))
    more = f" and {count - 1:,} more ({place})" if count > 1 else ""
    them = "what cannot be read" if more else "it"
    raise DataError(
        f"cannot decode {origin.root / path} ({why}){more}: repair or remove {them}, or go on without it by "
        "data.skip_unreadable=true"
    )
