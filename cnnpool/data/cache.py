"""Decoded images kept on disk: written whole or not at all, believed only if their digest is right."""

import hashlib
import json
import logging
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import numpy as np
from filelock import FileLock

from cnnpool.data.base import Raw, Split, from_pixels
from cnnpool.system.progress import Progress

_log = logging.getLogger(__name__)


def cached(path: Path, key: str, make: Callable[[], Raw]) -> Raw:
    """The data kept in ``path`` under ``key``, else what ``make`` gives, kept for the next time.

    Of several processes one makes it while the others wait. Where nothing can be written (no right, no room)
    the data is made and not kept.

    Args:
        path: file; its folder is created.
        key: changes when the data would; a file with another key is replaced.
    """
    raw = _load(path, key)
    if raw is not None:
        return raw
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(f"{path}.lock")
        with Progress("waiting for another process that decodes these images"):
            lock.acquire()
    except OSError as error:
        _log.warning("cannot keep decoded images in %s (%s)", path.parent, error)
        return make()
    try:
        raw = _load(path, key)
        if raw is None:
            raw = make()
            _save(path, key, raw)
    finally:
        lock.release()
    return raw


def _load(path: Path, key: str) -> Raw | None:
    """The content of ``path``, or None if it is missing, damaged or of another kind."""
    try:
        with path.open("rb") as file:
            seal, header = file.readline().strip(), file.readline()
            if hashlib.sha256(header).hexdigest().encode() != seal:
                raise ValueError("its header is wrong")
            facts = json.loads(header)
            if facts["key"] != key:
                return None
            raw = Raw(
                tuple(facts["classes"]),
                **{part: _load_split(file, shape) for part, shape in facts["shapes"].items()},
                notes=tuple(facts["notes"]),
                skipped=facts["skipped"],
            )
            if raw.sha256 != facts["sha256"]:
                raise ValueError("its digest is wrong")
            return raw
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        _log.warning("%s is damaged and will be made again (%s)", path, error)
        return None


def _load_split(file: BinaryIO, shape: list[int]) -> Split:
    pixels = np.fromfile(file, np.uint8, math.prod(shape)).reshape(shape)
    return from_pixels(pixels, np.fromfile(file, "<i8", shape[0]))


def _save(path: Path, key: str, raw: Raw) -> None:
    """Write a sibling, then rename it: whoever is killed here leaves the old file or none. Needs the lock."""
    part = path.with_name(f"{path.name}.part")
    parts = {"train": raw.train, "test": raw.test, "val": raw.val}
    splits = {part: split for part, split in parts.items() if split is not None}
    facts = {
        "key": key,
        "classes": raw.classes,
        "sha256": raw.sha256,
        "shapes": {part: list(split.pixels.shape) for part, split in splits.items()},
        "notes": raw.notes,
        "skipped": raw.skipped,
    }
    header = f"{json.dumps(facts)}\n".encode()
    try:
        with part.open("wb") as file:
            file.write(b"%s\n%s" % (hashlib.sha256(header).hexdigest().encode(), header))
            for split in splits.values():
                file.write(split.pixels.numpy().data)
                file.write(split.labels.numpy().astype("<i8", copy=False).data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as error:
        part.unlink(missing_ok=True)
        _log.warning("cannot keep decoded images in %s (%s)", path.parent, error)
