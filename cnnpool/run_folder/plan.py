"""The jobs that a sweep plans, in a hidden folder above its runs, as long as some are left to do."""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
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


@dataclass(frozen=True)
class Plan:
    """A sweep, as its file has it.

    Args:
        jobs: folder of each run -> its part of the command line, in the order in which they begin. Folders
            are relative to that in which ``FOLDER`` lies.
    """

    jobs: dict[str, list[str]]

    def folders(self, path: Path) -> dict[Path, list[str]]:
        """The jobs of the plan in the file ``path``, with their whole folders."""
        return {path.parent.parent / name: words for name, words in self.jobs.items()}


@contextmanager
def planned(jobs: Mapping[Path, Sequence[str]]) -> Iterator[None]:
    """Within the block, the plan of ``jobs``, folder -> part of the command line, can be read.

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

    def checked(content: Any) -> Plan:
        if not isinstance(content, dict) or content.get("schema") != SCHEMA:
            raise ValueError(f"not a plan of schema {SCHEMA}")
        return validated(Plan, content)

    return read_json(path, checked)


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
    content = json.dumps({"schema": SCHEMA, "jobs": names}, indent=1, ensure_ascii=False)
    living.write(content.encode("utf-8", "backslashreplace"))
    _remove_replaced(path, jobs)
    return living


def _remove_replaced(path: Path, jobs: Mapping[Path, Sequence[str]]) -> None:
    """Remove the plans beside ``path`` of which nothing is left to do but what ``jobs`` do."""
    for other in path.parent.glob(f"*{SUFFIX}"):
        if other == path or is_locked(other):
            continue
        with suppress(DamagedError):
            plan = read(other)
            if plan and all(folder in jobs or is_run(folder) for folder in plan.folders(other)):
                other.unlink(missing_ok=True)


def _remove(living: LockedFile | None, made: Sequence[Path]) -> None:
    with suppress(OSError):
        if living:
            living.remove()
            living.path.parent.rmdir()
        for place in made:
            place.rmdir()
