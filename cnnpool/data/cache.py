"""Decoded images kept on disk: written whole or not at all, believed only if their digest is right.

The pixels are one file of uint8, row after row; ``.npz`` beside it has the labels, what statistics need of
each row, and a description with the digest of all.
"""

import json
import logging
import os
import time
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from filelock import FileLock

from cnnpool.data.base import Raw, Split
from cnnpool.data.decoded import Decoded
from cnnpool.data.errors import DataError
from cnnpool.data.pictures import Pictures
from cnnpool.data.rows import File, InMemory, OnDisk, Rows, Shape
from cnnpool.system.atomic import beside, explained, flush_folder, rename, replacing, write_json
from cnnpool.system.hardware import free_memory
from cnnpool.system.progress import Progress

Stream = Literal["auto"] | bool
SHARE = 4
"""A data set is held in memory by itself if it takes at most this part of what is free."""
GIB = 1 << 30
RACY_S = 2.0
"""A file that was changed less than this ago may change again without its time showing it."""

_log = logging.getLogger(__name__)


def cached(
    path: Path, key: str, make: Callable[[Path | None], Raw], hold: Callable[[Raw], Raw] = lambda raw: raw
) -> Raw:
    """The data kept in ``path`` under ``key``, else what ``make`` gives, kept for the next time.

    Of several processes one makes it while the others wait. Where nothing can be written (no right, no room)
    the data is made and not kept.

    Args:
        path: file of the pixels; its folder is created.
        key: changes when the data would; a file with another key is replaced.
        make: given the file to write pixels into, or None; data that does not lie there is not kept.
        hold: what the data is read through, e.g. into memory.
    """
    raw = _load(path, key, hold)
    if raw is not None:
        return raw
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(f"{path}.lock")
        with Progress("waiting for another process that decodes these images"):
            lock.acquire()
    except OSError as error:
        _log.warning("cannot keep decoded images in %s (%s)", path.parent, error)
        return hold(make(None))
    part = beside(path, "cache")
    try:
        raw = _load(path, key, hold)
        if raw is None:
            raw = make(part)
            _save(path, part, key, raw)
            raw = hold(replace(raw, known_sha256=raw.sha256))
    finally:
        part.unlink(missing_ok=True)
        lock.release()
    return raw


def _facts(path: Path) -> Path:
    return path.with_suffix(".npz")


def _load(path: Path, key: str, hold: Callable[[Raw], Raw]) -> Raw | None:
    """The content of ``path``, or None if it is missing, damaged or of another kind."""
    try:
        with np.load(_facts(path)) as found:
            facts = json.loads(found["facts"].item())
            if facts["key"] != key:
                return None
            file = File(path)
            if os.fstat(file.descriptor).st_size != facts["nbytes"]:
                raise ValueError("it has another length")
            arrays = {name: torch.from_numpy(found[name]) for name in found.files if name != "facts"}
        splits = {
            part: Split(
                OnDisk(file, tuple(facts["shape"]), arrays[f"{part}.places"], arrays[f"{part}.sums"]),
                arrays[f"{part}.labels"],
            )
            for part in facts["parts"]
        }
        classes, notes = tuple(facts["classes"]), tuple(facts["notes"])
        raw = hold(Raw(classes, splits["train"], splits["test"], splits.get("val"), notes, facts["skipped"]))
        digest = raw.sha256 if raw.in_memory else digest_of(path, "all", lambda: _checked(raw))
        if digest != facts["sha256"]:
            raise ValueError("its digest is wrong")
        return replace(raw, known_sha256=digest)
    except FileNotFoundError:
        return None
    except DataError:
        # Too little memory, or a disk that fails.
        raise
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile) as error:
        _log.warning("%s is damaged and will be made again (%s)", path, error)
        return None


def _checked(raw: Raw) -> str:
    with Progress("checking decoded images"):
        return raw.sha256


def _save(path: Path, part: Path, key: str, raw: Raw) -> None:
    """Describe the pixels in ``part`` and rename both files. Needs the lock.

    A process killed here leaves the old pair, or one whose digest is wrong.
    """
    if not isinstance(raw.train.rows, OnDisk):
        return
    file = raw.train.rows.file
    arrays: dict[str, Any] = {}
    for name, split in raw.splits.items():
        assert isinstance(split.rows, OnDisk)
        arrays |= {
            f"{name}.places": split.rows.places.numpy(),
            f"{name}.sums": split.rows.row_sums.numpy(),
            f"{name}.labels": split.labels.numpy(),
        }
    facts: dict[str, Any] = {"key": key, "classes": raw.classes, "sha256": raw.sha256}
    facts |= {"shape": raw.train.rows.shape, "nbytes": os.fstat(file.descriptor).st_size}
    facts |= {"parts": list(raw.splits)}
    facts |= {"notes": raw.notes, "skipped": dict(raw.skipped)}
    try:
        with replacing(_facts(path), maker="cache") as description:
            np.savez(description, facts=np.array(json.dumps(facts)), **arrays)
            os.fsync(file.descriptor)
            rename(part, path)
        flush_folder(path.parent)
        file.path = path
    except OSError as error:
        said = explained(error, path).strerror
        _log.warning("cannot keep decoded images in %s (%s)", path.parent, said)


def digest_of(path: Path, subject: str, compute: Callable[[], str]) -> str:
    """The digest that ``compute`` gives, remembered beside ``path`` until that file changes.

    Args:
        path: file that it depends on.
        subject: else it depends on.
        compute: from the file.
    """
    memory = path.with_name(f"{path.name}.digests")
    state, begun = _state(path), time.time()
    known = _known(memory, state)
    if subject in known:
        return known[subject]
    digest = compute()
    if _state(path) == state and path.stat().st_ctime < begun - RACY_S:
        # It costs time next time, no more.
        with suppress(OSError):
            digests = {**_known(memory, state), subject: digest}
            write_json(memory, {"state": state, "digests": digests}, flush=False)
    return digest


def _known(memory: Path, state: list[int]) -> dict[str, str]:
    try:
        content = json.loads(memory.read_text(encoding="utf-8"))
        return dict(content["digests"]) if content["state"] == state else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _state(path: Path) -> list[int]:
    status = path.stat()
    return [status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def begin(
    pictures: Pictures,
    numbers: Sequence[int],
    costs: Sequence[int],
    shape: Shape,
    *,
    part: Path | None,
    stream: Stream,
) -> Rows:
    """Rows for the images ``numbers`` of ``pictures``: in the file ``part`` where the disk has room for it.

    Without room, images are held in memory if they fit there twice, as a run needs while it starts, and are
    else decoded anew each time they are needed.

    Args:
        pictures, numbers, costs, shape: as of ``Decoded``.
        part: file to write; None if nothing can be written.
        stream: true to hold none in memory; false to hold all.

    Raises:
        DataError: if all shall be held in memory, and do not fit.
    """
    count = len(numbers)
    nbytes = count * shape[0] * shape[1] * shape[2]
    if stream is False:
        _check_memory(count, shape)
    if part is not None:
        try:
            return OnDisk.new(part, count, shape)
        except OSError as error:
            part.unlink(missing_ok=True)
            said = explained(error, part, nbytes).strerror
            _log.warning("cannot keep decoded images in %s (%s)", part.parent, said)
    if stream is False or (stream == "auto" and _fits(nbytes, 2)):
        return InMemory(torch.empty((count, *shape), dtype=torch.uint8))
    return Decoded(pictures, numbers, costs, shape)


def hold(raw: Raw, stream: Stream) -> Raw:
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
    needed, free = 2 * images * shape[0] * shape[1] * shape[2], free_memory()
    if free is not None and needed > free:
        raise DataError(
            f"{images:,} images of {shape[0]}x{shape[1]} take {needed / GIB:.1f} GiB of memory while a run "
            f"starts, and {max(free, 0) / GIB:.1f} GiB are free: read them from disk by data.stream=auto, or "
            "lower data.size"
        )
