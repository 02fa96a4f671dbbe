"""The runs, plans and studies below a folder, read again only when they have changed."""

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from cnnpool.choose import ledger
from cnnpool.choose.ledger import LIVE, Live
from cnnpool.report import runs
from cnnpool.report.runs import Run, entered
from cnnpool.run_folder import layout, plan
from cnnpool.run_folder.errors import DamagedError
from cnnpool.run_folder.plan import Plan

PAUSE_S = 1.0  # Shortest interval between two scans of the folders
SHARE = 0.1  # Largest share of time spent scanning: the slower the disk, the longer the pause
READ = {layout.MARK, layout.RESULTS, layout.STATUS, layout.METRICS, layout.ROUTING}
Content = TypeVar("Content")
Stamp = tuple[str, int, int, int]  # A file's name, modification time in ns, size and inode


class Found(NamedTuple):
    """A run's folder, a sweep's plan, or a study of ``cnnpool choose``, with the stamps of its files."""

    path: Path
    kind: Literal["run", "plan", "study"]
    stamps: tuple[Stamp, ...]


@dataclass(frozen=True)
class Watched(Generic[Content]):
    """A file written by a process while it ``lives``; without content it is damaged or missing."""

    path: Path
    lives: bool
    content: Content | None = None
    reason: str = ""


@dataclass(frozen=True)
class Runs:
    """Runs below ``root`` in the order of their folders; equal to others of the same ``version``."""

    version: int
    root: Path
    every: tuple[Run, ...] = field(compare=False, repr=False)

    def inside(self, folder: str) -> list[Run]:
        """The runs in ``folder`` below the root; compares paths only as text."""
        wanted = tuple(part for part in folder.split("/") if part)
        return [run for run in self.every if run.folder.relative_to(self.root).parts[: len(wanted)] == wanted]


@dataclass(frozen=True)
class Snapshot(Runs):
    """All runs at one moment, and the finished ones, with the plans of sweeps and the studies."""

    finished: Runs = field(compare=False)
    changed: dict[Path, float] = field(compare=False)
    """Folder -> last modification time of its files, in seconds since 1970."""
    sweeps: tuple[Watched[Plan], ...] = field(compare=False)
    studies: tuple[Watched[Live], ...] = field(compare=False)


class Index:
    """Follows the runs below TensorBoard's log folders, which may be created later; thread-safe.

    ``root`` is the folder that holds all of them, below which runs are named.
    """

    def __init__(self, roots: Sequence[Path]):
        self.roots = [Path(os.path.abspath(root)) for root in roots]
        self.root = Path(os.path.commonpath(self.roots))
        self._lock = threading.RLock()
        self._found: list[Found] = []
        self._next = 0.0
        self._known: dict[Path, tuple[Found, Run]] = {}
        self._descriptions: list[dict[str, Any]] = []
        self._latest: Snapshot | None = None

    def any(self) -> bool:
        """Whether there is a run, a plan or a study now, or was a moment ago."""
        return bool(self._scanned())

    def snapshot(self) -> Snapshot:
        """The runs as they are now, or were a moment ago."""
        with self._lock:
            found = self._scanned()
            if self._latest is None:
                self._latest = self._look(found)
            return self._latest

    def _scanned(self) -> list[Found]:
        with self._lock:
            began = time.monotonic()
            if began >= self._next:
                self._found, self._latest = sorted(scan(self.roots)), None
                now = time.monotonic()
                self._next = now + max(PAUSE_S, (now - began) / SHARE)
            return self._found

    def _look(self, found: Sequence[Found]) -> Snapshot:
        """A snapshot of the found items; those that have not changed are not read again."""
        self._known = {one.path: (one, self._run(one)) for one in found if one.kind == "run"}
        every = tuple(self._known.values())
        done = [(one, run) for one, run in every if run.found]
        finished = Runs(hash(tuple(one for one, _ in done)), self.root, tuple(run for _, run in done))
        sweeps = [_watched(one, plan.read, plan.lives) for one in found if one.kind == "plan"]
        studies = [_watched(one, ledger.read_live, ledger.lives) for one in found if one.kind == "study"]
        lives = [one.lives for one in sweeps] + [one.lives for one in studies]
        return Snapshot(
            hash((*found, *lives, *(run.state for _, run in every))),
            self.root,
            tuple(run for _, run in every),
            finished,
            {one.path: max((stamp[1] for stamp in one.stamps), default=0) / 1e9 for one, _ in every},
            tuple(sweeps),
            tuple(studies),
        )

    def _run(self, one: Found) -> Run:
        before, run = self._known.get(one.path, (None, None))
        # A killed process leaves all files unchanged.
        if run and before == one and run.state != "running":
            return run
        return runs.sharing(runs.read(one.path), self._descriptions)


def scan(roots: Sequence[Path]) -> Iterator[Found]:
    """Every run, plan and study below ``roots``, in the folders and by the names that ``compare`` finds."""
    there = [root for root in roots if root.is_dir() and os.access(root, os.R_OK)]
    for folder, files in entered(there, lambda *_: None).items():
        names = sorted(files & READ)
        plans = sorted((folder / plan.FOLDER).glob(f"[!.]*{plan.SUFFIX}"))
        # A file may be gone meanwhile.
        with suppress(OSError):
            yield from (Found(path, "plan", (stamp_of(path),)) for path in plans)
            if LIVE in files:
                yield Found(folder / LIVE, "study", (stamp_of(folder / LIVE),))
            if layout.MARK in files:
                yield Found(folder, "run", tuple(stamp_of(folder / name) for name in names))


def stamp_of(path: Path) -> Stamp:
    stat = path.lstat()
    return path.name, stat.st_mtime_ns, stat.st_size, stat.st_ino


def _watched(
    one: Found, read: Callable[[Path], Content | None], lives: Callable[[Path], bool]
) -> Watched[Content]:
    content = content_of(read, one.path, *one.stamps)
    if isinstance(content, DamagedError):
        return Watched(one.path, lives(one.path), reason=f"{content.reason or content}: delete it")
    return Watched(one.path, lives(one.path), content)


@lru_cache(maxsize=4096)
def content_of(read: Callable[[Path], Any], path: Path, *_stamps: Stamp) -> Any:
    """The content of the file ``path`` with these stamps, or the error if it cannot be read."""
    try:
        return read(path)
    except DamagedError as error:
        return error
