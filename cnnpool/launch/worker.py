"""Jobs in forks of this process, which has imported everything: a job starts in a hundredth of a second."""

import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn

from cnnpool.system.process import importing, leave
from cnnpool.system.signals import Stopped

Call = Callable[[Any], int]


def can_fork() -> bool:
    """Where a fork is safe: on Linux, before torch has been used, whose threads a fork would not have."""
    return sys.platform == "linux" and "torch" not in sys.modules


@cache
def warm(threads: int) -> None:
    """Import what every job needs, with so many threads for torch, and start none of them."""
    os.environ["OMP_NUM_THREADS"] = str(threads)
    with importing():
        from cnnpool.launch import build

        build.wake()


class Workers:
    """Forked processes that do tasks. One that has done a task well does the next, with what it has loaded.

    Args:
        call: does a task, anything that pickles, and returns an exit status. Any but 0 ends the process.
    """

    def __init__(self, call: Call):
        self._call = call
        self._all: list[Worker] = []

    def start(self, task: Any, output: Path) -> "Worker":
        """A process that has begun ``task``, which writes into ``output``."""
        worker = next((worker for worker in self._all if worker.is_idle()), None)
        if worker is None:
            self._all.append(worker := Worker(self._call, self._all))
        worker.begin(task, output)
        return worker

    def dismiss(self) -> None:
        """Let those that have nothing to do end, and wait for them."""
        for worker in reversed(self._all):
            worker.end()
        self._all.clear()


class Worker:
    """A forked process at a task: polled, signalled and killed as a ``subprocess.Popen``.

    Args:
        call: as in ``Workers``.
        others: processes forked earlier, with whom it has nothing to do.
    """

    def __init__(self, call: Call, others: Sequence["Worker"]):
        self.returncode: int | None = None
        self._tasks, other = Pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if not self.pid:
            for worker in (self, *others):
                worker._tasks.close()
            _serve(call, other)
        other.close()

    def is_idle(self) -> bool:
        """Whether it waits for a task; one that was killed meanwhile does not."""
        if self.returncode == 0:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) or 1 if pid else 0
        return self.returncode == 0

    def begin(self, task: Any, output: Path) -> None:
        """Hand it a task, when it has done the last one."""
        self.returncode = None
        # One that is killed just now is found to be so when it is polled.
        with suppress(OSError):
            self._tasks.send((task, output))

    def poll(self) -> int | None:
        """The task's exit status, the negative of a signal that ended the process, or None while it works."""
        if self.returncode is None and self._tasks.poll():
            try:
                self.returncode = self._tasks.recv()
            except (EOFError, OSError):
                self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode

    def send_signal(self, signum: int) -> None:
        """Send a signal, unless the task has ended."""
        if self.poll() is None:
            os.kill(self.pid, signum)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def end(self) -> None:
        """Let it leave, if it has nothing to do, and wait for that."""
        idle = self.is_idle()
        self._tasks.close()
        if idle:
            os.waitpid(self.pid, 0)


def _serve(call: Call, tasks: Connection) -> NoReturn:
    """All that the child does: it never returns into what its parent was doing."""
    status = 1
    try:
        # In a session of its own: Ctrl-C reaches it through the parent only.
        os.setsid()
        while True:
            task, output = tasks.recv()
            _write_into(output)
            if status := call(task):
                break
            sys.stdout.flush()
            sys.stderr.flush()
            tasks.send(status)
    except EOFError:
        status = 0
    except Stopped as stop:
        status = stop.status
    except BaseException:
        status = 1
        traceback.print_exc()
    finally:
        leave(status)


def _write_into(output: Path) -> None:
    with output.open("ab") as said, open(os.devnull, "rb") as nothing:
        for file, number in ((nothing, 0), (said, 1), (said, 2)):
            os.dup2(file.fileno(), number)
    # By lines, so that of a task which is killed all is there that it said.
    sys.stdout, sys.stderr = (os.fdopen(number, "w", buffering=1, closefd=False) for number in (1, 2))
