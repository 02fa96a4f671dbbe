"""The user's own images in folders, one folder per class."""

import hashlib
import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge, Le

from cnnpool.data.base import DataError, Raw, Source, ValSize, from_pixels
from cnnpool.data.cache import cached
from cnnpool.data.decode import SUFFIXES, commonest_size, decode_all

Side = Annotated[int, Ge(1), Le(8192)]
Listing = dict[str, list[str]]
"""The paths of each class's images: texts, because a hundred thousand Path objects take a second."""


@dataclass(frozen=True, kw_only=True)
class ImageFolder(Source):
    """Images in ``<root>/train/<class>/`` and ``<root>/test/<class>/``, decoded once and kept.

    The classes are the folders of train/, in alphabetical order. Hidden files, and files whose name does not
    end as an image's, are left alone. Animations give their first frame, transparency is laid over black, the
    camera's orientation is applied. An image of another size is resized, with antialiasing, until it covers
    ``size``, and its centre is cut out.

    Decoded images are kept in ``<root>/.cnnpool-cache``, or, where that cannot be written, in
    ``$XDG_CACHE_HOME/cnnpool``, and made again when a name, size or time of a file changes.

    Args:
        channels: 3 for colour, 1 for grey.
        size: H and W, or [H, W]; null for the commonest size of the training images, up to 512.
    """

    val_size: ValSize = 0.1
    channels: Literal[1, 3] = 3
    size: Side | tuple[Side, Side] | None = None

    def read(self) -> Raw:
        root = Path(self.root).expanduser().absolute()
        train = _listing(root, "train")
        test = _listing(root, "test")
        unknown = sorted(set(test) - set(train))
        if unknown:
            raise DataError(
                f"{root / 'test' / unknown[0]} is a class that {root / 'train'} lacks: "
                "put training images of it there, or remove it"
            )
        path = _cache_folder(root) / f"{self.channels}x{self.size}.images".replace(" ", "")
        return cached(path, _key(root, train, test), partial(self._decode, train, test))

    def _decode(self, train: Listing, test: Listing) -> Raw:
        files = [path for paths in train.values() for path in paths]
        size = (self.size, self.size) if isinstance(self.size, int) else self.size or commonest_size(files)
        classes = tuple(train)
        parts = []
        for listing in (train, test):
            paths = [path for paths in listing.values() for path in paths]
            labels = [classes.index(name) for name, paths in listing.items() for _ in paths]
            parts.append(from_pixels(decode_all(paths, size, self.channels), np.array(labels)))
        return Raw(classes, *parts)


def _listing(root: Path, part: str) -> Listing:
    """The images of each class, everything sorted by name."""
    folder = root / part
    try:
        classes = sorted(e.name for e in os.scandir(folder) if e.is_dir() and not e.name.startswith("."))
    except OSError as error:
        raise DataError(
            f"cannot read {folder} ({type(error).__name__}): data.root must hold the images of each class in "
            "train/CLASS and test/CLASS"
        ) from error
    if not classes:
        raise DataError(f"{folder} holds no folder: put the images of each class into a folder of its own")
    listing = {}
    for name in classes:
        listing[name] = sorted(entry.path for entry in os.scandir(folder / name) if _is_image(entry))
        if not listing[name]:
            raise DataError(f"{folder / name} holds no image: fill or remove it")
    return listing


def _is_image(entry: os.DirEntry[str]) -> bool:
    suffix = os.path.splitext(entry.name)[1].lower()
    return suffix in SUFFIXES and not entry.name.startswith(".") and entry.is_file()


def _key(root: Path, *listings: Listing) -> str:
    """Digest of every file's name, size and time of change."""
    digest = hashlib.sha256(b"1")
    for path in (path for listing in listings for paths in listing.values() for path in paths):
        status = os.stat(path)
        name = os.fsencode(path)[len(os.fsencode(root)) :]
        digest.update(b"%s\0%d\0%d\0" % (name, status.st_size, status.st_mtime_ns))
    return digest.hexdigest()


def _cache_folder(root: Path) -> Path:
    own = root / ".cnnpool-cache"
    if os.access(own if own.exists() else root, os.W_OK):
        return own
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "cnnpool" / hashlib.sha256(str(root).encode()).hexdigest()[:16]
