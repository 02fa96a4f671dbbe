"""The run folders below a folder, read again only where they have changed."""

import os
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cnnpool.choose import live_file
from cnnpool.report import runs
from cnnpool.report.runs import Run
from cnnpool.run_folder import layout, plan
from cnnpool.run_folder.tail import Tail
from cnnpool.tensorboard.scan import READ, Signature, scan
from cnnpool.tensorboard.studies import Study
from cnnpool.tensorboard.sweeps import Sweep
from cnnpool.tensorboard.watched import look

PAUSE_S = 1.0
"""A look at the folders is not repeated sooner."""
SHARE = 0.1
"""Of the time that goes into looking: the slower the disk, the longer the pause."""


@dataclass(frozen=True)
class Snapshot:
    """All runs at one moment, in the order of their folders.

    Args:
        version: another number whenever anything has changed.
        results: another number whenever a finished run has come, gone or changed.
        runs: each with its folder below the root.
        changed: folder -> when a file of it was last written, in seconds since 1970.
        sweeps: those that left a plan.
        studies: those of ``cnnpool choose``.
    """

    version: int
    results: int
    runs: tuple[Run, ...]
    changed: dict[Path, float]
    sweeps: tuple[Sweep, ...] = ()
    studies: tuple[Study, ...] = ()


class Index:
    """Follows the runs below ``root``; for several threads.

    Links that lead out of ``root`` are not followed: a run with such a file is reported as damaged.

    Args:
        root: TensorBoard's log folder; it may come into being later.
    """

    def __init__(self, root: Path):
        self.root = root
        self._lock = threading.Lock()
        self._known: dict[Path, tuple[Signature, Run]] = {}
        self._tails: dict[Path, Tail] = {}
        self._descriptions: list[dict[str, Any]] = []
        self._next = 0.0
        # Two servers, one after the other on the same port, should not agree by chance.
        start = time.time_ns() // 1_000_000
        self._snapshot = Snapshot(start, start, (), {})

    def any(self) -> bool:
        """Whether there is a run or a plan; the first that is found answers."""
        return bool(self._known) or next(scan(self.root), None) is not None

    def snapshot(self) -> Snapshot:
        """The runs as they are now, or were a moment ago."""
        with self._lock:
            if time.monotonic() >= self._next:
                pause = self._look()
                self._next = time.monotonic() + pause
            return self._snapshot

    def _look(self) -> float:
        """Take a new snapshot; seconds until the next one: files that were read are not read again."""
        began = time.monotonic()
        every = list(scan(self.root))
        pause = max(PAUSE_S, (time.monotonic() - began) / SHARE)
        found = dict(sorted((one.path, one.signature) for one in every if one.kind == "run"))
        now: dict[Path, tuple[Signature, Run]] = {}
        for folder, signature in found.items():
            known = self._known.get(folder)
            # A killed process leaves all files as they are.
            same = known and known[0] == signature and known[1].state != "running"
            now[folder] = known if known and same else (signature, self._read(folder))
        before = self._snapshot
        version, results = before.version, before.results
        if _states(now) != _states(self._known):
            version += 1
            results += _finished(now) != _finished(self._known)
        sweeps = look(every, "plan", plan.read, before.sweeps)
        studies = look(every, "study", live_file.read, before.studies)
        if version == before.version:
            version += (sweeps, studies) != (before.sweeps, before.studies)
        self._known = now
        self._tails = {folder: tail for folder, tail in self._tails.items() if folder in now}
        changed = {
            folder: max((one[1] for one in signature), default=0) / 1e9
            for folder, (signature, _) in now.items()
        }
        every_run = tuple(run for _, run in now.values())
        self._snapshot = Snapshot(version, results, every_run, changed, sweeps, studies)
        return pause

    def _read(self, folder: Path) -> Run:
        if name := _leads_out(folder, self.root):
            return Run(folder, "damaged", f"{name} is a link that leads out of the log folder: not read")
        run = runs.sharing(runs.read(folder), self._descriptions)
        if run.found:
            self._tails.pop(folder, None)
            return replace(run, problem=runs.problem(run))
        tail = self._tails.setdefault(folder, Tail(folder))
        return replace(run, history=tail.records)


def _states(known: dict[Path, tuple[Signature, Run]]) -> dict[Path, tuple[Signature, str]]:
    return {folder: (signature, run.state) for folder, (signature, run) in known.items()}


def _finished(known: dict[Path, tuple[Signature, Run]]) -> dict[Path, Signature]:
    return {folder: signature for folder, (signature, run) in known.items() if run.found}


def _leads_out(folder: Path, root: Path) -> str:
    """The name of a file of the run that is a link to somewhere else; empty if none is."""
    names = (*READ, f"{layout.SETTINGS}/config.yaml", f"{layout.SETTINGS}/overrides.yaml", layout.SETTINGS)
    home = os.path.realpath(root)
    for name in names:
        path = folder / name
        if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(home):
            return name
    return ""
