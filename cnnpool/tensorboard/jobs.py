"""The runs by their state: how far those that are going have come, and why others ended."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cnnpool.report.course import ACCURACY
from cnnpool.report.runs import Run, records
from cnnpool.tensorboard import studies, sweeps
from cnnpool.tensorboard.index import Snapshot
from cnnpool.tensorboard.pieces import shown
from cnnpool.tensorboard.unfinished import asked

DEPTH = 4
"""Levels of folders below the root whose runs can be looked at alone."""
STATES = ("done", "running", sweeps.WAITING, "failed", "unfinished", sweeps.LEFT, "damaged")


def jobs(now: Snapshot, root: Path) -> dict[str, Any]:
    """Counts by state, the runs that are not done or have not begun, and the folders with several runs."""
    waiting = sweeps.states(now.sweeps, (run.folder for run in now.runs))
    begun = [_job(run, root, now.changed.get(run.folder, 0.0)) for run in now.runs if not run.found]
    watched = [(one.path, one.reason) for one in now.sweeps] + [(one.path, one.reason) for one in now.studies]
    damaged = [
        {"folder": shown(path, root), "state": "damaged", "reason": reason}
        for path, reason in watched
        if reason
    ]
    counts = Counter([run.state for run in now.runs] + [state for state, _ in waiting.values()])
    counts["damaged"] += len(damaged)
    return {
        "counts": {state: counts[state] for state in STATES if counts[state]},
        "unfinished": begun + damaged + sweeps.rows(waiting, root),
        "folders": folders(now.runs, root),
        "studies": studies.pieces(now.studies, root),
    }


def _job(run: Run, root: Path, changed: float) -> dict[str, Any]:
    own = asked(run.folder)
    lines = records(run) if run.history else []
    accuracies = [record[ACCURACY] for record in lines if ACCURACY in record]
    epochs = own.fit.get("epochs") if own else None
    return {
        "folder": shown(run.folder, root),
        "state": run.state,
        "reason": " ".join(run.reason.split()),
        "choice": " / ".join(getattr(own, room)["name"] for room in ("pool", "readout", "model"))
        if own
        else "",
        "seed": own.seed if own else None,
        "epoch": max((int(record["epoch"]) for record in lines), default=None),
        "epochs": epochs if isinstance(epochs, int) else None,
        "accuracy": 100 * accuracies[-1] if accuracies else None,
        "changed": changed,
    }


def folders(runs: Sequence[Run], root: Path) -> list[dict[str, Any]]:
    """The folders below ``root`` with runs of several choices, and how many: those that say something."""
    counts: Counter[str] = Counter()
    for run in runs:
        # The last two levels are the choice and the seed.
        parts = run.folder.relative_to(root).parts[:-2][:DEPTH]
        counts.update("/".join(parts[:depth]) for depth in range(1, len(parts) + 1))
    found = sorted(name for name, count in counts.items() if count < len(runs))
    return [{"folder": name, "runs": counts[name]} for name in found]


def below(runs: Sequence[Run], root: Path, folder: str) -> list[Run]:
    """The runs in ``folder`` below ``root``, which is compared as text alone."""
    wanted = tuple(part for part in folder.split("/") if part)
    return [run for run in runs if run.folder.relative_to(root).parts[: len(wanted)] == wanted]
