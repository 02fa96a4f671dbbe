"""The jobs that a sweep plans, in a hidden folder above its runs, as long as some are left to do."""

import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from cnnpool.json_text import validated
from cnnpool.run_folder.errors import DamagedError
from cnnpool.run_folder.folder_lock import is_run
from cnnpool.run_folder.reading import read_json
from cnnpool.system.lock_file import LockedFile, is_locked

FOLDER = ".sweeps"
"""Lies in the deepest folder that holds all runs of the sweep."""
SUFFIX = ".json"
SCHEMA = 1
LONGEST = 1 << 28
"""Bytes; a job is a few hundred of them."""


@dataclass(frozen=True)
class Plan:
    """A sweep.

    Args:
        jobs: folder of each run -> its part of the command line, in the order in which they begin.
        time: of the sweep's beginning, in seconds since 1970.
    """

    jobs: Mapping[Path, Sequence[str]]
    time: float


@dataclass(frozen=True)
class _File:
    time: float
    jobs: dict[str, list[str]]


@contextmanager
def planned(jobs: Mapping[Path, Sequence[str]]) -> Iterator[None]:
    """Within the block, the plan of ``jobs`` (as of :class:`Plan`) can be read.

    It goes when all have ended, and after a mistake. A sweep that was stopped or killed leaves it, and the
    same sweep or a larger one replaces it. Where it cannot be written, the sweep goes on without.
    """
    home = _home(jobs)
    made = [place for place in (home, *home.parents) if not place.exists()]
    living: LockedFile | None = None
    with suppress(OSError):
        living = _write(home / FOLDER, jobs)
    try:
        yield
    except ValueError:
        _remove(living, made)
        raise
    except BaseException:
        if living:
            living.release()
        raise
    _remove(living, made)


def read(path: Path) -> Plan | None:
    """The plan in the file ``path``; None where there is none.

    Raises:
        DamagedError: if the file is not what a sweep wrote.
    """
    home = path.parent.parent

    def checked(content: Any) -> Plan:
        if not isinstance(content, dict) or content.get("schema") != SCHEMA:
            raise ValueError(f"not a plan of schema {SCHEMA}")
        file = validated(_File, content)
        return Plan({_below(home, name): words for name, words in file.jobs.items()}, file.time)

    return read_json(path, checked, most=LONGEST)


def _home(jobs: Mapping[Path, Sequence[str]]) -> Path:
    home = Path(os.path.commonpath(list(jobs)))
    # A run's folder is none of the sweep's.
    return home.parent if home in jobs else home


def _write(place: Path, jobs: Mapping[Path, Sequence[str]]) -> LockedFile:
    names = {folder.relative_to(place.parent).as_posix(): list(words) for folder, words in jobs.items()}
    # The same sweep has the same file.
    path = place / f"{hashlib.sha256(json.dumps(sorted(names)).encode()).hexdigest()[:16]}{SUFFIX}"
    place.mkdir(parents=True, exist_ok=True)
    for part in place.glob(f".{path.name}.*"):
        part.unlink(missing_ok=True)
    living = LockedFile(path)
    content = {"schema": SCHEMA, **asdict(_File(time.time(), names))}
    living.write(json.dumps(content, indent=1, ensure_ascii=False).encode("utf-8", "backslashreplace"))
    _remove_replaced(path, jobs)
    return living


def _remove_replaced(path: Path, jobs: Mapping[Path, Sequence[str]]) -> None:
    """Remove the plans beside ``path`` of which nothing is left to do but what ``jobs`` do."""
    for other in path.parent.glob(f"*{SUFFIX}"):
        if other == path or is_locked(other):
            continue
        with suppress(DamagedError):
            plan = read(other)
            if plan and all(folder in jobs or is_run(folder) for folder in plan.jobs):
                other.unlink(missing_ok=True)


def _remove(living: LockedFile | None, made: Sequence[Path]) -> None:
    with suppress(OSError):
        if living:
            living.remove()
            living.path.parent.rmdir()
        for place in made:
            place.rmdir()


def _below(home: Path, name: str) -> Path:
    parts = PurePosixPath(name).parts
    if not parts or ".." in parts or PurePosixPath(name).is_absolute():
        raise ValueError(f"{name!r} is no folder below it")
    return home.joinpath(*parts)
