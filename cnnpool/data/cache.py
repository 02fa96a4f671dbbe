"""Decoded images kept on disk: written whole or not at all, believed only if their digest is right."""

import json
import logging
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
from filelock import FileLock

from cnnpool.data.base import Raw, from_pixels

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
    """What ``path`` holds, or None if that is nothing, something else, or damaged."""
    try:
        with path.open("rb") as file:
            header = json.loads(np.load(file, allow_pickle=False).tobytes())
            if header["key"] != key:
                return None
            train, test = (
                from_pixels(np.load(file, allow_pickle=False), np.load(file, allow_pickle=False))
                for _ in range(2)
            )
            raw = Raw(tuple(header["classes"]), train, test)
            intact = raw.sha256 == header["sha256"]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, EOFError, KeyError, TypeError, MemoryError) as error:
        _log.warning("%s is damaged and will be made again (%s)", path, error)
        return None
    if not intact:
        _log.warning("%s is damaged and will be made again (its digest is wrong)", path)
        return None
    return raw


def _save(path: Path, key: str, raw: Raw) -> None:
    """Write a sibling, then rename it: whoever is killed here leaves the old file or none. Needs the lock."""
    part = path.with_name(f"{path.name}.part")
    header = json.dumps({"key": key, "classes": raw.classes, "sha256": raw.sha256})
    try:
        with part.open("wb") as file:
            np.save(file, np.frombuffer(header.encode(), np.uint8))
            for split in (raw.train, raw.test):
                np.save(file, split.pixels.numpy())
                np.save(file, split.labels.numpy())
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as error:
        part.unlink(missing_ok=True)
        _log.warning("cannot keep decoded images in %s (%s)", path.parent, error)
