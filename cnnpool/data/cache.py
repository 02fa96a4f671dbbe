"""Decoded images cached on disk: pixels in one file, labels, sums and the digest in ``.npz`` beside."""

import json
import logging
import os
import shutil
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from errno import ENOSPC
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from filelock import FileLock

from cnnpool.data.base import Raw, Split
from cnnpool.data.decode import MADE_BY, Header
from cnnpool.data.errors import DataError
from cnnpool.data.images import GIB, Known, Pictures, decoded
from cnnpool.data.rows import File, InMemory, Rows, Shape, Stored, sums_of
from cnnpool.system.atomic import beside, explained, rename, replacing
from cnnpool.system.hardware import free_memory
from cnnpool.system.progress import Progress

Stream = Literal["auto"] | bool
SHARE = 4  # A data set is held in memory by default if it takes at most 1/``SHARE`` of the free memory
STAMP = 16  # Bytes of a file's digest
DAMAGE = (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile)  # Raised by a cache that lacks a part
NOT_KEPT = "cannot keep decoded images in %s (%s)"

_log = logging.getLogger(__name__)


def cached(path: Path, key: str, make: Callable[[Path | None], Raw], stream: Stream = "auto") -> Raw:
    """The data cached in ``path`` under ``key``, else the result of ``make``, which is then cached.

    One of several processes makes it while the others wait. ``make`` gets the file to write pixels to, or
    None if nothing can be written; ``stream`` is that of ``ImageSource``.
    """
    if raw := _load(path, key, stream):
        return raw
    try:
        lock = FileLock(f"{path}.lock")
        with Progress("waiting for another process that decodes these images"):
            lock.acquire()
    except OSError as error:
        _log.warning(NOT_KEPT, path.parent, error)
        return _held(make(None), stream)
    part = beside(path, "cache")
    try:
        return _load(path, key, stream) or _held(_saved(path, part, key, make(part)), stream)
    finally:
        part.unlink(missing_ok=True)
        lock.release()


def _described(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray], File]:
    """The facts and the arrays that lie beside the images in ``path``, and their file."""
    with np.load(path.with_suffix(".npz")) as found:
        arrays = dict(found)
    return json.loads(arrays.pop("facts").item()), arrays, File(path)


def _load(path: Path, key: str, stream: Stream) -> Raw | None:
    try:
        facts, arrays, file = _described(path)
        if facts["key"] != key:
            return None
        status = os.fstat(file.descriptor)
        if status.st_size != facts["nbytes"]:
            raise ValueError("it has another length")
        splits: dict[str, Any] = {}
        for part in facts["parts"]:
            places, sums, labels = (
                torch.from_numpy(arrays[f"{part}.{name}"]) for name in ("places", "sums", "labels")
            )
            splits[part] = Split(Stored(file, tuple(facts["shape"]), places, sums), labels)
        classes, notes = tuple(facts["classes"]), tuple(facts["notes"])
        raw = Raw(classes, **splits, notes=notes, skipped=facts["skipped"], white=facts["white"])
        raw = _held(raw, stream)
        if raw.in_memory or status.st_mtime_ns != facts["mtime_ns"]:
            with Progress("checking decoded images"):
                if raw.sha256 != facts["sha256"]:
                    raise ValueError("its digest is wrong")
        return replace(raw, known_sha256=facts["sha256"])
    except FileNotFoundError:
        return None
    except DataError:
        # Too little memory, or a disk error.
        raise
    except DAMAGE as error:
        _log.warning("%s is damaged and will be made again (%s)", path, error)
        return None


def _saved(path: Path, part: Path, key: str, raw: Raw) -> Raw:
    """Describe ``raw``, whose pixels are in ``part``, and rename both: killed here, the digest is wrong."""
    raw = replace(raw, known_sha256=raw.sha256)
    arrays: dict[str, Any] = {}
    for name, split in raw.splits.items():
        if not isinstance(split.rows, Stored):
            return raw
        file = split.rows.file
        arrays |= {
            f"{name}.places": split.rows.places.numpy(),
            f"{name}.sums": split.rows.row_sums.numpy(),
            f"{name}.labels": split.labels.numpy(),
        }
    status = os.fstat(file.descriptor)
    facts: dict[str, Any] = {"key": key, "classes": raw.classes, "sha256": raw.sha256}
    facts |= {"shape": raw.train.rows.shape, "nbytes": status.st_size, "mtime_ns": status.st_mtime_ns}
    facts |= {"parts": list(raw.splits), "notes": raw.notes, "skipped": dict(raw.skipped)}
    facts |= {"white": raw.white, "made_by": MADE_BY}
    arrays["stamps"] = np.frombuffer(raw.stamps, np.uint8).reshape(-1, STAMP)
    try:
        with replacing(path.with_suffix(".npz"), prefix="cache") as description:
            np.savez(description, facts=np.array(json.dumps(facts)), **arrays)
            os.fsync(file.descriptor)
            rename(part, path)
        file.path = path
    except OSError as error:
        _log.warning(NOT_KEPT, path.parent, explained(error, path).strerror)
    return raw


def unchanged(path: Path, stamps: Sequence[bytes], shape: Shape, white: int | None) -> Known | None:
    """The images with these ``stamps`` that an earlier cache in ``path`` holds, if it fits the others.

    ``shape`` is that of the images, and ``white`` the value that became 255.
    """
    try:
        facts, arrays, file = _described(path)
        if (tuple(facts["shape"]), facts["white"], facts["made_by"]) != (shape, white, MADE_BY):
            return None
        parts = [[arrays[f"{part}.{name}"] for part in facts["parts"]] for name in ("places", "sums")]
        sums = dict(zip(*map(np.concatenate, parts), strict=True))
        rows = {stamp.tobytes(): row for row, stamp in enumerate(arrays["stamps"])}
    except DAMAGE:
        return None

    def known(place: int) -> tuple[np.ndarray, np.ndarray] | None:
        row = rows.get(stamps[place])
        if row is None:
            return None
        try:
            pixels = file.read(np.array([row]), shape)[0]
        except DataError:
            return None
        own = sums_of(pixels)
        return (pixels, own) if np.array_equal(own, sums[row]) else None

    return known


def decoded_rows(
    pictures: Pictures,
    headers: Mapping[int, Header],
    shape: Shape,
    part: Path | None,
    white: int | None = None,
    known: Known | None = None,
) -> tuple[Rows, dict[int, str]]:
    """Decode images into rows of ``part``, or of memory without space there; also why some cannot be.

    Those ``known`` are not decoded.
    """
    count, nbytes = len(headers), len(headers) * shape[0] * shape[1] * shape[2]
    sums: list[np.ndarray] = []
    unreadable: dict[int, str] = {}

    def readable() -> Iterator[np.ndarray]:
        with Progress("decoding", count, "images") as progress:
            images = decoded(pictures, headers, shape, white=white, known=known)
            for place, found in zip(headers, images, strict=True):
                progress.step()
                if isinstance(found, str):
                    unreadable[place] = found
                else:
                    sums.append(found[1])
                    yield found[0]

    if part is None or shutil.disk_usage(part.parent).free < nbytes:
        if part is not None:
            full = explained(OSError(ENOSPC, os.strerror(ENOSPC)), part, nbytes)
            _log.warning(NOT_KEPT, part.parent, full.strerror)
        _check_memory(nbytes)
        pixels = np.array([*readable()], np.uint8).reshape(-1, *shape)
        return InMemory(torch.from_numpy(pixels)), unreadable
    try:
        with part.open("wb") as file:
            for image in readable():
                file.write(np.ascontiguousarray(image).data)
        written = File(part)
    except OSError as error:
        raise DataError(
            f"cannot write {part} ({error.strerror}): free space there, or make {part.parent} a "
            "link to a folder elsewhere"
        ) from error
    row_sums = torch.from_numpy(np.array(sums, np.int64).reshape(-1, 2, shape[2]))
    return Stored(written, shape, torch.arange(len(sums)), row_sums), unreadable


def _held(raw: Raw, stream: Stream) -> Raw:
    """``raw`` in memory, unless ``stream`` is true or it takes more than a quarter of the free memory."""
    splits = raw.splits
    nbytes = sum(split.rows.nbytes for split in splits.values())
    if raw.in_memory or stream is True or (stream == "auto" and not _fits(nbytes, SHARE)):
        return raw
    _check_memory(nbytes)
    held: dict[str, Any] = {
        part: Split(InMemory(split.rows.whole()), split.labels) for part, split in splits.items()
    }
    return replace(raw, **held)


def _fits(nbytes: int, times: int) -> bool:
    free = free_memory()
    return free is None or times * nbytes <= free


def _check_memory(nbytes: int) -> None:
    """Raise unless ``nbytes`` fit into memory twice, as needed while a run cuts its splits."""
    if not _fits(nbytes, 2):
        raise DataError(
            f"the images take {2 * nbytes / GIB:.1f} GiB of memory while a run starts, and "
            f"{max(free_memory() or 0, 0) / GIB:.1f} GiB are free: read them from disk by data.stream=auto, "
            f"which needs {nbytes / GIB:.1f} GiB there, or lower data.size"
        )
