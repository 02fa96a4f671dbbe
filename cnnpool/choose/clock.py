"""The time that a study takes: counted, kept, shown while it passes, and ended when the budget is spent."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread

from cnnpool.choose.study import Study

TICK_S = 0.5
SAVED_S = 10.0
"""What a kill may lose of the time that was counted."""


class Clock:
    """Within the context, counts the time of the study; a thread of its own calls ``tick`` twice a second.

    Args:
        study: whose ledger keeps the time.
        tick: shows it.
    """

    def __init__(self, study: Study, tick: Callable[[], None]):
        self._study, self._tick = study, tick
        self._last = self._saved = time.monotonic()
        self._armed = self.rang = False
        self._ended = Event()
        self._thread = Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Clock":
        self._last = self._saved = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()
        self.count()
        with suppress(OSError):
            self._study.ledger.save()

    def count(self) -> None:
        """Add the time since the last call."""
        now = time.monotonic()
        self._study.ledger.spent_s += now - self._last
        self._last = now

    @contextmanager
    def armed(self) -> Iterator[None]:
        """Within the context, the process gets SIGTERM when the budget is spent, and ``rang`` is true."""
        self._armed = True
        try:
            yield
        finally:
            self._armed = False

    def _run(self) -> None:
        while not self._ended.wait(TICK_S):
            self.count()
            if time.monotonic() - self._saved > SAVED_S:
                self._saved = time.monotonic()
                with suppress(OSError):
                    self._study.ledger.save()
            self._tick()
            if self._armed and not self.rang and self._study.left_s <= 0:
                self.rang = True
                # As from outside: every launcher passes it on to the runs, which save and end.
                os.kill(os.getpid(), signal.SIGTERM)
