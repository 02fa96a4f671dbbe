"""A job in separate processes, one per device, forked from a server with all modules preloaded."""

import os
import signal
import socket
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Literal

from cnnpool.launch.job import Job, Outcome
from cnnpool.launch.run_job import again, run
from cnnpool.run_folder import status
from cnnpool.run_folder.layout import LOG
from cnnpool.system.output import ignore_broken_pipes, write_error
from cnnpool.system.signals import Signals

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerContext, SpawnContext

GRACE_S = 10.0  # Seconds in which the other processes of a training end after one has failed
UNKNOWN = 255  # Exit status of a process in multiprocessing once the server that forked it is gone


def start_method() -> "ForkServerContext | SpawnContext":
    """How processes start: as forks of a server on Linux, elsewhere as new interpreters.

    The server uses neither torch's threads nor a GPU, so forking it is safe whatever this process has done.
    """
    if sys.platform != "linux":
        return get_context("spawn")
    context = get_context("forkserver")
    context.set_forkserver_preload(["cnnpool.launch.preload"])
    return context


@dataclass(eq=False)
class Rank:
    """One process of a job."""

    process: BaseProcess
    reports: Connection  # The pipe for its outcome; closed when it dies
    outcome: Outcome | None = None  # As reported, or made from its exit code; None while it runs
    time: float = 0.0  # Of the outcome, in seconds on the system's monotonic clock
    died: bool = False  # It ended without reporting an outcome
    killed: bool = False  # By this process

    def send_signal(self, signum: int) -> None:
        """Send a signal unless the pipe has ended: ``process`` knows nothing once its server is gone."""
        if self.outcome is None and self.process.pid and not self.reports.poll():
            with suppress(ProcessLookupError):
                os.kill(self.process.pid, signum)


class StartError(RuntimeError):
    """No process could be started."""


class Worker:
    """The processes of one job, one per device; their output goes to the file ``output``, or to our own."""

    def __init__(
        self, job: Job, context: "ForkServerContext | SpawnContext", threads: int, output: Path | None
    ):
        self._job = job
        self._log = output or job.folder / LOG
        self._ranks: list[Rank] = []
        self._deadline: float | None = None
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port())} if job.devices > 1 else {}
        for rank in range(job.devices):
            environment = place | {"LOCAL_RANK": str(rank)} if place else {}
            ours, theirs = context.Pipe(duplex=False)
            process = context.Process(target=_work, args=(job, threads, output, environment, theirs))
            try:
                process.start()
            except (EOFError, OSError) as error:
                self.kill()
                cause = str(error) or "their server ended"
                raise StartError(f"no process could be started: {cause} (is there enough memory?)") from None
            theirs.close()
            self._ranks.append(Rank(process, ours))

    @property
    def reports(self) -> list[Connection]:
        """Connections to wait for: one becomes ready when its process ends."""
        return [rank.reports for rank in self._ranks if rank.outcome is None]

    def poll(self) -> Outcome | None:
        """The job's outcome, or None while any of its processes runs."""
        for rank in self._ranks:
            self._look(rank)
        if self._deadline is None and any(rank.outcome and rank.outcome.status for rank in self._ranks):
            self._deadline = time.monotonic() + GRACE_S
        if self.reports:
            refused = any(rank.outcome and rank.outcome.state == "refused" for rank in self._ranks)
            if refused or (self._deadline is not None and time.monotonic() > self._deadline):
                self.kill()
            return None
        return self._conclude()

    def send_signal(self, signum: int) -> None:
        """Send a signal to every running process."""
        for rank in self._ranks:
            rank.send_signal(signum)

    def kill(self) -> None:
        """End every process at once."""
        for rank in self._ranks:
            if rank.outcome is None:
                rank.killed = True
                rank.send_signal(signal.SIGKILL)

    def _look(self, rank: Rank) -> None:
        if rank.outcome is not None or not rank.reports.poll():
            return
        try:
            rank.time, rank.outcome = rank.reports.recv()
        except (EOFError, OSError):
            rank.process.join(GRACE_S)
            rank.died, rank.time = True, time.monotonic()
            message = _death(rank.process.exitcode)
            if len(self._ranks) > 1:
                message = f"process {self._ranks.index(rank) + 1} of {len(self._ranks)} {message}"
            rank.outcome = Outcome(self._job.name, "failed", message, 1, self._log)

    def _conclude(self) -> Outcome:
        """The first process's outcome, or that of the process whose end made it fail."""
        ended = [(rank, rank.outcome) for rank in self._ranks if rank.outcome]
        for rank, _ in ended:
            rank.process.join(GRACE_S)
        first = ended[0]
        failed = [(rank, outcome) for rank, outcome in ended if outcome.status]
        # The death of a process is noticed after the errors that it causes in others.
        cause, outcome = min(
            failed, key=lambda end: (end[0].killed, not end[0].died, end[0].time), default=first
        )
        if outcome.status == first[1].status != 1:
            # A signal, or a mistake that every process reports.
            cause, outcome = first
        if cause.killed:
            message = f"killed by a second signal; {again(self._job)} from its last checkpoint"
            outcome = replace(outcome, state="stopped", message=message, status=128 + signal.SIGKILL)
        if cause.died or cause is not self._ranks[0]:
            self._job.folder.mkdir(parents=True, exist_ok=True)
            state: Literal["stopped", "failed"] = "stopped" if outcome.state == "stopped" else "failed"
            status.write(self._job.folder, state, outcome.message, outcome.status, diverged=outcome.diverged)
        return replace(outcome, log=self._log)


def _death(exitcode: int | None) -> str:
    if exitcode in (None, UNKNOWN):
        return "ended early, as did the process that started it and would know why"
    if exitcode >= 0:
        return f"ended early with exit status {exitcode}"
    name = signal.Signals(-exitcode).name
    return f"killed by {name}" + (" (out of memory?)" if name == "SIGKILL" else "")


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _work(
    job: Job, threads: int, output: Path | None, environment: Mapping[str, str], reports: Connection
) -> None:
    """The main function of a job's process."""
    if hasattr(os, "setsid"):
        # In a separate session: Ctrl-C reaches it through its parent only.
        os.setsid()
    Thread(target=_end_with_parent, daemon=True).start()
    os.environ |= environment
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(threads)
    if output:
        with output.open("ab") as file:
            for number in (1, 2):
                os.dup2(file.fileno(), number)
    # Line-buffered, so that a killed job loses no output.
    streams = ignore_broken_pipes(by_lines=True)
    with Signals():
        outcome = run(job)
    if output and outcome.status:
        sys.stderr.write(f"error: {outcome.message}\n")
    if (message := write_error(streams, ("stdout", "stderr"))) and output:
        outcome = replace(outcome, message=f"{outcome.message} ({output.name}: {message})")
    reports.send((time.monotonic(), outcome))
    # Clean-up in libraries may wait for processes that are gone.
    os._exit(0)


def _end_with_parent() -> None:
    """Save and stop, as on SIGTERM, when the process that waits for this job is killed."""
    parent = parent_process()
    if parent:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
