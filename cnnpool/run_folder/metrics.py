"""metrics.jsonl: all scalars of a run, appended line by line while it trains."""

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from cnnpool.run_folder.errors import AGAIN, DamagedError, LostError
from cnnpool.run_folder.layout import METRICS, maker
from cnnpool.system.atomic import write_bytes

LARGEST = 1e308
Record = dict[str, Any]
"""``step`` and ``epoch``, whole numbers, and a finite number for each tag."""


class MetricsFile:
    """The file of one run that appends to it.

    Args:
        folder: of the run.
        kept_bytes: that a checkpoint counts on, from the first on; what a stopped run wrote later is dropped.

    Raises:
        DamagedError: if the file is shorter than that.
        OSError: if it cannot be written.
    """

    def __init__(self, folder: Path, kept_bytes: int = 0):
        self.path = folder / METRICS
        written = self.path.read_bytes() if self.path.exists() else b""
        if len(written) < kept_bytes:
            raise DamagedError(
                f"{self.path} has lost lines that the checkpoint needs: put it back, "
                f"or delete {folder} to train anew"
            )
        write_bytes(self.path, written[:kept_bytes], maker=maker(folder))
        self._size = kept_bytes

    def append(self, step: int, epoch: int, values: Mapping[str, float]) -> None:
        """Append one line; values that are not finite are left out.

        Raises:
            LostError: if somebody else deleted or altered the file meanwhile.
            OSError: if it cannot be written.
        """
        finite = {tag: value for tag, value in values.items() if math.isfinite(value)}
        line = json.dumps({"step": step, "epoch": epoch, **finite}) + "\n"
        with self._opened() as file:
            file.write(line.encode())
        self._size += len(line)

    def sync(self) -> int:
        """Flush all lines to the disk; returns their length in bytes. Raises as :meth:`append`."""
        with self._opened() as file:
            os.fsync(file.fileno())
            return self._size

    def digest(self) -> str:
        """The sha256 of the file, which results.json stores."""
        return hashlib.sha256(self.path.read_bytes()).hexdigest()

    @contextmanager
    def _opened(self) -> Iterator[BinaryIO]:
        try:
            with self.path.open("r+b") as file:
                if file.seek(0, os.SEEK_END) != self._size:
                    raise LostError(f"{self.path} was altered while its run went on: {AGAIN}")
                yield file
        except FileNotFoundError:
            raise LostError(f"{self.path} was deleted while its run went on: {AGAIN}") from None


@dataclass(frozen=True)
class Metrics:
    """The content of metrics.jsonl; ``problem`` is one line if some of it is lost."""

    records: list[Record]
    problem: str = ""


def read(folder: Path, digest: str | None = None) -> Metrics:
    """The lines of metrics.jsonl in ``folder`` that can be read; none where there is no file.

    Args:
        folder: of the run.
        digest: the file's sha256 as results.json has it. Without one, a last line without an end is no
            damage: a run that goes on is just writing it.
    """
    path = folder / METRICS
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return Metrics([], f"{path} is missing" if digest else "")
    except OSError as error:
        return Metrics([], f"{path} cannot be read: {error.strerror or error}")
    *lines, rest = content.split(b"\n")
    if rest and digest:
        lines.append(rest)
    read = list(map(record, lines))
    records = [one for one in read if one is not None]
    damaged = [place for place, one in enumerate(read, 1) if one is None]
    if damaged:
        which = f"line {damaged[0]}" + (f" and {len(damaged) - 1} more" if len(damaged) > 1 else "")
        return Metrics(records, f"{path} is damaged: {which} of {len(lines)} left out")
    if digest and hashlib.sha256(content).hexdigest() != digest:
        return Metrics(records, f"{path} is damaged: it was altered after the run had ended")
    return Metrics(records)


def problem(folder: Path, digest: str | None = None) -> str:
    """One line if metrics.jsonl in ``folder`` is not all that was written, else nothing; see :func:`read`."""
    if digest:
        with suppress(OSError):
            if hashlib.sha256((folder / METRICS).read_bytes()).hexdigest() == digest:
                return ""
    return read(folder, digest).problem


def record(line: bytes) -> Record | None:
    """The content of a line; None if it is no line of ours."""
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(content, dict) or any(type(value) not in (int, float) for value in content.values()):
        return None
    # Earlier versions also wrote values that are not finite.
    content = {tag: value for tag, value in content.items() if -LARGEST <= value <= LARGEST}
    place = [content.get(key) for key in ("step", "epoch")]
    return content if all(type(value) is int and value >= 0 for value in place) else None
