"""The jobs below the log folder that are not done, and the studies of ``cnnpool choose``."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from cnnpool.choose.ledger import Live
from cnnpool.report.plots.learning_curve import ACCURACY
from cnnpool.report.runs import Run
from cnnpool.run_folder import metrics
from cnnpool.tensorboard.index import Snapshot, Watched
from cnnpool.tensorboard.view import settings_of, unreadable

MOST = 60  # Most jobs listed by name
DEPTH = 4  # Most levels of folders below the root whose runs can be viewed separately
SILENT_S = 300
WAITING, LEFT = "waiting", "not started"
STATES = ("done", "running", WAITING, "failed", "unfinished", LEFT, "damaged")
ORDER = ("running", "failed", "damaged", "unfinished", LEFT, WAITING)


@dataclass(frozen=True)
class Job:
    """A run that is not done: its folder below the log folder, how far it has come, or why it ended.

    ``changed`` is when its files last changed, in seconds since 1970; ``typed`` its own part of the command.
    """

    folder: str
    state: str
    reason: str = ""
    epoch: int | None = None
    epochs: int | None = None
    accuracy: float | None = None
    changed: float = 0.0
    typed: str = ""

    @property
    def reached(self) -> str:
        of = f" of {self.epochs}" if self.epochs else ""
        found = [f"epoch {self.epoch}{of}"] if self.epoch is not None else []
        if self.accuracy is not None:
            found.append(f"validation accuracy {self.accuracy:.2f} %")
        return ", ".join(found)

    @property
    def said(self) -> str:
        """How far it has come, and why it ended or since when it is silent."""
        silent = time.time() - self.changed
        quiet = self.state == "running" and self.changed and silent > SILENT_S
        why = f"no sign for {silent / 60:.0f} min" if quiet else self.reason
        return "; ".join(filter(None, [self.reached, why]))


@dataclass(frozen=True)
class Jobs:
    """Counts by state, the first jobs that are not done, how many these are, and folders to choose."""

    counts: dict[str, int]
    listed: list[Job]
    total: int
    folders: list[tuple[str, int]]


@lru_cache(maxsize=2)
def jobs(now: Snapshot) -> Jobs:
    root = now.root
    listed = [_job(run, root, now.changed[run.folder]) for run in now.every if run.state != "done"]
    watched = [one for every in (now.sweeps, now.studies) for one in every]
    listed += [Job(below(one.path, root), "damaged", one.reason) for one in watched if one.reason]
    listed += planned(now)
    listed.sort(key=lambda job: ORDER.index(job.state))
    done = sum(run.state == "done" for run in now.every)
    counts = Counter(job.state for job in listed) + Counter(done=done)
    found = {state: counts[state] for state in STATES if counts[state]}
    return Jobs(found, listed[:MOST], len(listed), folders(now.every, root))


def below(path: Path, root: Path) -> str:
    """``path`` relative to ``root``, with forward slashes."""
    return path.relative_to(root).as_posix()


def folders(runs: Sequence[Run], root: Path) -> list[tuple[str, int]]:
    """The folders below ``root`` with runs of several choices, and their numbers, without redundant ones."""
    counts: Counter[str] = Counter()
    for run in runs:
        # The last two levels are the choice and the seed.
        parts = run.folder.relative_to(root).parts[:-2][:DEPTH]
        counts.update("/".join(parts[:depth]) for depth in range(1, len(parts) + 1))
    return sorted((name, count) for name, count in counts.items() if count < len(runs))


def _job(run: Run, root: Path, changed: float) -> Job:
    own = settings_of(run.folder)
    lines = metrics.read(run.folder).records
    accuracies = [record[ACCURACY] for record in lines if ACCURACY in record]
    epochs = own.fit.get("epochs") if own else None
    return Job(
        below(run.folder, root),
        run.state,
        "; ".join(filter(None, [run.reason, unreadable(run.folder)])),
        max((int(record["epoch"]) for record in lines), default=None),
        epochs if isinstance(epochs, int) else None,
        100 * accuracies[-1] if accuracies else None,
        changed,
    )


def planned(now: Snapshot) -> list[Job]:
    """The jobs of sweeps that have not begun."""
    begun, found = {run.folder for run in now.every}, dict[Path, Job]()
    # A running sweep may have taken over jobs of one that ended.
    for one in sorted(now.sweeps, key=lambda one: one.lives):
        state, reason = WAITING, ""
        if not one.lives:
            state, reason = LEFT, "its sweep has ended; rerun the same command to resume"
        every = one.content.folders(one.path) if one.content else {}
        shared = set.intersection(*map(set, every.values())) if len(every) > 1 else set()
        for folder in [one for one in every if one not in begun]:
            typed = " ".join(word for word in every[folder] if word not in shared)
            found[folder] = Job(below(folder, now.root), state, reason, typed=typed)
    return list(found.values())


@dataclass(frozen=True)
class Shown:
    """A study at this moment, in its folder below the log folder."""

    folder: str
    state: str
    live: Live
    spent_s: float

    @property
    def said(self) -> str:
        """Its recommendation, or how far it has come."""
        live = self.live
        if live.verdict:
            return live.verdict
        left = f"{sum(live.left)} of {len(live.left)} candidates are left."
        if self.state == "stopped":
            return f"{left} Stopped: rerun the same command to resume."
        now = f"{live.said[:1].upper()}{live.said[1:]}: {live.ended} of {live.requested} runs have ended."
        return f"{left} {now}" if live.requested else left


def studies(now: Snapshot) -> list[Shown]:
    """The running studies first, then the one written last."""
    found = [_study(one, one.content, now.root) for one in now.studies if one.content]
    return sorted(found, key=lambda one: (one.state != "running", -one.live.time))


def _study(study: Watched[Live], live: Live, root: Path) -> Shown:
    # A study whose time ended before its first round has no result.
    state = "done" if live.verdict and live.rounds else "running" if study.lives else "stopped"
    passed = max(0.0, time.time() - live.time) if state == "running" else 0.0
    spent = min(live.spent_s + passed, live.budget_s) if passed else live.spent_s
    return Shown(below(study.path.parent, root), state, live, spent)
