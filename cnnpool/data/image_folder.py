"""The user's own images in folders, one folder per class: which folders are splits, and which are classes."""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal
from unicodedata import normalize

from cnnpool.data.decode import MADE_BY, SUFFIXES
from cnnpool.data.errors import DataError
from cnnpool.data.image_source import NAMES, Found, ImageSource, Origin, cache_folder, stamp
from cnnpool.data.images import Pictures
from cnnpool.tables import printable

EXPECTED = "train/CLASS and test/CLASS (or val/CLASS), or all of them in CLASS"
SYSTEM = frozenset(
    ("@eadir", "#recycle", "#snapshot", "$recycle.bin", "__macosx", "lost+found", "system volume information")
)
"""Folders that systems make, in small letters: no image of theirs is a user's."""
Listing = dict[str, list[str]]
"""The paths of each class's images: texts, because a hundred thousand Path objects take a second."""


@dataclass(frozen=True, kw_only=True)
class ImageFolder(ImageSource):
    """Images in ``<root>/train/<class>/`` and ``<root>/test/<class>/``, or just in ``<root>/<class>/``.

    ``training/`` and ``testing/`` mean the same, in any case of letters. A third folder ``val/`` (``valid/``,
    ``validation/``) holds the validation images, which are else cut from the training images; without a test
    folder it holds the test images. Where there is neither, ``test_size`` of each class is cut off for the
    test, by ``split_seed``, so that all runs share the same test images whatever their seed.

    The classes are the folders of train/, in alphabetical order. Folders within a class are read too, and
    links followed. Hidden files, and files whose name does not end as an image's, are left alone and counted.
    Decoded images are kept in ``<root>/.cnnpool-cache``, or, where that cannot be written, in
    ``$XDG_CACHE_HOME/cnnpool``, and made again when a name, size or time of a file changes.

    Args:
        channels: 3 for colour, 1 for grey.
    """

    channels: Literal[1, 3] = 3

    def origin(self) -> Origin:
        root = Path(self.root).expanduser().absolute()
        layout = find_images(root)
        listings = layout.parts.values()
        paths = (path for listing in listings for paths in listing.values() for path in paths)
        return Origin(
            root,
            cache_folder(root),
            stamp(f"4 {MADE_BY} {self.max_megapixels}", root, paths),
            partial(_listed, layout),
            layout.notes(),
            f"{printable(layout.folders['test'])}/ holds the test images" if "test" in layout.parts else "",
        )


@dataclass(frozen=True)
class Layout:
    """The splits and classes found below a data set's root.

    Args:
        parts: ``train``, ``test`` and perhaps ``val``, each with its images; only ``train`` where the test
            images are still to be cut from it.
        folders: the name of each part's folder; empty where the classes lie in the root itself.
        ignored: kind of thing -> how many of it were left alone.
    """

    parts: dict[str, Listing]
    folders: dict[str, str]
    ignored: Counter[str] = field(default_factory=Counter)

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, in alphabetical order."""
        return tuple(self.parts["train"])

    def notes(self) -> list[str]:
        """A sentence on where the images lie, and one on what was left alone."""
        count = len(self.classes)
        text = f"{count} {'class' if count == 1 else 'classes'}"
        names = ", ".join(f"{printable(name)}/" for name in self.folders.values())
        text += f" in {names}" if names else ", each in a folder of its own" if count > 1 else ""
        if self.folders.get("test", "test").lower() not in NAMES["test"]:
            text += f"; {self.folders['test']}/ holds the test images"
        counts = [f"{kind} ({count:,})" for kind, count in sorted(self.ignored.items()) if count]
        return [text, f"left alone: {', '.join(counts)}"] if counts else [text]


def find_images(root: Path) -> Layout:
    """Every image below ``root``, by split and class, each class's sorted by path.

    Folders within a class are read too, and symbolic links followed.

    Raises:
        DataError: if images are missing, a folder cannot be read, or links go in a circle.
    """
    ignored: Counter[str] = Counter()
    folders, images = _entries(root, ignored)
    splits = _splits(root, folders)
    if not splits:
        _check_single(root, folders)
        return Layout({"train": _classes(root, folders, images, ignored, empty=True)}, {}, ignored)
    ignored["other folders"] += len(folders) - len(splits)
    ignored["images in no class's folder"] += len(images)
    parts = {}
    for part, name in splits.items():
        below, loose = _entries(root / name, ignored)
        parts[part] = _classes(root / name, below, loose, ignored)
        if unknown := sorted(set(parts[part]) - set(parts["train"])):
            raise DataError(
                f"{root / name / unknown[0]} is a class that {root / splits['train']} lacks: "
                "put training images of it there, or remove it"
            )
    return Layout(parts, splits, ignored)


def _splits(root: Path, folders: list[str]) -> dict[str, str]:
    """Part -> its folder, in the order train, val, test; empty where ``root`` holds classes.

    Without a test folder the validation images are the test images.
    """
    named = [name for name in folders if any(name.lower() in names for names in NAMES.values())]
    held = [name for name in named if _entries(root / name, Counter())[0]]
    unsorted = [name for name in named if name not in held]
    # A class may be called so, beside others.
    if unsorted and (held or len(named) == len(folders)):
        raise DataError(
            f"{root / unsorted[-1]} holds no folder: put the images of each class into a folder of its own, "
            "or remove it"
        )
    found: dict[str, str] = {}
    for part, names in NAMES.items():
        same = [name for name in held if name.lower() in names]
        if len(same) > 1:
            raise DataError(f"{root} holds both {same[0]}/ and {same[1]}/: keep one of them")
        found |= dict.fromkeys([part], same[0]) if same else {}
    if not found:
        return {}
    others = [name for name in folders if name not in held]
    if "train" not in found:
        raise DataError(
            f"cannot read {root / 'train'} (there is none beside {held[0]}/): "
            f"data.root must hold the images of each class in {EXPECTED}"
        )
    if len(found) == 1 and others:
        raise DataError(
            f"cannot read {root / 'test'} (beside {found['train']}/ there is neither test/ nor val/, but "
            f"{printable(others[0])}/): data.root must hold the images of each class in {EXPECTED}, or in "
            f"{found['train']}/CLASS and nothing else"
        )
    if "test" not in found and "val" in found:
        found["test"] = found.pop("val")
    return found


def _check_single(root: Path, folders: list[str]) -> None:
    """Raise where ``root`` holds nothing but the folder that was meant."""
    if len(folders) == 1:
        below = _entries(root / folders[0], Counter())[0]
        if any(name.lower() in NAMES["train"] for name in below):
            raise DataError(
                f"{root} holds a single folder, which holds train/: use data.root={root / folders[0]}"
            )


def _classes(
    folder: Path, names: list[str], loose: list[str], ignored: Counter[str], *, empty: bool = False
) -> Listing:
    """The images of each class; a class without any is left alone if ``empty``, else an error.

    A class is known by its name in composed Unicode: macOS writes accents apart, and other systems do not.
    """
    ignored["images in no class's folder"] += len(loose)
    if not names:
        raise DataError(
            f"{folder} holds no folder: put the images of each class into a folder of its own, or "
            "name another by data.root=FOLDER"
        )
    listing: Listing = {}
    for name in sorted(names, key=partial(normalize, "NFC")):
        if paths := sorted(_walk(folder / name, ignored, ())):
            listing.setdefault(normalize("NFC", name), []).extend(paths)
        elif empty:
            ignored["folders without images"] += 1
        else:
            raise DataError(f"{folder / name} holds no image: fill or remove it")
    if not listing:
        raise DataError(
            f"{folder} holds no image: put the images of each class into a folder of its own, or name "
            "another by data.root=FOLDER"
        )
    return listing


def _walk(folder: Path, ignored: Counter[str], above: tuple[tuple[int, int], ...]) -> Iterator[str]:
    """Every image below ``folder``."""
    status = os.stat(folder)
    own = (status.st_dev, status.st_ino)
    if own in above:
        raise DataError(f"{folder} is a link to a folder above it: remove the link")
    folders, images = _entries(folder, ignored)
    yield from images
    for name in folders:
        yield from _walk(folder / name, ignored, (*above, own))


def _entries(folder: Path, ignored: Counter[str]) -> tuple[list[str], list[str]]:
    """The sorted names of the folders in ``folder``, and the paths of its images; the rest is counted."""
    folders, images = [], []
    try:
        entries = list(os.scandir(folder))
    except OSError as error:
        raise DataError(
            f"cannot read {folder} ({error.strerror}): data.root must hold the images of each class in "
            f"{EXPECTED}"
        ) from error
    for entry in entries:
        suffix = os.path.splitext(entry.name)[1].lower()
        is_folder = _is(entry.is_dir)
        if entry.name.startswith("."):
            ignored["hidden files"] += not is_folder
        elif is_folder and entry.name.lower() in SYSTEM:
            ignored["folders of the system"] += 1
        elif is_folder:
            folders.append(entry.name)
        elif suffix in SUFFIXES and (_is(entry.is_file) or entry.is_symlink()):
            # A broken link to an image is an image that cannot be read, and is named as such.
            images.append(entry.path)
        else:
            ignored[
                suffix if suffix.isascii() and suffix.isprintable() and suffix else "files without suffix"
            ] += 1
    return sorted(folders), images


def _is(asked: Callable[[], bool]) -> bool:
    try:
        return asked()
    except OSError:
        # A link to itself.
        return False


def _listed(layout: Layout) -> Found:
    """The images of every part, by class."""
    items = [
        (path, label)
        for listing in layout.parts.values()
        for label, name in enumerate(layout.classes)
        for path in listing.get(name, [])
    ]
    counts = {part: sum(map(len, listing.values())) for part, listing in layout.parts.items()}
    return Found(Pictures(items), counts, layout.classes)
