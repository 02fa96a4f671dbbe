"""Decoded images kept on disk: written whole or not at all, believed only if their digest is right.

A file holds all pixels, row after row, then the labels, what statistics need of each row, a description in
JSON, and a seal of fixed length: the digest of all that follows the pixels, and where that begins.
"""

import hashlib
import json
import logging
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock

from cnnpool.data.base import Raw, Split
from cnnpool.data.remembered import remembered
from cnnpool.data.rows import File, OnDisk
from cnnpool.system.atomic import beside, flush_folder, rename
from cnnpool.system.disk import explained
from cnnpool.system.progress import Progress

SEAL = 64 + 20
"""Bytes at the end: a digest in hexadecimal digits, and the place of what it is of, in decimal ones."""

_log = logging.getLogger(__name__)


def cached(
    path: Path, key: str, make: Callable[[Path | None], Raw], hold: Callable[[Raw], Raw] = lambda raw: raw
) -> Raw:
    """The data kept in ``path`` under ``key``, else what ``make`` gives, kept for the next time.

    Of several processes one makes it while the others wait. Where nothing can be written (no right, no room)
    the data is made and not kept.

    Args:
        path: file; its folder is created.
        key: changes when the data would; a file with another key is replaced.
        make: given the file to write pixels into by a ``FileDraft``, or None; data that does not lie there
            is not kept.
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


def _load(path: Path, key: str, hold: Callable[[Raw], Raw]) -> Raw | None:
    """The content of ``path``, or None if it is missing, damaged or of another kind."""
    try:
        file = File(path)
        facts, labels, row_sums = _read(file)
        if facts["key"] != key:
            return None
        shape = (facts["shape"][0], facts["shape"][1], facts["shape"][2])
        splits = {
            part: Split(
                OnDisk(file, shape, torch.arange(first, first + count), row_sums[first : first + count]),
                labels[first : first + count],
            )
            for part, (first, count) in facts["splits"].items()
        }
        raw = hold(
            Raw(
                tuple(facts["classes"]),
                splits["train"],
                splits["test"],
                splits.get("val"),
                tuple(facts["notes"]),
                facts["skipped"],
            )
        )
        found = raw.sha256 if raw.in_memory else remembered(path, "all", lambda: _checked(raw))
        if found != facts["sha256"]:
            raise ValueError("its digest is wrong")
        return replace(raw, known_sha256=found)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, IndexError) as error:
        if not _is_of_old_kind(path):
            _log.warning("%s is damaged and will be made again (%s)", path, error)
        return None


def _checked(raw: Raw) -> str:
    with Progress("checking decoded images"):
        return raw.sha256


def _read(file: File) -> tuple[dict[str, Any], torch.Tensor, torch.Tensor]:
    """Description, labels and sums of each row in a whole file.

    Raises:
        ValueError: if the file is damaged.
    """
    size = os.fstat(file.descriptor).st_size
    if size < SEAL:
        raise ValueError("it is too short")
    seal = np.empty(SEAL, np.uint8)
    file.read_into(seal, size - SEAL)
    text = seal.tobytes().decode("ascii")
    begin = int(text[64:])
    if not 0 <= begin <= size - SEAL:
        raise ValueError("its seal is wrong")
    rest = np.empty(size - SEAL - begin, np.uint8)
    file.read_into(rest, begin)
    content = rest.tobytes()
    if hashlib.sha256(content).hexdigest() + f"{begin:020d}" != text:
        raise ValueError("its seal is wrong")
    count, channels = int.from_bytes(content[:8], "little"), int.from_bytes(content[8:16], "little")
    numbers = np.frombuffer(content, "<i8", count * (1 + 2 * channels), offset=16).astype(np.int64)
    labels, row_sums = torch.from_numpy(numbers).split([count, 2 * channels * count])
    facts = json.loads(content[16 + numbers.nbytes :])
    return facts, labels, row_sums.view(count, 2, channels)


def _save(path: Path, part: Path, key: str, raw: Raw) -> None:
    """Seal ``part``, then rename it: whoever is killed here leaves the old file or none. Needs the lock."""
    splits = raw.splits
    files = [split.rows.file for split in splits.values() if isinstance(split.rows, OnDisk)]
    if len(files) < len(splits) or any(file.path != part for file in files):
        return
    labels, row_sums, places = _by_place(splits)
    facts = {
        "key": key,
        "classes": raw.classes,
        "sha256": raw.sha256,
        "shape": raw.train.rows.shape,
        "splits": places,
        "notes": raw.notes,
        "skipped": raw.skipped,
    }
    count, channels = len(labels), row_sums.shape[2]
    content = count.to_bytes(8, "little") + channels.to_bytes(8, "little")
    content += labels.numpy().astype("<i8", copy=False).tobytes()
    content += row_sums.numpy().astype("<i8", copy=False).tobytes()
    content += json.dumps(facts).encode()
    try:
        with part.open("ab") as file:
            file.write(content + f"{hashlib.sha256(content).hexdigest()}{file.tell():020d}".encode())
            file.flush()
            os.fsync(file.fileno())
        rename(part, path)
        flush_folder(path.parent)
        for own in files:
            own.path = path
    except OSError as error:
        said = explained(error, path, len(content)).strerror
        _log.warning("cannot keep decoded images in %s (%s)", path.parent, said)


def _by_place(
    splits: dict[str, Split],
) -> tuple[torch.Tensor, torch.Tensor, dict[str, tuple[int, int]]]:
    """Labels and sums of all rows as they lie in the file, and (first, count) of each split.

    Raises:
        ValueError: if the splits do not lie there one after another.
    """
    found = []
    for part, split in splits.items():
        rows = split.rows
        assert isinstance(rows, OnDisk)
        first = int(rows.places[0]) if len(rows) else -1
        found.append((first, part, split.labels, rows))
    found.sort(key=lambda one: one[0])
    places, end = {}, 0
    for _, part, labels, rows in found:
        if not torch.equal(rows.places, torch.arange(end, end + len(rows))):
            raise ValueError(f"the rows of {part} do not follow those before")
        places[part] = (end, len(labels))
        end += len(labels)
    return (
        torch.cat([labels for _, _, labels, _ in found]),
        torch.cat([rows.row_sums for _, _, _, rows in found]),
        places,
    )


def _is_of_old_kind(path: Path) -> bool:
    """Whether ``path`` is a whole file as earlier versions wrote them: a digest, and a line that has it."""
    try:
        with path.open("rb") as file:
            seal, header = file.readline(66).strip(), file.readline(1 << 26)
    except OSError:
        return False
    return hashlib.sha256(header).hexdigest().encode() == seal
