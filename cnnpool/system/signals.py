"""Signals that ask a process to end, raised as an exception at a safe time."""

import signal
import threading
from types import FrameType
from typing import Any

NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK", "SIGUSR2")
"""Ctrl-C, ``kill``, the end of a terminal, and SLURM's signal before the time limit."""
SIGNALS = tuple(getattr(signal, name) for name in NAMES if hasattr(signal, name))
HANGUP = getattr(signal, "SIGHUP", None)


class Stopped(BaseException):
    """The process was asked to end; not an Exception, so that it is not handled as an error."""

    def __init__(self, signum: int, message: str = ""):
        self.signum = int(signum)
        self.name = signal.Signals(signum).name
        super().__init__(message or f"stopped by {self.name}")

    @property
    def status(self) -> int:
        return 128 + self.signum


class Signals:
    """Within the context, a signal raises ``Stopped``, or is stored in ``pending`` while ``patient``.

    A second signal always raises. Outside the main thread Python allows no handlers.
    """

    def __init__(self) -> None:
        self.patient = False
        self.pending: int | None = None
        self._before: dict[int, Any] = {}

    def install(self) -> None:
        """Install the handlers, again if another library has replaced them."""
        if threading.current_thread() is threading.main_thread():
            for signum in SIGNALS:
                # Under nohup SIGHUP stays ignored.
                if signum != HANGUP or signal.getsignal(signum) is not signal.SIG_IGN:
                    signal.signal(signum, self._handle)

    def __enter__(self) -> "Signals":
        self._before = {signum: signal.getsignal(signum) for signum in SIGNALS}
        self.install()
        return self

    def __exit__(self, *error: object) -> None:
        if threading.current_thread() is threading.main_thread():
            for signum, handler in self._before.items():
                signal.signal(signum, handler)

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        if self.patient and self.pending is None:
            self.pending = signum
        else:
            raise Stopped(signum)
