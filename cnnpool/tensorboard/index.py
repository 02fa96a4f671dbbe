"""The runs, plans and studies below a folder, read again only when they have changed."""

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

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
Kind = Literal["run", "plan", "study"]
Content = TypeVar("Content")
Stamp = tuple[str, int, int, int]  # A file's name, modification time in ns, size and inode
Signature = tuple[Stamp, ...]  # Sorted stamps of all files that belong to one thing


@dataclass(frozen=True)
class Found:
    """A run's folder, a sweep's plan, or a study of ``cnnpool choose``."""

    kind: Kind
    path: Path
    signature: Signature


@dataclass(frozen=True)
class Watched(Generic[Content]):
    """A file written by a process while it ``lives``; without content it is damaged or missing."""

    path: Path
    signature: Signature
    lives: bool
    content: Content | None = None
    reason: str = ""


@dataclass(frozen=True)
class Snapshot:
    """All runs at one moment, in the order of their folders, with the plans of sweeps and the studies."""

    version: int  # Changes whenever anything changes
    results: int  # Changes whenever a finished run is added, removed or changed
    runs: tuple[Run, ...]
    changed: dict[Path, float]  # Folder -> last modification time of its files, in seconds since 1970
    sweeps: tuple[Watched[Plan], ...] = ()
    studies: tuple[Watched[Live], ...] = ()


class Index:
    """Follows the runs below TensorBoard's log folders, which may be created later; thread-safe.

    ``root`` is the folder that holds all of them, below which runs are named.
    """

    def __init__(self, roots: Sequence[Path]):
        self.roots = [Path(os.path.abspath(root)) for root in roots]
        self.root = Path(os.path.commonpath(self.roots))
        self._lock = threading.Lock()
        self._known: dict[Path, tuple[Signature, Run]] = {}
        self._descriptions: list[dict[str, Any]] = []
        self._next = self._next_glance = 0.0
        self._found = False
        # Start at the time, so that two successive servers on a port never share a version.
        start = time.time_ns() // 1_000_000
        self._snapshot = Snapshot(start, start, (), {})

    def any(self) -> bool:
        """Whether there is a run, a plan or a study now, or was a moment ago."""
        with self._lock:
            began = time.monotonic()
            if not self._known and began >= self._next_glance:
                self._found = next(scan(self.roots), None) is not None
                self._next_glance = time.monotonic() + _pause(began)
            return bool(self._known) or self._found

    def snapshot(self) -> Snapshot:
        """The runs as they are now, or were a moment ago."""
        with self._lock:
            began = time.monotonic()
            if began >= self._next:
                every = sorted(scan(self.roots), key=lambda one: one.path)
                # Longer for slow disks; unchanged files are not read again.
                pause = _pause(began)
                self._look(every)
                self._next = time.monotonic() + pause
            return self._snapshot

    def _look(self, every: Sequence[Found]) -> None:
        """Take a new snapshot of the found items."""
        now = {one.path: (one.signature, self._run(one)) for one in every if one.kind == "run"}
        before = self._snapshot
        version, results = before.version, before.results
        if _states(now) != _states(self._known):
            version += 1
            results += _states(now, finished=True) != _states(self._known, finished=True)
        sweeps = _watched(every, "plan", plan.read, plan.lives, before.sweeps)
        studies = _watched(every, "study", ledger.read_live, ledger.lives, before.studies)
        if version == before.version:
            version += (sweeps, studies) != (before.sweeps, before.studies)
        self._known = now
        changed = {path: max((one[1] for one in own), default=0) / 1e9 for path, (own, _) in now.items()}
        every_run = tuple(run for _, run in now.values())
        self._snapshot = Snapshot(version, results, every_run, changed, sweeps, studies)

    def _run(self, one: Found) -> Run:
        known = self._known.get(one.path)
        # A killed process leaves all files unchanged.
        if known and known[0] == one.signature and known[1].state != "running":
            return known[1]
        return runs.sharing(runs.read(one.path), self._descriptions)


def scan(roots: Sequence[Path]) -> Iterator[Found]:
    """Every run, plan and study below ``roots``, in the folders and by the names that ``compare`` finds."""
    there = [root for root in roots if root.is_dir() and os.access(root, os.R_OK)]
    for one in entered(there, lambda *_: None):
        folder, names = one.folder, sorted(one.files & READ)
        plans = sorted((folder / plan.FOLDER).glob(f"[!.]*{plan.SUFFIX}"))
        # A file may be gone meanwhile.
        with suppress(OSError):
            yield from (Found("plan", path, (_stamp(path),)) for path in plans)
            if LIVE in one.files:
                yield Found("study", folder / LIVE, (_stamp(folder / LIVE),))
            if layout.MARK in one.files:
                yield Found("run", folder, tuple(_stamp(folder / name) for name in names))


def _stamp(path: Path) -> Stamp:
    stat = path.lstat()
    return path.name, stat.st_mtime_ns, stat.st_size, stat.st_ino


def _pause(began: float) -> float:
    """Seconds until the next scan of the folders, the last of which started at ``began``."""
    return max(PAUSE_S, (time.monotonic() - began) / SHARE)


def _states(known: dict[Path, tuple[Signature, Run]], *, finished: bool = False) -> dict[Path, object]:
    return {path: (own, run.state) for path, (own, run) in known.items() if run.found or not finished}


def _watched(
    every: Sequence[Found],
    kind: Kind,
    read: Callable[[Path], Content | None],
    lives: Callable[[Path], bool],
    before: Sequence[Watched[Content]],
) -> tuple[Watched[Content], ...]:
    """The files of one ``kind``; those unchanged since ``before`` are not read."""
    known = {(one.path, one.signature): one for one in before}
    now = []
    for path, signature in [(one.path, one.signature) for one in every if one.kind == kind]:
        one = known.get((path, signature))
        if not one:
            one = Watched(path, signature, False)
            try:
                one = replace(one, content=read(path))
            except DamagedError as error:
                one = replace(one, reason=f"{error.reason or error}: delete it")
        now.append(replace(one, lives=lives(path)))
    return tuple(now)
