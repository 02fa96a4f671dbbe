"""A study while it goes on: a table that is redrawn on a terminal, a line a round in a log."""

import shutil
import sys
from collections.abc import Mapping
from threading import Lock
from typing import TextIO

from cnnpool import tables
from cnnpool.choose.drive import Batch
from cnnpool.choose.standing import best, columns, fate, rounds
from cnnpool.choose.study import Study, View
from cnnpool.launch.job import Job
from cnnpool.run_folder import metrics, status
from cnnpool.run_folder.errors import DamagedError
from cnnpool.system.progress import duration

UP, CLEAR = "\x1b[A", "\x1b[K"
"""Line by line, since standard output shows any other command to a terminal as text."""


class Screen:
    """Shows a study on ``stream`` (standard output as it is now): ``show`` what is new, ``tick`` the time.

    Args:
        study: what is shown.
        stream: where; a terminal gets the live table.
    """

    def __init__(self, study: Study, stream: TextIO | None = None):
        self._study, self._stream = study, stream or sys.stdout
        self._live = self._stream.isatty()
        self._view: View | None = None
        self._batch: Batch | None = None
        self._lines = 0
        self._told: set[int] = set()
        self._drawing = Lock()

    def show(self, view: View, batch: Batch | None) -> None:
        """Take note of where the study stands."""
        self._view, self._batch = view, batch
        if self._live:
            self.tick()
        elif batch is None:
            self._say(view)

    def tick(self) -> None:
        """Redraw the table, on a terminal."""
        if self._live and self._view is not None:
            with self._drawing:
                text = self._text(self._view, self._batch)
                self._stream.write(f"{self._erased()}{text}")
                self._stream.flush()
                self._lines = text.count("\n")

    def close(self) -> None:
        """Remove the table, to make room for what the command says at its end."""
        if self._live and self._lines:
            with self._drawing:
                self._stream.write(self._erased())
                self._stream.flush()
                self._lines, self._view = 0, None

    def _erased(self) -> str:
        """Commands that wipe the table that is drawn, and go back to its first line."""
        back, blank = UP * self._lines, f"{CLEAR}\n" * self._lines
        return f"\r{back}{blank}{CLEAR}{back}"

    def _text(self, view: View, batch: Batch | None) -> str:
        size = shutil.get_terminal_size((100, 24))
        now = _running(self._study, batch) if batch else {}
        lines = tables.text(columns(self._study, view, now)).splitlines()[: size.lines - 3]
        # A line that wraps would be drawn over.
        return "".join(f"{line[: size.columns - 1]}\n" for line in [self._head(view, batch), "", *lines])

    def _head(self, view: View, batch: Batch | None) -> str:
        study = self._study
        spent, budget = duration(study.ledger.spent_s), duration(study.options.budget_s)
        time = f"{spent} of {budget}, {duration(max(study.left_s, 0))} left"
        if batch is None:
            return f"{rounds(view.done)} done; {time}"
        return f"{batch.said}: {len(batch.ended)} of {len(batch.jobs)} runs; {time}"

    def _say(self, view: View) -> None:
        """For a log: the round that is complete, and who has gone since the last one."""
        study, leader = self._study, best(view)
        if leader is not None and study.metric:
            mean = columns(study, view)[2].cells[0]
            self._stream.write(
                f"round {view.done}: {len(view.active)} of {len(study.arms)} candidates left, "
                f"best {study.arms[leader].label} {mean} {study.metric.unit}; "
                f"{duration(study.ledger.spent_s)} of {duration(study.options.budget_s)}\n"
            )
        gone = {*view.out, *(drop.candidate for drop in view.state.drops)}
        for place in sorted(gone - self._told):
            self._stream.write(f"  {study.arms[place].label} {fate(study, view, place)}\n")
        self._told |= gone
        self._stream.flush()


def _running(study: Study, batch: Batch) -> Mapping[int, str]:
    """Candidate -> how far its run has come, of those that run now or have run."""
    found: dict[int, str] = {}
    waiting = {place for place, job in batch.jobs if job.name not in batch.ended}
    for place, job in batch.jobs:
        if place not in waiting and not batch.failure(job):
            found[place] = "done, others go on"
        elif job.name not in batch.ended and place not in found and (said := _progress(job)):
            found[place] = said
    return found


def _progress(job: Job) -> str:
    try:
        now = status.read(job.folder)
    except DamagedError:
        return ""
    if now is None or now.state != "running":
        return ""
    records = metrics.read(job.folder).records
    epochs = job.settings.get("fit", {}).get("epochs")
    done = int(records[-1]["epoch"]) if records else 0
    return f"trains: epoch {min(done + 1, epochs or done + 1)} of {epochs}"
