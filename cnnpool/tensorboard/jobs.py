"""Runs, planned jobs and studies by their state: how far they have come, and why others ended."""

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cnnpool.choose.live_file import Live
from cnnpool.report.plots.learning_curve import ACCURACY
from cnnpool.report.runs import Run, logged
from cnnpool.run_folder.plan import Plan
from cnnpool.tables import Column
from cnnpool.tensorboard.index import Snapshot, Watched
from cnnpool.tensorboard.view import asked, unreadable

DEPTH = 4
"""Levels of folders below the root whose runs can be looked at alone."""
WAITING, LEFT = "waiting", "not started"
STATES = ("done", "running", WAITING, "failed", "unfinished", LEFT, "damaged")
MOST = 60
"""Of the planned jobs that have not begun, those that are named."""
Waiting = Mapping[Path, tuple[str, Sequence[str]]]
"""Folder -> waiting or not started, and the job's own overrides."""


def jobs(now: Snapshot, root: Path) -> dict[str, Any]:
    """Counts by state, the runs that are not done or have not begun, and the folders with several runs."""
    waiting = planned(now.sweeps, (run.folder for run in now.runs))
    begun = [_job(run, root, now.changed.get(run.folder, 0.0)) for run in now.runs if not run.found]
    watched = [(one.path, one.reason) for one in now.sweeps] + [(one.path, one.reason) for one in now.studies]
    damaged = [
        {"folder": below(path, root), "state": "damaged", "reason": reason}
        for path, reason in watched
        if reason
    ]
    counts = Counter([run.state for run in now.runs] + [state for state, _ in waiting.values()])
    counts["damaged"] += len(damaged)
    return {
        "counts": {state: counts[state] for state in STATES if counts[state]},
        "unfinished": begun + damaged + _not_begun(waiting, root),
        "folders": folders(now.runs, root),
        "studies": _studies(now.studies, root),
    }


def below(path: Path, root: Path) -> str:
    """``path`` below ``root``, with forward slashes."""
    return path.relative_to(root).as_posix()


def cells(columns: Sequence[Column]) -> list[dict[str, Any]]:
    """A table as plain data for the page."""
    return [{"header": one.header, "cells": one.cells, "words": one.words} for one in columns]


def folders(runs: Sequence[Run], root: Path) -> list[dict[str, Any]]:
    """The folders below ``root`` with runs of several choices, and how many: those that say something."""
    counts: Counter[str] = Counter()
    for run in runs:
        # The last two levels are the choice and the seed.
        parts = run.folder.relative_to(root).parts[:-2][:DEPTH]
        counts.update("/".join(parts[:depth]) for depth in range(1, len(parts) + 1))
    found = sorted(name for name, count in counts.items() if count < len(runs))
    return [{"folder": name, "runs": counts[name]} for name in found]


def _job(run: Run, root: Path, changed: float) -> dict[str, Any]:
    own = asked(run.folder)
    lines = logged(run).records if run.history else []
    accuracies = [record[ACCURACY] for record in lines if ACCURACY in record]
    epochs = own.fit.get("epochs") if own else None
    names = [getattr(own, room)["name"] for room in ("pool", "readout", "model")] if own else []
    return {
        "folder": below(run.folder, root),
        "state": run.state,
        "reason": "; ".join(filter(None, [run.reason, unreadable(run.folder)])),
        "choice": " / ".join(names),
        "seed": own.seed if own else None,
        "epoch": max((int(record["epoch"]) for record in lines), default=None),
        "epochs": epochs if isinstance(epochs, int) else None,
        "accuracy": 100 * accuracies[-1] if accuracies else None,
        "changed": changed,
    }


def planned(sweeps: Sequence[Watched[Plan]], begun: Iterable[Path]) -> Waiting:
    """The jobs of sweeps that are not in ``begun``."""
    known, found = set(begun), dict[Path, tuple[str, Sequence[str]]]()
    # A sweep that goes on may have taken over from one that ended.
    for one in sorted(sweeps, key=lambda one: one.lives):
        every = one.content.jobs if one.content else {}
        shared = set.intersection(*map(set, every.values())) if len(every) > 1 else set()
        for folder, words in every.items():
            if folder not in known:
                own = [word for word in words if word not in shared]
                found[folder] = (WAITING if one.lives else LEFT, own)
    return found


def _not_begun(waiting: Waiting, root: Path) -> list[dict[str, Any]]:
    """The first jobs that have not begun, those of sweeps that go on before the others."""
    first = sorted(waiting.items(), key=lambda one: one[1][0] != WAITING)[:MOST]
    return [
        {
            "folder": below(folder, root),
            "state": state,
            "reason": "" if state == WAITING else "its sweep has ended",
            "asked": " ".join(words),
        }
        for folder, (state, words) in first
    ]


def _studies(studies: Sequence[Watched[Live]], root: Path) -> list[dict[str, Any]]:
    """Those that go on first, then the last one to have written."""
    found = [_study(one, one.content, root) for one in studies if one.content]
    return sorted(found, key=lambda one: (one["state"] != "running", -one["time"]))


def _study(study: Watched[Live], live: Live, root: Path) -> dict[str, Any]:
    state = "done" if live.verdict else "running" if study.lives else "stopped"
    passed = max(0.0, time.time() - live.time) if state == "running" else 0.0
    return {
        "folder": below(study.path.parent, root),
        "state": state,
        "said": live.said,
        "rounds": live.rounds,
        "planned": live.planned,
        "ended": live.ended,
        "asked": live.asked,
        "spent": min(live.spent_s + passed, live.budget_s) if passed else live.spent_s,
        "budget": live.budget_s,
        "time": live.time,
        "columns": cells(live.candidates),
        "trained": list(live.trained),
        "left": list(live.left),
        "gone": [list(one) for one in live.gone],
        "verdict": live.verdict,
    }
