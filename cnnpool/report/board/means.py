"""The curves of several runs as one: ``bands`` gives mean and interval at every step."""

import math
from collections.abc import Sequence

import numpy as np

from cnnpool.report.runs import Run, is_number, records
from cnnpool.report.statistics import spread

Band = tuple[list[int], np.ndarray]


def bands(runs: Sequence[Run]) -> dict[str, Band]:
    """Tag -> (steps, (3, steps): mean, low, high) over the runs that logged the tag.

    A step at which one of them has no finite number is left out: the mean would jump where the runs in it
    change. Low and high are the 95 % t interval, NaN for a single run.
    """
    logged = [history(run) for run in runs]
    found: dict[str, Band] = {}
    for tag in dict.fromkeys(tag for one in logged for tag in one):
        curves = [one[tag] for one in logged if tag in one]
        steps = sorted(set.intersection(*map(set, curves)))
        if steps:
            found[tag] = steps, spread(np.array([[curve[step] for step in steps] for curve in curves]))
    return found


def history(run: Run) -> dict[str, dict[int, float]]:
    """Tag -> step -> the last finite value logged there in the run's metrics.jsonl."""
    found: dict[str, dict[int, float]] = {}
    for record in records(run):
        step = record.get("step")
        if isinstance(step, int):
            for tag, value in record.items():
                if tag not in ("step", "epoch") and is_number(value) and math.isfinite(value):
                    found.setdefault(tag, {})[step] = float(value)
    return found
