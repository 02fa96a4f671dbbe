"""Decoded images kept on disk: written whole or not at all, believed if unchanged or of the right digest.

The pixels are one file of uint8, row after row; ``.npz`` beside it has the labels, what statistics need of
each row, and a description with the digest of all.
"""

import json
import logging
import os
import shutil
import zipfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from errno import ENOSPC
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from filelock import FileLock

from cnnpool.data.base import Raw, Split
from cnnpool.data.decode import Header
from cnnpool.data.errors import DataError
from cnnpool.data.images import GIB, Anew, Pictures, decoded
from cnnpool.data.rows import File, InMemory, Rows, Shape, Stored, sums_of
from cnnpool.system.atomic import beside, explained, flush_folder, rename, replacing
from cnnpool.system.hardware import free_memory
from cnnpool.system.progress import Progress

Stream = Literal["auto"] | bool
SHARE = 4
"""A data set is held in memory by itself if it takes at most this part of what is free."""
NOT_KEPT = "cannot keep decoded images in %s (%s)"

_log = logging.getLogger(__name__)


def cached(path: Path, key: str, make: Callable[[Path | None], Raw], stream: Stream = "auto") -> Raw:
    """The data kept in ``path`` under ``key``, else what ``make`` gives, kept for the next time.

    Of several processes one makes it while the others wait. Where nothing can be written (no right, no room)
    the data is made and not kept.

    Args:
        path: file of the pixels; its folder is created.
        key: changes when the data would; a file with another key is replaced.
        make: given the file to write pixels into, or None; data that does not lie there is not kept.
        stream: true to hold no pixels in memory, false to hold all, auto to hold what fits well.

    Raises:
        DataError: if all shall be held in memory, and do not fit.
    """
    raw = _load(path, key, stream)
    if raw is not None:
        return raw
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(f"{path}.lock")
        with Progress("waiting for another process that decodes these images"):
            lock.acquire()
    except OSError as error:
        _log.warning(NOT_KEPT, path.parent, error)
        return _held(make(None), stream)
    part = beside(path, "cache")
    try:
        raw = _load(path, key, stream)
        if raw is None:
            raw = make(part)
            _save(path, part, key, raw)
            raw = _held(replace(raw, known_sha256=raw.sha256), stream)
    finally:
        part.unlink(missing_ok=True)
        lock.release()
    return raw


def _load(path: Path, key: str, stream: Stream) -> Raw | None:
    """The content of ``path``, or None if it is missing, damaged or of another kind."""
    try:
        with np.load(path.with_suffix(".npz")) as found:
            facts = json.loads(found["facts"].item())
            if facts["key"] != key:
                return None
            file = File(path)
            status = os.fstat(file.descriptor)
            if status.st_size != facts["nbytes"]:
                raise ValueError("it has another length")
            arrays = {name: torch.from_numpy(found[name]) for name in found.files if name != "facts"}
        splits = {
            part: Split(
                Stored(file, tuple(facts["shape"]), arrays[f"{part}.places"], arrays[f"{part}.sums"]),
                arrays[f"{part}.labels"],
            )
            for part in facts["parts"]
        }
        classes, notes = tuple(facts["classes"]), tuple(facts["notes"])
        raw = Raw(classes, splits["train"], splits["test"], splits.get("val"), notes, facts["skipped"])
        raw = _held(raw, stream)
        if raw.in_memory or status.st_mtime_ns != facts["mtime_ns"]:
            with Progress("checking decoded images"):
                if raw.sha256 != facts["sha256"]:
                    raise ValueError("its digest is wrong")
        return replace(raw, known_sha256=facts["sha256"])
    except FileNotFoundError:
        return None
    except DataError:
        # Too little memory, or a disk that fails.
        raise
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile) as error:
        _log.warning("%s is damaged and will be made again (%s)", path, error)
        return None


def _save(path: Path, part: Path, key: str, raw: Raw) -> None:
    """Describe the pixels in ``part`` and rename both files. Needs the lock.

    A process killed here leaves the old pair, or one whose digest is wrong.
    """
    file = getattr(raw.train.rows, "store", None)
    if not isinstance(file, File):
        return
    arrays: dict[str, Any] = {}
    for name, split in raw.splits.items():
        assert isinstance(split.rows, Stored)
        arrays |= {
            f"{name}.places": split.rows.places.numpy(),
            f"{name}.sums": split.rows.row_sums.numpy(),
            f"{name}.labels": split.labels.numpy(),
        }
    status = os.fstat(file.descriptor)
    facts: dict[str, Any] = {"key": key, "classes": raw.classes, "sha256": raw.sha256}
    facts |= {"shape": raw.train.rows.shape, "nbytes": status.st_size, "mtime_ns": status.st_mtime_ns}
    facts |= {"parts": list(raw.splits), "notes": raw.notes, "skipped": dict(raw.skipped)}
    try:
        with replacing(path.with_suffix(".npz"), maker="cache") as description:
            np.savez(description, facts=np.array(json.dumps(facts)), **arrays)
            os.fsync(file.descriptor)
            rename(part, path)
        flush_folder(path.parent)
        file.path = path
    except OSError as error:
        _log.warning(NOT_KEPT, path.parent, explained(error, path).strerror)


def decoded_rows(
    pictures: Pictures, headers: Mapping[int, Header], shape: Shape, *, part: Path | None, stream: Stream
) -> tuple[Rows, dict[int, str]]:
    """Rows of the images in ``headers`` that can be read, in the file ``part`` where the disk has room.

    Without room, images are held in memory if they fit there twice, as a run needs while it starts, and are
    else decoded anew each time they are needed.

    Args:
        pictures: all images.
        headers: of those to be decoded, by place.
        shape: (H, W, C) of a row.
        part: file to write; None if nothing can be written.
        stream: true to hold none in memory; false to hold all.

    Returns:
        The rows in the order of ``headers``, and why the others cannot be read, by place.

    Raises:
        DataError: if all shall be held in memory, and do not fit; if the disk fails.
    """
    count, nbytes = len(headers), len(headers) * shape[0] * shape[1] * shape[2]
    if stream is False:
        _check_memory(count, shape)
    sums: list[np.ndarray] = []
    unreadable: dict[int, str] = {}

    def readable() -> Iterator[np.ndarray]:
        made = decoded(pictures, headers, shape, lambda pixels: (pixels, sums_of(pixels)))
        with Progress("decoding", count, "images") as progress:
            for place, found in zip(headers, made, strict=True):
                progress.step()
                if isinstance(found, str):
                    unreadable[place] = found
                else:
                    sums.append(found[1])
                    yield found[0]

    store: File | Anew
    if part is not None and _has_room(part, nbytes):
        store = _written(part, readable())
        places = list(range(len(sums)))
    elif stream is False or (stream == "auto" and _fits(nbytes, 2)):
        pixels = torch.empty((count, *shape), dtype=torch.uint8)
        for row, image in enumerate(readable()):
            pixels.numpy()[row] = image
        return InMemory(pixels[: len(sums)]), unreadable
    else:
        store = Anew(pictures, headers)
        deque(readable(), maxlen=0)
        places = [place for place in headers if place not in unreadable]
    row_sums = np.array(sums, np.int64).reshape(-1, 2, shape[2])
    return Stored(
        store, shape, torch.tensor(places, dtype=torch.int64), torch.from_numpy(row_sums)
    ), unreadable


def _written(part: Path, images: Iterator[np.ndarray]) -> File:
    """The file ``part`` of ``images``, one after another.

    Raises:
        DataError: if the disk is full or fails.
    """
    try:
        with part.open("wb") as file:
            for pixels in images:
                file.write(np.ascontiguousarray(pixels).data)
        return File(part)
    except OSError as error:
        raise DataError(
            f"cannot write {part} ({error.strerror}): make room there, or keep the images elsewhere by "
            "XDG_CACHE_HOME"
        ) from error


def _has_room(part: Path, nbytes: int) -> bool:
    """Whether the disk has room for a file of ``nbytes``; a warning says that it has none."""
    if shutil.disk_usage(part.parent).free >= nbytes:
        return True
    error = explained(OSError(ENOSPC, os.strerror(ENOSPC)), part, nbytes)
    _log.warning(NOT_KEPT, part.parent, error.strerror)
    return False


def _held(raw: Raw, stream: Stream) -> Raw:
    """``raw`` in memory, unless ``stream`` is true or it takes more than a quarter of the free memory.

    Raises:
        DataError: if all shall be held in memory, and do not fit.
    """
    splits = raw.splits
    nbytes = sum(split.rows.nbytes for split in splits.values())
    if raw.in_memory or stream is True or (stream == "auto" and not _fits(nbytes, SHARE)):
        return raw
    if stream is False:
        _check_memory(sum(map(len, splits.values())), raw.train.rows.shape)
    held = {part: Split(InMemory(split.rows.whole()), split.labels) for part, split in splits.items()}
    return replace(raw, train=held["train"], test=held["test"], val=held.get("val"))


def _fits(nbytes: int, times: int) -> bool:
    free = free_memory()
    return free is None or times * nbytes <= free


def _check_memory(images: int, shape: Shape) -> None:
    """Raise unless so many images fit into memory twice, as they lie there while a run cuts its splits."""
    nbytes = images * shape[0] * shape[1] * shape[2]
    if not _fits(nbytes, 2):
        raise DataError(
            f"{images:,} images of {shape[0]}x{shape[1]} take {2 * nbytes / GIB:.1f} GiB of memory while a "
            f"run starts, and {max(free_memory() or 0, 0) / GIB:.1f} GiB are free: read them from disk by "
            "data.stream=auto, or lower data.size"
        )
