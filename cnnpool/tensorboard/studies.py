"""Studies of ``cnnpool choose`` as they stand: their candidates, rounds and budget."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cnnpool.choose.live_file import Live
from cnnpool.tables import printable
from cnnpool.tensorboard.watched import Watched

Study = Watched[Live]


def pieces(studies: Sequence[Study], root: Path) -> list[dict[str, Any]]:
    """The studies as plain data for the page, those that go on first, then the last one to have written."""
    found = [_study(one, one.content, root) for one in studies if one.content]
    return sorted(found, key=lambda one: (one["state"] != "running", -one["time"]))


def _study(study: Study, live: Live, root: Path) -> dict[str, Any]:
    state = "done" if live.verdict else "running" if study.lives else "stopped"
    passed = max(0.0, time.time() - live.time) if state == "running" else 0.0
    return {
        "folder": printable(study.path.parent.relative_to(root).as_posix()),
        "state": state,
        "said": printable(live.said),
        "rounds": live.rounds,
        "planned": live.planned,
        "ended": live.ended,
        "asked": live.asked,
        "spent": min(live.spent_s + passed, live.budget_s) if passed else live.spent_s,
        "budget": live.budget_s,
        "time": live.time,
        "columns": [
            {"header": one.header, "cells": [printable(cell) for cell in one.cells], "words": one.words}
            for one in live.candidates
        ],
        "trained": list(live.trained),
        "left": list(live.left),
        "gone": [[printable(part) for part in one] for one in live.gone],
        "verdict": printable(live.verdict),
    }
