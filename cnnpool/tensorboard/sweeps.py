"""Sweeps by the plans that they leave: which of their jobs have not begun."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cnnpool.run_folder.plan import Plan
from cnnpool.tables import printable
from cnnpool.tensorboard.watched import Watched

WAITING, LEFT = "waiting", "not started"
MOST = 60
"""Of the jobs that have not begun, those that are named."""
Sweep = Watched[Plan]


def states(sweeps: Sequence[Sweep], begun: Iterable[Path]) -> dict[Path, tuple[str, Sequence[str]]]:
    """Folder -> waiting or not started, and its own overrides, of each planned run not in ``begun``."""
    known, found = set(begun), dict[Path, tuple[str, Sequence[str]]]()
    # A sweep that goes on may have taken over from one that ended.
    for one in sorted(sweeps, key=lambda one: one.lives):
        state = WAITING if one.lives else LEFT
        jobs = _apart(one.content.jobs) if one.content else {}
        found |= {folder: (state, words) for folder, words in jobs.items() if folder not in known}
    return found


def rows(waiting: Mapping[Path, tuple[str, Sequence[str]]], root: Path) -> list[dict[str, Any]]:
    """The first jobs that have not begun, those of sweeps that go on before the others."""
    first = sorted(waiting.items(), key=lambda one: one[1][0] != WAITING)[:MOST]
    return [
        {
            "folder": printable(folder.relative_to(root).as_posix()),
            "state": state,
            "reason": "" if state == WAITING else "its sweep has ended",
            "asked": printable(" ".join(words)),
        }
        for folder, (state, words) in first
    ]


def _apart(jobs: Mapping[Path, Sequence[str]]) -> dict[Path, Sequence[str]]:
    """``jobs`` without the overrides that all of them share."""
    shared = set.intersection(*(set(words) for words in jobs.values())) if len(jobs) > 1 else set()
    return {folder: [word for word in words if word not in shared] for folder, words in jobs.items()}
