"""A job in a fork of this process, which has imported everything: a job starts in a hundredth of a second."""

import os
import signal
import sys
import traceback
from collections.abc import Callable
from functools import cache
from pathlib import Path

from cnnpool.process import leave
from cnnpool.stopping import Stopped


def can_fork() -> bool:
    """Where a fork is safe: on Linux, before torch has been used, whose threads a fork would not have."""
    return sys.platform == "linux" and "torch" not in sys.modules


@cache
def warm(threads: int) -> None:
    """Import what every job needs, with so many threads for torch, and start none of them."""
    os.environ["OMP_NUM_THREADS"] = str(threads)
    from cnnpool.launch import training

    training.wake()


class Forked:
    """A forked process that writes into ``output`` and ends with what ``call`` returns.

    Polled, signalled and killed as a ``subprocess.Popen``.
    """

    def __init__(self, call: Callable[[], int], output: Path):
        self.returncode: int | None = None
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if not self.pid:
            _do(call, output)

    def poll(self) -> int | None:
        """The exit status, the negative of a signal that ended the process, or None while it runs."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def send_signal(self, signum: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, signum)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)


def _do(call: Callable[[], int], output: Path) -> None:
    """All that the child does: it never returns into what its parent was doing."""
    status = 1
    try:
        # In a session of its own: Ctrl-C reaches it through the parent only.
        os.setsid()
        with output.open("ab") as said, open(os.devnull, "rb") as nothing:
            for file, number in ((nothing, 0), (said, 1), (said, 2)):
                os.dup2(file.fileno(), number)
        # By lines, so that of a job which is killed all is there that it said.
        sys.stdout, sys.stderr = (os.fdopen(number, "w", buffering=1, closefd=False) for number in (1, 2))
        status = call()
    except Stopped as stop:
        status = stop.status
    except BaseException:
        traceback.print_exc()
    finally:
        leave(status)
