"""The planned jobs of a sweep, in a hidden folder above its runs while some are left to do."""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from annotated_types import MinLen

from cnnpool.json_text import validated
from cnnpool.run_folder.errors import DamagedError
from cnnpool.run_folder.folder_lock import is_run
from cnnpool.run_folder.reading import read_json
from cnnpool.system.atomic import write_json
from cnnpool.system.lock_file import is_locked, lock

FOLDER = ".sweeps"  # Located in the deepest folder that contains all runs of the sweep
SUFFIX = ".json"
SCHEMA = 1


@dataclass(frozen=True)
class Plan:
    """A sweep: folder of each run, relative to that of ``FOLDER`` -> its part of the command line."""

    jobs: Annotated[dict[str, list[str]], MinLen(1)]

    def folders(self, path: Path) -> dict[Path, list[str]]:
        return {path.parent.parent / name: words for name, words in self.jobs.items()}


@contextmanager
def planned(jobs: Mapping[Path, Sequence[str]]) -> Iterator[None]:
    """Within the block, keep the plan of ``jobs``, folder -> part of the command line, readable.

    A stopped or killed sweep leaves it, and the same sweep or a larger one replaces it. If it cannot be
    written, the sweep runs without it.
    """
    home = Path(os.path.commonpath(list(jobs)))
    # A run's folder does not belong to the sweep.
    home = home.parent if home in jobs else home
    names = {folder.relative_to(home).as_posix(): list(words) for folder, words in jobs.items()}
    # The same sweep uses the same file.
    digest = hashlib.sha256(json.dumps(sorted(names)).encode()).hexdigest()[:16]
    path = home / FOLDER / f"{digest}{SUFFIX}"
    made = [place for place in (path.parent, home, *home.parents) if not place.exists()]
    own = lock(_lock_of(path))
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        own.acquire()
        write_json(path, {"schema": SCHEMA, "jobs": names}, prefix="sweep", flush=False)
        _remove_replaced(path, jobs)
    stopped = False
    try:
        yield
    except BaseException as error:
        stopped = not isinstance(error, ValueError)
        raise
    finally:
        if not stopped:
            _remove(path, own.is_locked, made)
        own.release()


def lives(path: Path) -> bool:
    return bool(is_locked(_lock_of(path)))


def read(path: Path) -> Plan | None:
    """The plan in the file ``path``; None if there is none, a DamagedError if no sweep wrote it."""

    def checked(content: Any) -> Plan:
        if not isinstance(content, dict) or content.get("schema") != SCHEMA:
            raise ValueError(f"not a plan of schema {SCHEMA}")
        return validated(Plan, content)

    return read_json(path, checked)


def _lock_of(path: Path) -> Path:
    return path.with_suffix(".lock")


def _remove_replaced(path: Path, jobs: Mapping[Path, Sequence[str]]) -> None:
    """Remove the plans beside ``path`` whose remaining jobs are all among ``jobs``."""
    for other in path.parent.glob(f"*{SUFFIX}"):
        if other == path or lives(other):
            continue
        with suppress(DamagedError):
            plan = read(other)
            if plan and all(folder in jobs or is_run(folder) for folder in plan.folders(other)):
                _remove(other, True, [])


def _remove(path: Path, ours: bool, made: Sequence[Path]) -> None:
    with suppress(OSError):
        for file in (path, _lock_of(path)) if ours else ():
            file.unlink(missing_ok=True)
        for place in dict.fromkeys([path.parent, *made]):
            place.rmdir()
