"""The user's own images, one folder per class: find the folders of splits and classes."""

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from cnnpool.data.decode import MADE_BY, SUFFIXES, UNREAD
from cnnpool.data.errors import ONE_CLASS, DataError
from cnnpool.data.image_source import NAMES, ImageSource, Origin, composed, stamp, stamps_of
from cnnpool.data.images import Pictures
from cnnpool.tables import printable

LAYOUT = "data.root must hold folders train/CLASS and test/CLASS (or val/CLASS) of images, or CLASS alone"
SYSTEM = frozenset(
    ("@eadir", "#recycle", "#snapshot", "$recycle.bin", "__macosx", "lost+found", "system volume information")
)
"""Folders made by operating systems, in lower case; their images are not the user's."""
OBJECTS = {"annotations": ("*.json", "*.xml"), "labels": ("*.txt",)}
"""Folders of lists of objects, in lower case, and their files."""
Listing = dict[str, list[str]]
"""The paths of each class's images as text, because a hundred thousand Path objects take a second."""


@dataclass(frozen=True, kw_only=True)
class ImageFolder(ImageSource):
    """Images in ``<root>/train/<class>/`` and ``<root>/test/<class>/``, or just in ``<root>/<class>/``.

    ``val/`` has the validation images or, without a test folder, the test images. Without both,
    ``test_size`` of each class is held out for the test by ``split_seed``, the same for all seeds.

    Args:
        channels: 3 for colour, 1 for grey.
    """

    channels: Literal[1, 3] = 3

    def origin(self) -> Origin:
        root = self.folder
        parts, notes = find_images(root)
        classes = tuple(parts["train"])
        items = [
            (path, label)
            for listing in parts.values()
            for label, name in enumerate(classes)
            for path in listing.get(name, [])
        ]
        counts = {part: sum(map(len, listing.values())) for part, listing in parts.items()}
        stamps = stamps_of(root, (path for path, _ in items))
        return Origin(
            self.cache,
            stamp(f"4 {MADE_BY} {self.max_megapixels}", stamps),
            partial(Pictures, items, counts, classes),
            "test" in parts,
            notes,
            stamps,
        )


def find_images(root: Path) -> tuple[dict[str, Listing], list[str]]:
    """Every image below ``root`` by split and class, sorted by path, and notes on the folders."""
    ignored: Counter[str] = Counter()
    folders, images = _entries(root, ignored)
    _refuse_objects(root, folders)
    splits = _splits(root, folders)
    if splits:
        ignored["other folders"] += len(folders) - len(splits)
        ignored["images in no class's folder"] += len(images)
        parts = {
            part: _classes(root / name, *_entries(root / name, ignored), ignored)
            for part, name in splits.items()
        }
    else:
        inner = folders[0] if len(folders) == 1 else ""
        if inner and any(name.lower() in NAMES["train"] for name in _entries(root / inner, Counter())[0]):
            raise DataError(f"{root} holds a single folder, which holds train/: use data.root={root / inner}")
        parts = {"train": _classes(root, folders, images, ignored, empty=True)}
    for part, listing in parts.items():
        if unknown := sorted(listing.keys() - parts["train"].keys()):
            raise DataError(
                f"{root / splits[part] / unknown[0]} is a class that {root / splits['train']} lacks: "
                "put training images of it there, or remove it"
            )
    return parts, _notes(len(parts["train"]), splits, ignored)


def _refuse_objects(root: Path, folders: list[str]) -> None:
    """A DataError if the folder is a data set of objects: COCO's, Pascal VOC's or YOLO's."""
    patterns = ((root / name, pattern) for name in folders for pattern in OBJECTS.get(name.lower(), ()))
    lists = [path for folder, pattern in patterns for path in sorted(folder.glob(pattern))]
    if lists and len(folders) > 1:
        raise DataError(f"{lists[0]} lists objects in images, as COCO does: {ONE_CLASS}")


def _notes(count: int, splits: dict[str, str], ignored: Counter[str]) -> list[str]:
    """A sentence on where the images of ``count`` classes are, and one on ignored files."""
    text = f"{count} {'class' if count == 1 else 'classes'}"
    names = ", ".join(f"{printable(name)}/" for name in splits.values())
    text += f" in {names}" if names else ", each in a folder of its own" if count > 1 else ""
    if splits.get("test", "test").lower() not in NAMES["test"]:
        text += f"; {splits['test']}/ holds the test images"
    counts = [f"{kind} ({count:,})" for kind, count in sorted(ignored.items()) if count]
    notes = [text, f"left alone: {', '.join(counts)}"] if counts else [text]
    return [*notes, unread] if (unread := _unread(ignored)) else notes


def _unread(ignored: Counter[str]) -> str:
    """A sentence on pictures of formats that are not read; empty if there are none."""
    found = [f"{kind} ({ignored[kind]:,})" for kind in sorted(UNREAD.intersection(ignored))]
    return f"pictures that are not read: {', '.join(found)}; save them as JPEG or PNG" if found else ""


def _splits(root: Path, folders: list[str]) -> dict[str, str]:
    """Part -> its folder, in the order train, val, test; empty where ``root`` holds classes."""
    named = [name for name in folders if any(name.lower() in names for names in NAMES.values())]
    held = [name for name in named if _entries(root / name, Counter())[0]]
    unsorted = [name for name in named if name not in held]
    # A class may have such a name, beside others.
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
    others = [name for name in folders if name not in held]
    if found and "train" not in found:
        raise DataError(f"{root / 'train'} is missing beside {held[0]}/: {LAYOUT}")
    if len(found) == 1 and others:
        raise DataError(
            f"beside {root / found['train']} there is neither test/ nor val/, but {printable(others[0])}/: "
            f"{LAYOUT}"
        )
    if "test" not in found and "val" in found:
        found["test"] = found.pop("val")
    return found


def _classes(
    folder: Path, names: list[str], loose: list[str], ignored: Counter[str], *, empty: bool = False
) -> Listing:
    """The images of each class; a class without images is ignored if ``empty``, else an error."""
    ignored["images in no class's folder"] += len(loose)
    listing: Listing = {}
    for name in sorted(names, key=composed):
        if paths := sorted(_walk(folder / name, ignored, ())):
            listing.setdefault(composed(name), []).extend(paths)
        elif empty:
            ignored["folders without images"] += 1
        else:
            raise DataError(f"{folder / name} holds no image: fill or remove it")
    if not listing:
        unread = f" ({unread})" if (unread := _unread(ignored)) else ""
        raise DataError(
            f"{folder} holds no folder of images{unread}: put the images of each class into a folder of its "
            "own, list file and class of each in a CSV for data=image_table, or name another by "
            "data.root=FOLDER"
        )
    return listing


def _walk(folder: Path, ignored: Counter[str], above: tuple[tuple[int, int], ...]) -> Iterator[str]:
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
        raise DataError(f"cannot read {folder} ({error.strerror}): {LAYOUT}") from error
    for entry in entries:
        suffix = os.path.splitext(entry.name)[1].lower()
        # isdir, because a link to itself must not raise an error.
        is_folder = os.path.isdir(entry) if entry.is_symlink() else entry.is_dir()
        if entry.name.startswith("."):
            ignored["hidden files"] += not is_folder
        elif is_folder and entry.name.lower() in SYSTEM:
            ignored["folders of the system"] += 1
        elif is_folder:
            folders.append(entry.name)
        elif suffix in SUFFIXES:
            images.append(entry.path)
        else:
            is_plain = suffix.isascii() and suffix.isprintable() and suffix
            ignored[suffix if is_plain else "files without suffix"] += 1
    return sorted(folders), images
