"""Exclusive use of a run's folder by one process."""

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from filelock import Timeout

from cnnpool.run_folder import layout, status
from cnnpool.run_folder.errors import DamagedError, InUseError, OccupiedError
from cnnpool.system.lock_file import is_locked, lock

HARMLESS = {layout.LOG, layout.OUTPUT, layout.LOCK}  # Append-only; may exist before a run begins


@dataclass(frozen=True)
class Held:
    """A folder locked by this process, the folders ``made`` for it, deepest first, and its old content."""

    folder: Path
    made: list[Path]
    before: set[str]

    def undo(self) -> None:
        """Remove everything that this process made for a run that never began; earlier content stays."""
        for name in {layout.STATUS, layout.LOG, layout.MARK, layout.LOCK} - self.before:
            (self.folder / name).unlink(missing_ok=True)
        with suppress(OSError):
            for folder in self.made:
                folder.rmdir()


@contextmanager
def held(folder: Path) -> Iterator[Held]:
    """Lock ``folder``, made if missing, for this process; the kernel unlocks it when the process dies.

    An InUseError if another process holds it, an OccupiedError if it is not and cannot become a run's.
    """
    refuse_foreign(folder)
    mine = _made(folder)
    own = lock(folder / layout.LOCK)
    try:
        own.acquire()
    except Timeout:
        now = _status(folder)
        holder = f"pid {now.pid}" if now and now.pid else "another process"
        if now and now.machine not in (None, platform.node()):
            holder += f" on {now.machine}"
        raise InUseError(f"{folder} is in use by {holder}: wait for it, or stop it") from None
    try:
        yield mine
    except OccupiedError:
        mine.undo()
        raise
    finally:
        own.release()


def abandoned(folder: Path, now: status.Status) -> bool:
    """Whether the run in ``folder`` was killed: ``now`` is running here, but no process has the lock."""
    here = now.state == "running" and now.machine == platform.node()
    return here and is_locked(folder / layout.LOCK) is False


@contextmanager
def _usable() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OccupiedError(
            f"{error.filename}: {error.strerror}; choose another folder by out= or hydra.run.dir="
        ) from None


@_usable()
def refuse_foreign(folder: Path) -> None:
    """Raise OccupiedError unless ``folder`` is a run's, empty, or missing; HARMLESS files are allowed."""
    # Unlike ``resolve``, this accepts cyclic links, which ``stat`` then reports.
    place, home = os.path.realpath(folder), os.path.realpath(os.path.expanduser("~"))
    with suppress(FileNotFoundError):
        folder.stat()
    if place in (Path(place).anchor, home):
        raise OccupiedError(f"{folder} cannot be a run's folder: choose another by out= or hydra.run.dir=")
    if not folder.is_dir() or is_run(folder):
        return
    foreign = sorted(set(os.listdir(folder)) - HARMLESS)
    if foreign:
        more = f" and {len(foreign) - 1} more" if len(foreign) > 1 else ""
        raise OccupiedError(
            f"{folder} holds files that no run wrote ({foreign[0]}{more}): "
            "choose an empty folder by out= or hydra.run.dir="
        )


def is_run(folder: Path) -> bool:
    """Whether a run has begun in ``folder``, even if it was copied without its hidden files."""
    files = (layout.MARK, layout.RESULTS, f"{layout.CHECKPOINTS}/{layout.LAST}")
    return any((folder / name).exists() for name in files) or _status(folder) is not None


@_usable()
def _made(folder: Path) -> Held:
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    return Held(folder, missing, set(os.listdir(folder)))


def _status(folder: Path) -> status.Status | None:
    try:
        return status.read(folder)
    except DamagedError:
        return None
