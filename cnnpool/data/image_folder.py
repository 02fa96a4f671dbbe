"""The user's own images in folders, one folder per class."""

import hashlib
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import PIL
import torch
from annotated_types import Ge, Gt, Le, Lt

from cnnpool.bounds import Seed
from cnnpool.data.base import Raw, Source, Split, ValSize
from cnnpool.data.cache import cached
from cnnpool.data.decode import Size
from cnnpool.data.draw import cut
from cnnpool.data.errors import DataError
from cnnpool.data.images import between, commonest_size, decode_all, survey
from cnnpool.data.layout import Layout, find_images
from cnnpool.data.remembered import remembered
from cnnpool.data.rows import OnDisk
from cnnpool.data.store import GIB, Stream, begin, hold
from cnnpool.tables import printable

Side = Annotated[int, Ge(1), Le(8192)]
TestSize = Annotated[float, Gt(0), Lt(1)]
SHOWN = 10
"""Unreadable images that are named on the screen; a file names them all."""

REMEDY = "repair or remove {it}, or go on without {it} by data.skip_unreadable=true"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class ImageFolder(Source):
    """Images in ``<root>/train/<class>/`` and ``<root>/test/<class>/``, or just in ``<root>/<class>/``.

    ``training/`` and ``testing/`` mean the same, in any case of letters. A third folder ``val/`` (``valid/``,
    ``validation/``) holds the validation images, which are else cut from the training images; without a test
    folder it holds the test images. Where there is neither, ``test_size`` of each class is cut off for the
    test, by ``split_seed``, so that all runs share the same test images whatever their seed.

    The classes are the folders of train/, in alphabetical order. Folders within a class are read too, and
    links followed. Hidden files, and files whose name does not end as an image's, are left alone and counted.
    Animations give their first frame, transparency is laid over white, where line drawings stay visible, the
    camera's orientation is applied, colour profiles are not, 16 bits become 8. An image of another size is
    resized, with antialiasing, until it covers ``size``, and its centre is cut out.

    Decoded images are kept in ``<root>/.cnnpool-cache``, or, where that cannot be written, in
    ``$XDG_CACHE_HOME/cnnpool``, and made again when a name, size or time of a file changes.

    Args:
        channels: 3 for colour, 1 for grey.
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
    channels: Literal[1, 3] = 3
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

    def read(self) -> Raw:
        root = Path(self.root).expanduser().absolute()
        layout = find_images(root)
        folder = _cache_folder(root)
        path = folder / f"{self.channels}x{self.resize or self.size}.images".replace(" ", "")
        make = partial(self._decode, root, layout)
        raw = cached(path, self._key(root, layout), make, partial(hold, stream=self.stream))
        notes = [*layout.notes(), *raw.notes]
        if raw.skipped:
            notes.append(self._skip(raw.skipped, root, folder))
        if "test" not in layout.parts:
            raw = self._cut(raw, path)
            notes.append(
                f"test images: {100 * self.test_size:g} % of each class (data.test_size), drawn by "
                f"data.split_seed={self.split_seed}"
            )
        elif unused := [
            name for name in ("test_size", "split_seed") if getattr(self, name) != getattr(ImageFolder, name)
        ]:
            notes.append(
                f"no effect: {' and '.join(f'data.{name}={getattr(self, name)}' for name in unused)}, since "
                f"{printable(layout.folders['test'])}/ holds the test images"
            )
        if not raw.in_memory:
            notes.append(_streamed(raw))
        return replace(raw, notes=tuple(notes))

    def _decode(self, root: Path, layout: Layout, part: Path | None) -> Raw:
        """All images that can be read, in the file ``part`` where the disk has room for them; without test
        images where they are still to be cut off.
        """
        paths, labels, ends = [], [], [0]
        for listing in layout.parts.values():
            for label, name in enumerate(layout.classes):
                paths += listing.get(name, [])
                labels += [label] * len(listing.get(name, []))
            ends.append(len(paths))
        found = survey(paths, self.max_megapixels)
        headers = sorted(found.headers.items())
        size, why = self._size([header.size for place, header in headers if place < ends[1]])
        rows, places = decode_all(found, size, self.channels, partial(begin, part=part, stream=self.stream))
        kept = torch.tensor(labels, dtype=torch.int64)[places]
        parts = {}
        for name, first, end in zip(layout.parts, ends, ends[1:], strict=False):
            bounds = np.searchsorted(places, (first, end)).tolist()
            parts[name] = Split(rows.part(*bounds), kept[slice(*bounds)])
        test = parts.get("test", Split(rows.part(0, 0), kept[:0]))
        skipped = {
            os.path.relpath(paths[place], root): found.unreadable[place] for place in sorted(found.unreadable)
        }
        notes = (_sizes(size, why, [found.headers[place].size for place in places]),) if places else ()
        return Raw(layout.classes, parts["train"], test, parts.get("val"), notes, skipped)

    def _size(self, training: Sequence[Size]) -> tuple[Size, str]:
        """(H, W) to bring all images to, and why."""
        if self.resize is not None:
            return _pair(self.resize), "data.resize"
        if self.size is not None:
            return _pair(self.size), "data.size"
        return commonest_size(training) if training else ((1, 1), "")

    def _skip(self, skipped: Mapping[str, str], root: Path, folder: Path) -> str:
        """A note on the images that cannot be read, all of which a file names.

        Raises:
            DataError: if they are not to be skipped; those named first are in the log.
        """
        lines = [f"{printable(path)}: {said}" for path, said in skipped.items()]
        place = _keep_list(folder / "unreadable.txt", lines)
        count = "1 image" if len(lines) == 1 else f"{len(lines):,} images"
        if self.skip_unreadable:
            return (
                f"{count} left out, which cannot be read (data.skip_unreadable){place and f': see {place}'}"
            )
        if len(lines) == 1:
            path, said = next(iter(skipped.items()))
            raise DataError(f"cannot decode {root / path} ({said}): {REMEDY.format(it='it')}")
        more = [f"and {len(lines) - SHOWN:,} more"] if len(lines) > SHOWN else []
        _say_once(f"cannot decode, below {root}:\n  " + "\n  ".join([*lines[:SHOWN], *more]))
        raise DataError(
            f"{count} of {root} cannot be decoded{place and f' (all in {place})'}: {REMEDY.format(it='them')}"
        )

    def _cut(self, raw: Raw, path: Path) -> Raw:
        """``raw``, kept in ``path`` if anywhere, with its test images cut from the training images."""
        rest, test = cut(raw.train.labels, self.test_size, seed=self.split_seed)
        if not len(test):
            raise DataError(f"no class of {self.root} has the two images that a test set needs: add some")
        raw = replace(raw, train=raw.train.take(rest), test=raw.train.take(test), known_sha256=None)
        if isinstance(raw.train.rows, OnDisk) and raw.train.rows.file.path == path:
            what = f"test_size={self.test_size} split_seed={self.split_seed}"
            raw = replace(raw, known_sha256=remembered(path, what, lambda: raw.sha256))
        return raw

    def _key(self, root: Path, layout: Layout) -> str:
        """Digest of what decides the pixels: every file's name, size and time of change, and the reader."""
        digest = hashlib.sha256(f"3 {PIL.__version__} {self.max_megapixels}".encode())
        for path in (
            path for listing in layout.parts.values() for paths in listing.values() for path in paths
        ):
            name = os.fsencode(path)[len(os.fsencode(root)) :]
            try:
                status = os.stat(path)
                facts = (status.st_size, status.st_mtime_ns, status.st_mode)
            except OSError as error:
                # A broken link.
                facts = (-1, error.errno or 0, 0)
            digest.update(b"%s\0%d\0%d\0%d\0" % (name, *facts))
        return digest.hexdigest()


def _pair(size: int | Size) -> Size:
    return (size, size) if isinstance(size, int) else size


def _sizes(size: Size, why: str, sizes: Sequence[Size]) -> str:
    resized = [own for own in sizes if own != tuple(size)]
    text = f"size: {size[0]}x{size[1]} ({why}); "
    if not resized:
        return f"{text}every image has it"
    count = f"{len(resized):,} of {len(sizes):,}" if len(resized) < len(sizes) else f"all {len(sizes):,}"
    text += f"{count} images are resized, {between(resized)}"
    return f"{text}, and their centre is cut out"


def _streamed(raw: Raw) -> str:
    gib = sum(split.rows.nbytes for split in raw.splits.values()) / GIB
    if isinstance(raw.train.rows, OnDisk):
        return f"not held in memory ({gib:.2g} GiB): each batch is read from {raw.train.rows.file.path}"
    return f"neither memory nor disk has room for {gib:.2g} GiB: each batch is decoded from its files"


@cache
def _say_once(text: str) -> None:
    """Log what every job of a sweep would repeat."""
    _log.error("%s", text)


def _keep_list(path: Path, lines: Sequence[str]) -> str:
    """Write ``lines`` to ``path``; its name, or nothing where it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    except OSError as error:
        _log.warning("cannot keep the list of unreadable images in %s (%s)", path.parent, error)
        return ""
    return str(path)


def _cache_folder(root: Path) -> Path:
    own = root / ".cnnpool-cache"
    if os.access(own if own.exists() else root, os.W_OK):
        return own
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "cnnpool" / hashlib.sha256(str(root).encode()).hexdigest()[:16]
