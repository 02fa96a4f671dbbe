"""Lines while kernels are compiled, which takes a while, but only once on a machine."""

import logging
import sys
import time

from numba.core import event

log = logging.getLogger(__name__)

INTERVAL_S = 20.0
"""Between lines."""


class CompilationLog(event.Listener):
    """Logs that compilation has begun, and from time to time how far it has come.

    Args:
        package: kernels of its modules count.
    """

    def __init__(self, package: str):
        self._package = f"{package}."
        self._count = 0
        self._said = 0.0

    def on_start(self, event: event.Event) -> None:
        """Before a kernel is compiled; one that is found on disk is not."""
        if not event.data["dispatcher"].py_func.__module__.startswith(self._package):
            return
        now = time.monotonic()
        if not self._count:
            _say("compiling kernels, once for this machine")
            self._said = now
        elif now - self._said >= INTERVAL_S:
            _say(f"compiling kernels, once for this machine: {self._count} so far")
            self._said = now
        self._count += 1

    def on_end(self, event: event.Event) -> None:
        """Nothing to log; Numba asks for the method."""


def _say(text: str) -> None:
    """In the log, or on a terminal where no log is set up to show it, as in a script of somebody's own."""
    if log.isEnabledFor(logging.INFO):
        log.info("%s", text)
    elif sys.stderr.isatty():
        sys.stderr.write(f"{text}\n")


event.register("numba:compile", CompilationLog(__name__.partition(".")[0]))
