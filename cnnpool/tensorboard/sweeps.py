"""The sweeps below a folder, by the plans that they leave: which of their jobs have not begun."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cnnpool.run_folder import plan
from cnnpool.run_folder.errors import DamagedError
from cnnpool.run_folder.plan import Plan
from cnnpool.system.living import lives
from cnnpool.tables import printable
from cnnpool.tensorboard.scan import Found, Signature

WAITING, LEFT = "waiting", "not started"
MOST = 60
"""Of the jobs that have not begun, those that are named."""


@dataclass(frozen=True)
class Sweep:
    """A plan as it is now.

    Args:
        path: of its file.
        signature: of its file.
        lives: whether its sweep goes on.
        plan: None where the file is damaged.
        reason: why it is, in one line.
    """

    path: Path
    signature: Signature
    lives: bool
    plan: Plan | None = None
    reason: str = ""


def look(found: Iterable[Found], before: Sequence[Sweep]) -> tuple[Sweep, ...]:
    """The sweeps of the plans in ``found``; those that have not changed since ``before`` are not read."""
    known = {(one.path, one.signature): one for one in before}
    return tuple(_sweep(one, known) for one in sorted(found, key=lambda one: one.path) if one.kind == "plan")


def _sweep(found: Found, known: Mapping[tuple[Path, Signature], Sweep]) -> Sweep:
    alive, old = lives(found.path), known.get((found.path, found.signature))
    if old:
        return old if old.lives == alive else Sweep(old.path, old.signature, alive, old.plan, old.reason)
    try:
        return Sweep(found.path, found.signature, alive, plan.read(found.path))
    except DamagedError as error:
        return Sweep(found.path, found.signature, alive, reason=f"{error.reason or error}: delete it")


def states(sweeps: Sequence[Sweep], begun: Iterable[Path]) -> dict[Path, tuple[str, Sequence[str]]]:
    """Folder -> waiting or not started, and the overrides, of each planned run that is not in ``begun``."""
    known, found = set(begun), dict[Path, tuple[str, Sequence[str]]]()
    # A sweep that goes on may have taken over from one that ended.
    for one in sorted(sweeps, key=lambda one: one.lives):
        state = WAITING if one.lives else LEFT
        jobs = one.plan.jobs if one.plan else {}
        found |= {folder: (state, words) for folder, words in jobs.items() if folder not in known}
    return found


def rows(waiting: Mapping[Path, tuple[str, Sequence[str]]], root: Path) -> list[dict[str, Any]]:
    """The first jobs that have not begun, those of sweeps that go on before the others."""
    first = sorted(waiting.items(), key=lambda one: one[1][0] != WAITING)[:MOST]
    return [
        {
            "folder": printable(folder.relative_to(root).as_posix()),
            "state": state,
            "reason": "" if state == WAITING else "its sweep has ended; the same command goes on",
            "asked": printable(" ".join(words)),
        }
        for folder, (state, words) in first
    ]
