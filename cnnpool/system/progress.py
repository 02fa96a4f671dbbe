"""Progress of long work by tqdm: a bar on a terminal, occasional lines in a log."""

import logging
import sys
import time
from contextlib import AbstractContextManager, nullcontext
from threading import RLock, Timer

from tqdm import tqdm

from cnnpool.system.process import rank

log = logging.getLogger(__name__)

SILENT_S = 2.0  # Shorter work shows nothing; in a log, work shorter than a quarter of ``LINES_S``
REDRAWN_S, LINES_S = 0.2, 60.0  # Seconds between two updates of a bar, and between two lines of a log
CLEAR = "\r\x1b[K"
COUNTED = "{desc}: {n:,} of {total:,} {unit} ({percentage:.0f} %), {remaining} left"


class Progress(tqdm):  # type: ignore[misc]
    """A bar on stderr if it is a terminal, else lines by ``logging``, or on stderr if logging shows none.

    For work that may take longer than ``silent_s``, in a ``with`` block that calls ``step`` for a ``unit``.
    Only the first process of a training shows progress.
    """

    monitor_interval = 0

    def __init__(self, what: str, total: int | None = None, unit: str = "", *, silent_s: float | None = None):
        self.what, self._on_terminal = what, sys.stderr.isatty()
        if silent_s is None:
            silent_s = SILENT_S if self._on_terminal else max(SILENT_S, LINES_S / 4)
        self._begun, self._spoken = time.monotonic(), False
        plain = f"{{desc}}: {{n:,}} {unit}" if unit else "{desc}"
        super().__init__(
            desc=what,
            total=total,
            unit=f" {unit}" if self._on_terminal else unit,
            leave=False,
            file=sys.stderr,
            delay=silent_s,
            mininterval=REDRAWN_S if self._on_terminal else LINES_S,
            miniters=1,
            dynamic_ncols=True,
            disable=bool(rank()),
            bar_format=plain if not total else None if self._on_terminal else COUNTED,
        )
        # Also show work without steps.
        self._timer = Timer(silent_s, self._appear)
        self._timer.daemon = True
        if not self.disable:
            self._timer.start()

    step = tqdm.update  # Count one more step, or several

    def __exit__(self, *error: object) -> None:
        self.close()
        if self._timer.is_alive():
            # Cancelled, it ends at once; no thread outlives the bar.
            self._timer.join()
        if self._spoken and error[0] is None:
            self._write(f"{self.what}: done, {duration(time.monotonic() - self._begun)}")

    def close(self) -> None:
        # One that was refused has no timer.
        if hasattr(self, "_timer"):
            self._timer.cancel()
            super().close()
            _drawn.discard(self)

    def display(self, msg: str | None = None, pos: int | None = None) -> bool:
        text = str(self) if msg is None else msg
        if self._on_terminal:
            _drawn.add(self)
            return bool(super().display(text, pos))
        if text:
            self._spoken = True
            self._write(text)
        return False

    def _write(self, line: str) -> None:
        if log.isEnabledFor(logging.INFO) and log.hasHandlers():
            log.info("%s", line)
        else:
            sys.stderr.write(f"{line}\n")

    def _appear(self) -> None:
        # tqdm erases only what an update drew.
        self.last_print_t = time.time()
        self.refresh()


def loading(packages: str) -> AbstractContextManager[object]:
    """Shows on a terminal that packages are being imported, if that is slow; otherwise nothing."""
    return Progress(f"loading {packages}") if sys.stderr.isatty() else nullcontext()


# tqdm's own lock is shared with other processes; a killed process would leak its semaphore.
Progress.set_lock(RLock())
_drawn: set[Progress] = set()


def clear_bars() -> None:
    """Erase the current bars from the terminal before printing something else."""
    for bar in list(_drawn):
        bar.clear()


def duration(seconds: float) -> str:
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.2g} min" if seconds < 99.5 * 60 else f"{seconds / 3600:.1f} h"
