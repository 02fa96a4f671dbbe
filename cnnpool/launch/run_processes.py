"""Jobs in processes of their own, several at once: none can take another, or the sweep, with it."""

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from cnnpool.launch.job import Job, Outcome
from cnnpool.launch.run_here import already, run, write_state
from cnnpool.launch.untrusted import FOLDERS
from cnnpool.launch.worker import Worker, Workers, can_fork, warm
from cnnpool.system.signals import Stopped

POLL_S = 0.05
OUTPUT = "output.log"
PR_SET_PDEATHSIG = 1
KEPT_OPTIONS = (*FOLDERS, "--config-name", "-cn")
Process = subprocess.Popen | Worker
Start = Callable[[Job], Process]


def run_processes(
    jobs: Sequence[Job], arguments: Sequence[str], at_once: int, threads: int
) -> Iterator[Outcome]:
    """Outcomes as the jobs end; a signal is passed on to those that run, and they are waited for.

    Args:
        jobs: what to run.
        arguments: the sweep's command line, whose ``--config-dir`` and the like every job needs.
        at_once: processes, >= 1.
        threads: of each.
    """
    with _starter(jobs, arguments, threads) as start:
        yield from _run(list(jobs), at_once, start)


def _run(waiting: list[Job], at_once: int, start: Start) -> Iterator[Outcome]:
    running: dict[Process, Job] = {}
    stop: Stopped | None = None
    while running or (waiting and not stop):
        try:
            while waiting and not stop and len(running) < at_once:
                job = waiting.pop(0)
                if outcome := already(job):
                    yield outcome
                    continue
                sys.stdout.write(f"starts: {job.name}\n")
                sys.stdout.flush()
                running[start(job)] = job
            ended = [process for process in running if process.poll() is not None]
            for process in ended:
                yield _outcome(running.pop(process), process.returncode)
            if not ended:
                time.sleep(POLL_S)
        except Stopped as stopped:
            for process in running:
                process.kill() if stop else process.send_signal(stopped.signum)
            stop = stopped
    if stop:
        raise stop


@contextmanager
def _starter(jobs: Sequence[Job], arguments: Sequence[str], threads: int) -> Iterator[Start]:
    """How jobs are started: by forks where that is safe, else by command lines."""
    # A training on several devices starts its other processes by its command line.
    alone = all(job.settings.get("fit", {}).get("devices", 1) == 1 for job in jobs)
    if not (alone and can_fork()):
        yield lambda job: _start(job, arguments, threads)
        return
    workers = Workers(_do)

    def start(job: Job) -> Worker:
        warm(threads)
        job.folder.mkdir(parents=True, exist_ok=True)
        return workers.start(job, job.folder / OUTPUT)

    try:
        yield start
    finally:
        workers.dismiss()


def _do(job: Job) -> int:
    _end_with_the_sweep()
    outcome = run(job)
    if outcome.status:
        sys.stderr.write(f"error: {outcome.said}\n")
    return outcome.status


def _start(job: Job, arguments: Sequence[str], threads: int) -> subprocess.Popen:
    folder = str(job.folder).replace("\\", "\\\\").replace("'", "\\'")
    command = [sys.executable, "-m", "cnnpool", "train", *_kept(arguments), *job.overrides]
    job.folder.mkdir(parents=True, exist_ok=True)
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    with (job.folder / OUTPUT).open("ab") as output:
        # In a session of its own: Ctrl-C reaches a job through this process only.
        return subprocess.Popen(
            [*command, f"hydra.run.dir='{folder}'"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
            preexec_fn=_end_with_the_sweep if sys.platform == "linux" else None,
        )


def _end_with_the_sweep() -> None:
    """Let the kernel send a job SIGTERM, which saves and stops it, if the sweep's process is killed."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def _kept(arguments: Sequence[str]) -> list[str]:
    kept = []
    for at, argument in enumerate(arguments):
        if argument.partition("=")[0] in KEPT_OPTIONS:
            kept += [argument] if "=" in argument else arguments[at : at + 2]
    return kept


def _outcome(job: Job, returncode: int) -> Outcome:
    """What a process that has ended left behind; its exit status alone is not believed."""
    path, output = job.folder / "status.json", job.folder / OUTPUT
    try:
        status = json.loads(path.read_text())
    except (OSError, ValueError):
        status = {"state": "running", "error": None}
    state, said = status["state"], status["error"] or ""
    if returncode == 0 and (outcome := already(job)):
        return outcome
    if state == "stopped" and returncode > 128:
        return Outcome(job.name, "stopped", said, returncode, output)
    if returncode in (1, 2) and state == "failed":
        return Outcome(job.name, "failed", said, returncode, output)
    if returncode == 2:
        said = _last_line(output)
        if path.exists():
            return Outcome(job.name, "refused", said, 2, output)
        write_state(job.folder, "failed", said)
        return Outcome(job.name, "failed", said, 2, output)
    said = f"ended early with exit status {returncode}"
    if returncode < 0:
        said = f"killed by {signal.Signals(-returncode).name}"
        said += " (out of memory?)" if returncode == -signal.SIGKILL else ""
    write_state(job.folder, "failed", said)
    return Outcome(job.name, "failed", said, 1, output)


def _last_line(path: os.PathLike) -> str:
    with open(path, errors="replace") as file:
        lines = [line.strip() for line in file if line.strip()]
    return lines[-1].removeprefix("error: ") if lines else "ended early"
