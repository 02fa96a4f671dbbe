"""metrics.jsonl: all scalars of a run, appended line by line while it trains; which other logs have them."""

import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

from cnnpool.run_folder.errors import AGAIN, DamagedError, LostError
from cnnpool.run_folder.layout import LOGGED, METRICS, TABLE, temp_prefix
from cnnpool.run_folder.reading import read_bytes
from cnnpool.system.atomic import write_bytes, write_json

LARGEST = 1e308
Record = dict[str, Any]  # ``step`` and ``epoch``, integers, and a finite number for each tag


class MetricsFile:
    """The file of one run that appends to it, from ``kept_bytes`` on; later content is dropped."""

    def __init__(self, folder: Path, kept_bytes: int = 0):
        self.path = folder / METRICS
        written = self.path.read_bytes() if self.path.exists() else b""
        if len(written) < kept_bytes:
            raise DamagedError(
                f"{self.path} has lost lines that the checkpoint needs: restore it, "
                f"or delete {folder} to train anew"
            )
        write_bytes(self.path, written[:kept_bytes], prefix=temp_prefix(folder))
        self._size = kept_bytes

    def append(self, step: int, epoch: int, values: Mapping[str, float]) -> None:
        finite = {tag: value for tag, value in values.items() if math.isfinite(value)}
        line = json.dumps({"step": step, "epoch": epoch, **finite}) + "\n"
        with self._opened() as file:
            file.write(line.encode())
        self._size += len(line)

    def sync(self) -> int:
        with self._opened() as file:
            os.fsync(file.fileno())
            return self._size

    @contextmanager
    def _opened(self) -> Iterator[BinaryIO]:
        try:
            with self.path.open("r+b") as file:
                if file.seek(0, os.SEEK_END) != self._size:
                    raise LostError(f"{self.path} was altered while its run was running: {AGAIN}")
                yield file
        except FileNotFoundError:
            raise LostError(f"{self.path} was deleted while its run was running: {AGAIN}") from None


@dataclass(frozen=True)
class Metrics:
    """The content of metrics.jsonl; ``problem`` is a line on lost content, if any."""

    records: list[Record]
    problem: str = ""


def read(folder: Path) -> Metrics:
    """The readable lines of metrics.jsonl in ``folder``; an incomplete last one is just being written."""
    path = folder / METRICS
    try:
        now = path.stat()
    except OSError:
        return _read(path)
    return _read(path, now.st_mtime_ns, now.st_size, now.st_ino)


def read_whole(folder: Path, epochs: int) -> Metrics:
    """The same of a run that finished after ``epochs``; a line that was not written to its end is lost."""
    found, path = read(folder), folder / METRICS
    reached = max((record["epoch"] for record in found.records), default=0)
    if found.problem or reached >= epochs:
        return found
    cut = f"is damaged: it ends in epoch {reached} of {epochs}" if path.exists() else "is missing"
    return Metrics(found.records, f"{path} {cut}")


def logged(folder: Path) -> dict[str, str]:
    """The logs beside metrics.jsonl that have the run's history, by name, with the run's own name there."""
    try:
        found = _json((folder / LOGGED).read_bytes())
    except OSError:
        found = None
    named = found if isinstance(found, dict) else {}
    gone = set() if (folder / TABLE).exists() else {"csv"}
    return {name: key for name, key in named.items() if isinstance(key, str) and name not in gone}


def note_logged(folder: Path, known: Mapping[str, str]) -> None:
    """Note that the logs ``known``, named as by :func:`logged`, have the run's history."""
    before = logged(folder)
    if known.items() - before.items():
        write_json(folder / LOGGED, before | dict(known), prefix=temp_prefix(folder))


@lru_cache(maxsize=256)
def _read(path: Path, *_stamp: int) -> Metrics:
    """The content of the file, cached until its stamp changes: TensorBoard asks every second."""
    try:
        *lines, _unfinished = (read_bytes(path) or b"").split(b"\n")
    except DamagedError as error:
        return Metrics([], str(error))
    found = [_record(_json(line)) for line in lines]
    damaged = [place for place, one in enumerate(found, 1) if one is None]
    problem = ""
    if damaged:
        which = f"line {damaged[0]}" + (f" and {len(damaged) - 1} more" if len(damaged) > 1 else "")
        problem = f"{path} is damaged: {which} of {len(lines)} left out"
    return Metrics([one for one in found if one is not None], problem)


def _json(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _record(content: Any) -> Record | None:
    if not isinstance(content, dict) or not {*map(type, content.values())} <= {int, float}:
        return None
    # Earlier versions also wrote non-finite values.
    content = {tag: value for tag, value in content.items() if -LARGEST <= value <= LARGEST}
    place = [content.get(key) for key in ("step", "epoch")]
    return content if all(type(value) is int and 0 <= value < 2**63 for value in place) else None
