"""Images of any size and source, resized to one size, decoded once and cached on disk."""

import hashlib
import os
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal
from unicodedata import normalize

import numpy as np
import torch
from annotated_types import Ge, Gt, Le, Lt

from cnnpool.bounds import Seed
from cnnpool.data.base import Raw, Source, Split
from cnnpool.data.cache import STAMP, Stream, cached, decoded_rows, unchanged
from cnnpool.data.decode import MEGAPIXELS, Size, quiet_pillow
from cnnpool.data.draws import cut, stratified
from cnnpool.data.errors import DataError
from cnnpool.data.images import GIB, Pictures, between, commonest_size, survey, white_of_all
from cnnpool.data.rows import Rows, digests
from cnnpool.system.process import cache_of
from cnnpool.tables import printable

NAMES = {
    "train": ("train", "training"),
    "val": ("val", "valid", "validation"),
    "test": ("test", "testing"),
}
"""The usual names of each part, in lower case."""
Side = Annotated[int, Ge(1), Le(8192)]
UNREADABLE = "unreadable.txt"
composed = partial(normalize, "NFC")
"""A class's name to compare: macOS stores accents separately, other systems do not."""
TestSize = Annotated[float, Gt(0), Lt(1)]


@dataclass(frozen=True)
class Origin:
    """A data set before any image is read: the ``folder`` for decoded images, and notes.

    ``key`` changes when images, labels or names change; ``has_test`` is false where a test must be cut.
    ``stamps`` of the images, if known, tell which of them have changed.
    """

    folder: Path
    key: str
    listed: Callable[[], Pictures]
    has_test: bool
    notes: Sequence[str]
    stamps: Sequence[bytes] = ()


@dataclass(frozen=True, kw_only=True)
class ImageSource(Source):
    """Images of any size; ``origin`` locates them, and docs/images.md says how they are read.

    Args:
        channels: 3 for colour, 1 for grey; null for grey if the first image that can be read is grey.
        size: H and W, or [H, W]; null for the size of most training images, up to 512.
        resize: H and W, or [H, W], to which images are resized instead of ``size``. Training crops a random
            part of ``size``, validation and test the central one; null for the same as ``size``.
        test_size: share of each class that is held out for the test if it has no folder.
        split_seed: seed of that split.
        skip_unreadable: skip images that cannot be read, and record them; false to stop.
        max_megapixels: larger images count as unreadable. Reading takes 4 to 16 bytes per pixel.
        stream: read each batch from disk instead of holding all images in memory; auto if they take more
            than a quarter of the free memory. Results are bit-identical.
    """

    channels: Literal[1, 3] | None = None
    size: Side | tuple[Side, Side] | None = None
    resize: Side | tuple[Side, Side] | None = None
    test_size: TestSize = 0.2
    split_seed: Seed = 0
    skip_unreadable: bool = False
    max_megapixels: Annotated[int, Ge(1), Le(100_000)] = MEGAPIXELS
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
    def folder(self) -> Path:
        """The folder of the data."""
        return Path(self.root).expanduser().absolute()

    @property
    def cache(self) -> Path:
        """The folder for decoded images: in that of the data, or in the user's cache."""
        own = self.folder / ".cnnpool-cache"
        return own if os.access(own if own.exists() else self.folder, os.W_OK) else cache_of(self.folder)

    @property
    def part(self) -> Size | None:
        return None if self.resize is None or self.size is None else _pair(self.size)

    @abstractmethod
    def origin(self) -> Origin:
        """Locate the images; a DataError if they are missing."""

    def kept(self, origin: Origin, white: int | None = None) -> Path:
        """The file of the decoded images, if ``white`` is given with that white."""
        channels = "auto" if self.channels is None else self.channels
        size, suffix = self.resize or self.size or "own", f"-white{white}" if white else ""
        return origin.folder / f"{channels}x{size}{suffix}.images".replace(" ", "")

    def read(self, samples: int | None = None, size: Size | None = None, white: int | None = None) -> Raw:
        """All images, or where files are listed by class ``samples`` of the training and of the test images.

        They are those that a stratified choice from all would take, and nothing else is decoded. A model's
        ``size``, unless there is one here, and ``white`` replace those found from the images.
        """
        if size and self.size is None:
            return replace(self, size=size).read(samples, white=white)
        origin = self.origin()
        path = self.kept(origin, white)
        if samples is not None and (few := self._few(origin, samples)):
            origin, raw = few, self._decode(few, None, white=white)
        else:
            make = partial(self._decode, origin, earlier=path, white=white)
            raw = cached(path, origin.key, make, self.stream)
        notes = [*origin.notes, *raw.notes]
        if raw.skipped:
            notes.append(self._left_out(raw.skipped, origin.folder / UNREADABLE))
        elif samples is None:
            with suppress(OSError):
                (origin.folder / UNREADABLE).unlink()
        if not origin.has_test:
            raw = self._cut(raw)
            notes.append(
                f"test images: {100 * self.test_size:g} % of each class (data.test_size), drawn by "
                f"data.split_seed={self.split_seed}"
            )
        if not raw.in_memory:
            gib = sum(split.rows.nbytes for split in raw.splits.values()) / GIB
            notes.append(f"not held in memory ({gib:.2g} GiB): each batch is read from {path}")
        return replace(raw, notes=tuple(notes))

    def _few(self, origin: Origin, samples: int) -> Origin | None:
        """``origin`` with ``samples`` images a part; None where the labels, or the cut, need all images."""
        pictures = origin.listed()
        if not isinstance(pictures.items, list) or (self.skip_unreadable and not origin.has_test):
            return None
        labels = torch.tensor([label for _, label in pictures.items])
        if origin.has_test:
            parts = torch.arange(len(labels)).split(list(pictures.counts.values()))
            named = dict(zip(pictures.counts, parts, strict=True))
        else:
            rest, test = cut(labels, self.test_size, seed=self.split_seed)
            named = {"train": rest, "test": test}
        kept = {
            part: places[stratified(labels[places], seed=0)[:samples]].sort().values.tolist()
            for part, places in named.items()
            if part != "val"
        }
        items = [pictures.items[place] for places in kept.values() for place in places]
        counts = {part: len(places) for part, places in kept.items()}
        chosen = Pictures(items, counts, pictures.classes, used=labels.unique().tolist())
        note = (
            f"{len(items):,} of {len(labels):,} images are decoded, those of training for mean and deviation"
        )
        return replace(origin, listed=lambda: chosen, has_test=True, notes=[*origin.notes, note], stamps=())

    def _decode(
        self, origin: Origin, part: Path | None, earlier: Path | None = None, white: int | None = None
    ) -> Raw:
        """All readable images, with pixels in ``part``; no test images if they are yet to be cut.

        Those that the cache ``earlier`` holds are taken from it.
        """
        pictures = origin.listed()
        ends = np.cumsum([0, *pictures.counts.values()]).tolist()
        with quiet_pillow():
            headers, unreadable = survey(pictures, self.max_megapixels)
            size, why = self._size([header.size for place, header in headers.items() if place < ends[1]])
            is_grey = next((header.grey for header in headers.values()), False)
            shape = (*size, self.channels or (1 if is_grey else 3))
            if white is None:
                white, whiteness = white_of_all(pictures, headers)
            else:
                whiteness = f"white: {white:,} in grey images of more than 8 bits, as in the training"
            known = unchanged(earlier, origin.stamps, shape, white) if earlier and origin.stamps else None
            rows, others = decoded_rows(pictures, headers, shape, part, white, known)
        places = [place for place in headers if place not in others]
        used = np.union1d(pictures.labels[pictures.labels >= 0], pictures.used)
        labels = torch.from_numpy(np.searchsorted(used, pictures.labels[places]))
        parts: dict[str, Any] = {"test": Split(rows.take(slice(0)), labels[:0])}
        for name, first, end in zip(pictures.counts, ends, ends[1:], strict=False):
            bounds = slice(*np.searchsorted(places, (first, end)).tolist())
            parts[name] = Split(rows.take(bounds), labels[bounds])
        names = pictures.classes
        classes = tuple(names[label] if label < len(names) else str(label) for label in used.tolist())
        notes = [_sizes(size, why, [headers[place].size for place in places])] if places else []
        notes += [text for text in (whiteness, _in_two_classes(pictures, self.folder, rows, places)) if text]
        skipped = {pictures.name(i, self.folder): why for i, why in sorted((unreadable | others).items())}
        stamps = b"".join(origin.stamps[place] for place in places) if origin.stamps else b""
        return Raw(classes, **parts, notes=tuple(notes), skipped=skipped, white=white, stamps=stamps)

    def _size(self, training: Sequence[Size]) -> tuple[Size, str]:
        """(H, W) to which all images are resized, and the reason."""
        if self.resize is not None:
            return _pair(self.resize), "data.resize"
        if self.size is not None:
            return _pair(self.size), "data.size"
        return commonest_size(training) if training else ((1, 1), "")

    def _cut(self, raw: Raw) -> Raw:
        rest, test = cut(raw.train.labels, self.test_size, seed=self.split_seed)
        if not len(test):
            raise DataError(f"no class of {self.root} has the two images that a test set needs: add some")
        # The cut depends only on the labels and these options, so no pixel is read again.
        text = f"{raw.sha256} test_size={self.test_size} split_seed={self.split_seed}"
        digest = hashlib.sha256(text.encode()).hexdigest()
        return replace(raw, train=raw.train.take(rest), test=raw.train.take(test), known_sha256=digest)

    def _left_out(self, skipped: Mapping[str, str], listed: Path) -> str:
        """A note on unreadable images, ``listed`` in a file; a DataError unless they are to be skipped."""
        try:
            listed.parent.mkdir(parents=True, exist_ok=True)
            lines = [f"{printable(path)}: {why}\n" for path, why in skipped.items()]
            listed.write_text("".join(lines), encoding="utf-8")
            place = f"see {listed}"
        except OSError as error:
            place = f"their list cannot be kept in {listed.parent}: {error.strerror}"
        if self.skip_unreadable:
            return f"left out as unreadable: {len(skipped):,} of the images, {place}"
        path, why = next(iter(skipped.items()))
        more = f" and {len(skipped) - 1:,} more ({place})" if len(skipped) > 1 else ""
        raise DataError(
            f"cannot decode {self.folder / path} ({why}){more}: repair or remove what cannot be read, or go "
            "on without it by data.skip_unreadable=true"
        )


def _pair(size: int | Size) -> Size:
    return (size, size) if isinstance(size, int) else size


def _sizes(size: Size, why: str, sizes: Sequence[Size]) -> str:
    """A note on the size, and on how many images of these ``sizes`` are resized."""
    text, resized = f"size: {size[0]}x{size[1]} ({why}); ", [own for own in sizes if own != tuple(size)]
    if not resized:
        return f"{text}every image has it"
    count = f"{len(resized):,} of {len(sizes):,}"
    return f"{text}{count} images are resized, {between(resized)}, and cropped to their centre"


def _in_two_classes(pictures: Pictures, root: Path, rows: Rows, places: Sequence[int]) -> str:
    """A note on equal pixels with different classes, which names the first two; empty if there are none."""
    keys, labels = rows.keys(), pictures.labels[places]
    classes = Counter(key for key, _ in set(zip(keys, labels.tolist(), strict=True)))
    alike = [row for row, key in enumerate(keys) if classes[key] > 1]
    first: dict[bytes, int] = {}
    pairs = []
    for row, digest in zip(alike, digests(rows, alike), strict=True):
        other = first.setdefault(digest, row)
        pairs += [(other, row)] if labels[other] != labels[row] else []
    if not pairs:
        return ""
    names = " and ".join(printable(pictures.name(places[row], root)) for row in pairs[0])
    more = f", and {len(pairs) - 1:,} more such pairs" if len(pairs) > 1 else ""
    return f"the same picture in two classes: {names}{more}; remove one of them"


def plain(name: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in name)


def stamp(head: str, stamps: Iterable[bytes]) -> str:
    """Digest of ``head`` and of the stamps of all files."""
    return hashlib.sha256(head.encode() + b"".join(stamps)).hexdigest()


def stamps_of(root: Path, paths: Iterable[str]) -> list[bytes]:
    """Digest of every file's name as seen from ``root``, size, modification time and permissions."""
    found, below = [], os.path.join(root, "")
    for path in paths:
        name = os.fsencode(path[len(str(root)) :] if path.startswith(below) else os.path.relpath(path, root))
        try:
            status = os.stat(path)
            facts = (status.st_size, status.st_mtime_ns, status.st_mode)
        except OSError as error:
            # A broken link.
            facts = (-1, error.errno or 0, 0)
        text = b"%s\0%d\0%d\0%d\0" % (name, *facts)
        found.append(hashlib.blake2b(text, digest_size=STAMP).digest())
    return found
