"""Progress of a study: a live table on a terminal, one line per round in a log, a file for other programs."""

import shutil
import sys
import time
from contextlib import suppress
from threading import Lock
from typing import TextIO

import numpy as np

from cnnpool import tables
from cnnpool.choose import page
from cnnpool.choose.drive import Batch
from cnnpool.choose.live_file import FILE, Live, content
from cnnpool.choose.study import Study, View
from cnnpool.system.atomic import write_bytes
from cnnpool.system.progress import duration

UP, CLEAR = "\x1b[A", "\x1b[K"
"""Escapes per line: standard output shows all others to a terminal as text."""


def snapshot(study: Study, view: View, batch: Batch | None, verdict: str = "") -> Live:
    places = page.order(view)
    return Live(
        said=batch.title if batch else f"{page.rounds(view.done)} done",
        rounds=view.done,
        planned=study.ledger.rounds,
        ended=len(batch.ended) if batch else 0,
        asked=len(batch.jobs) if batch else 0,
        spent_s=study.ledger.spent_s,
        budget_s=study.options.budget_s,
        time=time.time(),
        candidates=page.columns(study, view),
        trained=[int(np.isfinite(view.values[i]).sum()) for i in places],
        left=[i in view.active for i in places],
        gone=page.gone(study, view),
        verdict=verdict,
    )


class Display:
    """Within the context, shows a study on ``stream``, a terminal or a log, and in study.live.json."""

    def __init__(self, study: Study, stream: TextIO | None = None):
        self._study, self._stream = study, stream or sys.stdout
        self._live = self._stream.isatty()
        self._now: tuple[View, Batch | None] | None = None
        self._lines = 0
        self._told: set[int] = set()
        self._drawing = Lock()

    def __enter__(self) -> "Display":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def show(self, view: View, batch: Batch | None) -> None:
        """Update the state of the study and the running batch."""
        self._now = view, batch
        self._write(snapshot(self._study, view, batch))
        if self._live:
            self.tick()
        elif batch is None:
            self._log(view)

    def end(self, ending: page.Ending) -> None:
        """Write how the study ended, for other programs."""
        self._write(snapshot(self._study, ending.view, None, page.verdict(self._study, ending)))

    def _write(self, live: Live) -> None:
        with suppress(OSError):
            write_bytes(self._study.ledger.folder / FILE, content(live), maker="live", flush=False)

    def tick(self) -> None:
        """Redraw the table, on a terminal."""
        if self._live and (now := self._now):
            self._draw(self._text(*now))

    def close(self) -> None:
        self._now = None
        if self._lines:
            self._draw("")

    def _draw(self, text: str) -> None:
        """Erase the drawn table, return to its first line, and write ``text`` there."""
        with self._drawing:
            back, blank = UP * self._lines, f"{CLEAR}\n" * self._lines
            self._stream.write(f"\r{back}{blank}{CLEAR}{back}{text}")
            self._stream.flush()
            self._lines = text.count("\n")

    def _text(self, view: View, batch: Batch | None) -> str:
        size, study = shutil.get_terminal_size((100, 24)), self._study
        done = f"{page.rounds(view.done)} done"
        said = f"{batch.title}: {len(batch.ended)} of {len(batch.jobs)} runs" if batch else done
        head = f"{said}; {_spent(study)}, {duration(max(study.left_s, 0))} left"
        lines = tables.text(page.columns(study, view)).splitlines()[: size.lines - 3]
        # Redrawing would miss a line that wraps.
        return "".join(f"{line[: size.columns - 1]}\n" for line in [head, "", *lines])

    def _log(self, view: View) -> None:
        """For a log: the completed round, and the candidates dropped since the last one."""
        study, leader = self._study, page.best(view)
        if leader is not None:
            mean = page.columns(study, view)[2].cells[0]
            self._stream.write(
                f"round {view.done}: {len(view.active)} of {len(study.arms)} candidates left, best "
                f"{study.arms[leader].label} {mean} {study.metric.unit}; {_spent(study)}\n"
            )
        gone = {*view.out, *(drop.candidate for drop in view.state.drops)}
        for place in sorted(gone - self._told):
            self._stream.write(f"  {study.arms[place].label} {page.fate(view, place)}\n")
        self._told |= gone
        self._stream.flush()


def _spent(study: Study) -> str:
    return f"{duration(study.ledger.spent_s)} of {duration(study.options.budget_s)}"
