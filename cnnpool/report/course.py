"""Everything that the runs of a choice logged on their way, as means and intervals over the runs."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np

from cnnpool.report.runs import Run, records
from cnnpool.report.statistics import spread

Curve = tuple[np.ndarray, np.ndarray]
"""Steps, and the values at them."""
Band = tuple[np.ndarray, np.ndarray]
"""Steps, and (3, steps): mean, low and high of the 95 % t interval, NaN for a single run."""
ACCURACY = "val/accuracy"


@dataclass(frozen=True)
class Course:
    """The way of several runs.

    Args:
        bands: by tag, over the steps at which every run that logged the tag has a number: elsewhere the mean
            would jump where the runs in it change.
        epochs: at which any of the runs has a validation accuracy.
        accuracy: (3, epochs) of it, 0..1, NaN where a run that has some lacks the epoch.
        runs: that have a validation accuracy.
    """

    bands: dict[str, Band] = field(repr=False)
    epochs: list[int]
    accuracy: np.ndarray
    runs: int


def course(runs: Sequence[Run]) -> Course:
    """Read metrics.jsonl of each of ``runs``, once."""
    histories, accuracies = [], []
    for run in runs:
        history, accuracy = _read(run)
        histories.append(history)
        if accuracy:
            accuracies.append(accuracy)
    epochs = sorted(set().union(*accuracies))
    # A run that ended early leaves a gap, not an average over fewer runs unseen.
    table = np.array([[one.get(epoch, np.nan) for epoch in epochs] for one in accuracies])
    within = np.clip(spread(table), 0, 1) if accuracies else np.empty((3, 0))
    return Course(_bands(histories), epochs, within, len(accuracies))


def _bands(histories: Sequence[Mapping[str, Curve]]) -> dict[str, Band]:
    """``spread`` of every tag at the steps that all its curves have; a tag without any is left out."""
    tags = dict.fromkeys(tag for one in histories for tag in one)
    shared: dict[str, tuple[np.ndarray, list[np.ndarray]]] = {}
    for tag in tags:
        curves = [one[tag] for one in histories if tag in one]
        steps = curves[0][0]
        if any(not np.array_equal(own, steps) for own, _ in curves[1:]):
            steps = reduce(np.intersect1d, [own for own, _ in curves])
            curves = [(steps, values[np.searchsorted(own, steps)]) for own, values in curves]
        if len(steps):
            shared[tag] = steps, [values for _, values in curves]
    # Of all tags with as many runs and steps at once: there are many more tags than runs.
    alike: dict[tuple[int, int], list[str]] = {}
    for tag, (steps, values) in shared.items():
        alike.setdefault((len(values), len(steps)), []).append(tag)
    found: dict[str, Band] = {}
    for group in alike.values():
        every = spread(np.array([shared[tag][1] for tag in group]).swapaxes(0, 1))
        found |= {tag: (shared[tag][0], every[:, place]) for place, tag in enumerate(group)}
    return {tag: found[tag] for tag in tags if tag in found}


def _read(run: Run) -> tuple[dict[str, Curve], dict[int, float]]:
    """Tag -> (steps, the last finite value at each), and epoch -> the last validation accuracy in it."""
    found: dict[str, dict[int, float]] = {}
    accuracy: dict[int, float] = {}
    for record in records(run):
        step = record["step"]
        for tag, value in record.items():
            if tag not in ("step", "epoch") and math.isfinite(value):
                found.setdefault(tag, {})[step] = value
        if ACCURACY in record:
            accuracy[record["epoch"]] = float(record[ACCURACY])
    return {tag: _sorted(values) for tag, values in found.items()}, accuracy


def _sorted(values: dict[int, float]) -> Curve:
    steps = np.fromiter(values, np.int64, len(values))
    numbers = np.fromiter(values.values(), np.float64, len(values))
    if (steps[1:] > steps[:-1]).all():
        return steps, numbers
    order = np.argsort(steps)
    return steps[order], numbers[order]
