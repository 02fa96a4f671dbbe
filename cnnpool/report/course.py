"""Validation accuracy that the runs of a choice logged on their way, as mean and interval over the runs."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from cnnpool.report.runs import Run, records
from cnnpool.report.statistics import spread

ACCURACY = "val/accuracy"


@dataclass(frozen=True)
class Course:
    """The way of several runs.

    Args:
        epochs: at which any of the runs has a validation accuracy.
        accuracy: (3, epochs) of it, 0..1, NaN where a run that has some lacks the epoch.
        each: epoch -> validation accuracy, of every run that has one.
    """

    epochs: list[int]
    accuracy: np.ndarray
    each: list[dict[int, float]] = field(repr=False)

    @property
    def runs(self) -> int:
        """How many runs have a validation accuracy."""
        return len(self.each)


def course(runs: Sequence[Run]) -> Course:
    """Read metrics.jsonl of each of ``runs``, once."""
    accuracies = [found for run in runs if (found := _accuracy(run))]
    epochs = sorted(set().union(*accuracies))
    # A run that ended early leaves a gap, not an average over fewer runs unseen.
    table = np.array([[one.get(epoch, np.nan) for epoch in epochs] for one in accuracies])
    within = np.clip(spread(table), 0, 1) if accuracies else np.empty((3, 0))
    return Course(epochs, within, accuracies)


def _accuracy(run: Run) -> dict[int, float]:
    """Epoch -> the last validation accuracy in it."""
    return {record["epoch"]: float(record[ACCURACY]) for record in records(run) if ACCURACY in record}
