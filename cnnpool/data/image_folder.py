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
from annotated_types import Ge, Gt, Le, Lt

from cnnpool.bounds import Seed
from cnnpool.data.base import DataError, Raw, Source, ValSize, from_pixels
from cnnpool.data.cache import cached
from cnnpool.data.decode import Size
from cnnpool.data.draw import cut
from cnnpool.data.images import between, commonest_size, decode_all, survey
from cnnpool.data.layout import Layout, find_images
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
        test_size: share of each class that is cut off for the test where there is no folder for it.
        split_seed: of that cut.
        skip_unreadable: go on without images that cannot be read, and record which; false to end.
        max_megapixels: larger images count as unreadable. Reading takes up to 4 bytes a pixel.
    """

    val_size: ValSize = 0.1
    channels: Literal[1, 3] = 3
    size: Side | tuple[Side, Side] | None = None
    test_size: TestSize = 0.2
    split_seed: Seed = 0
    skip_unreadable: bool = False
    max_megapixels: Annotated[int, Ge(1), Le(100_000)] = 200

    def read(self) -> Raw:
        root = Path(self.root).expanduser().absolute()
        layout = find_images(root)
        folder = _cache_folder(root)
        name = f"{self.channels}x{self.size}.images".replace(" ", "")
        raw = cached(folder / name, self._key(root, layout), partial(self._decode, root, layout))
        notes = [*layout.notes(), *raw.notes]
        if raw.skipped:
            notes.append(self._skip(raw.skipped, root, folder))
        if "test" not in layout.parts:
            raw = self._cut(raw)
            notes.append(
                f"test images: {100 * self.test_size:g} % of each class (data.test_size), drawn by "
                f"data.split_seed={self.split_seed}"
            )
        return replace(raw, notes=tuple(notes))

    def _decode(self, root: Path, layout: Layout) -> Raw:
        """All images that can be read; without test images where they are still to be cut off."""
        paths, labels, ends = [], [], [0]
        for listing in layout.parts.values():
            for label, name in enumerate(layout.classes):
                paths += listing.get(name, [])
                labels += [label] * len(listing.get(name, []))
            ends.append(len(paths))
        found = survey(paths, self.max_megapixels)
        headers = sorted(found.headers.items())
        size, why = self._size([header.size for place, header in headers if place < ends[1]])
        pixels, places = decode_all(found, size, self.channels)
        kept = np.array(labels, np.int64)[places]
        parts = {}
        for part, begin, end in zip(layout.parts, ends, ends[1:], strict=False):
            own = slice(*np.searchsorted(places, (begin, end)))
            parts[part] = from_pixels(pixels[own], kept[own])
        parts.setdefault("test", from_pixels(pixels[:0], kept[:0]))
        skipped = {
            os.path.relpath(paths[place], root): found.unreadable[place] for place in sorted(found.unreadable)
        }
        notes = (_sizes(size, why, [found.headers[place].size for place in places]),) if places else ()
        return Raw(layout.classes, **parts, notes=notes, skipped=skipped)

    def _size(self, training: Sequence[Size]) -> tuple[Size, str]:
        """(H, W) to bring all images to, and why."""
        if self.size is not None:
            return (self.size, self.size) if isinstance(self.size, int) else self.size, "data.size"
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

    def _cut(self, raw: Raw) -> Raw:
        """``raw`` with its test images cut from the training images."""
        rest, test = cut(raw.train.labels, self.test_size, seed=self.split_seed)
        if not len(test):
            raise DataError(f"no class of {self.root} has two images, one of them to test on: add some")
        return replace(raw, train=raw.train.take(rest), test=raw.train.take(test))

    def _key(self, root: Path, layout: Layout) -> str:
        """Digest of what decides the pixels: every file's name, size and time of change, and the reader."""
        digest = hashlib.sha256(f"2 {PIL.__version__} {self.max_megapixels}".encode())
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


def _sizes(size: Size, why: str, sizes: Sequence[Size]) -> str:
    resized = [own for own in sizes if own != tuple(size)]
    text = f"size: {size[0]}x{size[1]} ({why}); "
    if not resized:
        return f"{text}every image has it"
    count = f"{len(resized):,} of {len(sizes):,}" if len(resized) < len(sizes) else f"all {len(sizes):,}"
    text += f"{count} images are resized, {between(resized)}"
    return f"{text}, and their centre is cut out"


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
