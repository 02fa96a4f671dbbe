"""Progress of long work: one line, redrawn on a terminal, repeated at intervals in a log.

For work that may take longer than two seconds::

    with Progress("decoding", len(paths), "images") as progress:
        for path in paths:
            ...
            progress.step()

    with Progress("compiling kernels"):        # no count: only that it goes on
        ...
"""

import logging
import sys
import time
from contextlib import AbstractContextManager, nullcontext
from itertools import chain, repeat
from threading import Event, Thread

from cnnpool.system.process import rank

log = logging.getLogger(__name__)

SILENT_S = 2.0
"""What ends sooner is not mentioned."""
REDRAWN_S = 0.2
LINES_S = (8.0, 20.0, 30.0, 60.0, 120.0, 300.0)
"""Between the lines of a log, the last of them again and again."""
CLEAR = "\r\x1b[K"


class Progress:
    """Within the context, shows the progress: on stderr if that is a terminal, else by ``logging``.

    Where logging is not set up to show it, lines go to stderr too. ``step`` costs next to nothing, since a
    thread of its own does the talking.

    Args:
        what: that goes on, such as ``"decoding"``.
        total: steps until it is done; None if that is not known.
        unit: of the steps, in the plural.
        silent_s: nothing is said before so many seconds have passed; None: ``SILENT_S``.
    """

    def __init__(self, what: str, total: int | None = None, unit: str = "", *, silent_s: float | None = None):
        self.what, self.total, self.unit = what, total, unit
        self.silent_s = SILENT_S if silent_s is None else silent_s
        self.done = 0
        self._begun = self._stepped = time.monotonic()
        self._ended = Event()
        self._thread = Thread(target=self._speak, daemon=True)

    def __enter__(self) -> "Progress":
        self._begun = self._stepped = time.monotonic()
        if not rank():
            self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join()

    def step(self, count: int = 1) -> None:
        """Note that ``count`` more steps are done."""
        self.done += count
        self._stepped = time.monotonic()

    def __str__(self) -> str:
        """``decoding: 1,234 of 20,000 images (6 %), 48 s left``."""
        if not self.total:
            count = f": {self.done:,} {self.unit}".rstrip() if self.done else ""
            return f"{self.what}{count}"
        share = self.done / self.total
        text = (
            f"{self.what}: {self.done:,} of {self.total:,} {self.unit}".rstrip() + f" ({100 * share:.0f} %)"
        )
        if not 0 < share < 1:
            return text
        # As it was after the last step, so that a long one does not make the time left grow.
        left = (self._stepped - self._begun) * (1 - share) / share - (time.monotonic() - self._stepped)
        return f"{text}, {duration(left)} left" if left > 0 else text

    def _speak(self) -> None:
        on_terminal = sys.stderr.isatty()
        pauses = repeat(REDRAWN_S) if on_terminal else chain(LINES_S, repeat(LINES_S[-1]))
        if self._ended.wait(self.silent_s):
            return
        try:
            while True:
                if on_terminal:
                    _draw(str(self))
                elif log.isEnabledFor(logging.INFO) and log.hasHandlers():
                    log.info("%s", str(self))
                else:
                    sys.stderr.write(f"{self}\n")
                if self._ended.wait(next(pauses)):
                    break
        finally:
            make_way()


def loading(packages: str) -> AbstractContextManager[object]:
    """Says on a terminal that packages are imported, if that takes long; where nobody waits, nothing."""
    return Progress(f"loading {packages}") if sys.stderr.isatty() else nullcontext()


def make_way() -> None:
    """Wipe the line that stands on the terminal now, before something else is printed."""
    if _drawn.is_set():
        _draw("")


_drawn = Event()


def _draw(text: str) -> None:
    sys.stderr.write(f"{CLEAR}{text}")
    sys.stderr.flush()
    (_drawn.set if text else _drawn.clear)()


def duration(seconds: float) -> str:
    """``48 s``, ``12 min`` or ``3.4 h``."""
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 99.5 * 60 else f"{seconds / 3600:.1f} h"
