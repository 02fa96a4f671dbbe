"""Submit every job to a SLURM cluster with submitit, and ask its queue by SLURM's own commands."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, suppress
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from annotated_types import Ge, Gt, Le

from cnnpool.bounds import Table
from cnnpool.launch.job import Job, Outcome, Workers
from cnnpool.launch.run_job import lost, outcome_if_done, run
from cnnpool.launch.run_processes import run_processes
from cnnpool.run_folder import layout
from cnnpool.run_folder.identity import differences, identity_settings
from cnnpool.system.process import for_jobs
from cnnpool.system.progress import clear_bars
from cnnpool.system.signals import Signals, Stopped

POLL_S, QUEUE_S, END_S = 1.0, 10.0, 90.0
"""Seconds between looks for results, between queue queries, and for cancelled jobs to save."""
RECORDS = ".slurm"  # Folder below the output root for submitit's scripts and outputs
REQUEUES, IN_VAIN = 1000, 3  # Most after timeouts; most in a row without a new checkpoint
OURS = ("array", "error", "job-name", "open-mode", "output", "signal", "wrap")  # Not the user's
NAME = "cnnpool"  # Name of every job in the queue
ANSWER_S = 60
LOST = "lost"  # State of a job that the queue no longer lists
ENDED = {
    *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL"),
    *("OUT_OF_MEMORY", "PREEMPTED", "TIMEOUT"),
}
TO_COME = {"BeginTime", "Cleaning", "Dependency", "JobArrayTaskLimit", "None", "Priority", "Resources"}
"""Reasons to wait that resolve by themselves."""


def run_slurm(
    tasks: Sequence[Job],
    /,
    *,
    jobs: Annotated[int, Ge(1), Le(10**6)] = 256,
    threads: Workers = 2,
    timeout_min: Annotated[int, Ge(3), Le(10**6)] = 240,
    mem_gb: Annotated[float, Gt(0), Le(10**6)] = 4,
    gpus: Annotated[int, Ge(0), Le(1024)] = 0,
    partition: str | None = None,
    account: str | None = None,
    qos: str | None = None,
    constraint: str | None = None,
    sbatch: Table | None = None,
    cluster: Literal["slurm", "local", "debug"] = "slurm",
) -> Iterator[Outcome]:
    """Yield outcomes as the jobs end; a signal cancels waiting and running jobs.

    A job that times out or is preempted saves, is requeued, and resumes.
    Jobs that a killed command has left in the queue are waited for, not submitted again.

    Args:
        jobs: jobs at once.
        threads: processors per job.
        timeout_min: time limit after which a job is requeued, in minutes; it saves 90 seconds before.
        mem_gb: memory per job, in GB.
        gpus: GPUs per job.
        partition, account, qos, constraint: of the queue, as for ``sbatch``; null: the cluster's own.
        sbatch: further options of ``sbatch`` by name, such as ``{gres: gpu:1}``.
        cluster: slurm, or to test without a queue: local (processes of this machine) or debug (this one).

    Raises:
        ValueError: if submitit or SLURM is missing, or the queue refuses the jobs.
    """
    queue = {"partition": partition, "account": account, "qos": qos, "constraint": constraint}
    further = _options(sbatch or {})
    waiting = []
    for job in tasks:
        if outcome := outcome_if_done(job):
            yield outcome
        else:
            waiting.append(job)
    if not waiting:
        return
    executor = _executor(waiting[0], cluster)
    executor.update_parameters(
        name=NAME,
        timeout_min=timeout_min,
        mem_gb=mem_gb,
        cpus_per_task=threads,
        gpus_per_node=gpus,
        slurm_additional_parameters=further,
        **{f"slurm_{key}": value for key, value in queue.items() if value is not None},
    )
    with for_jobs(threads):
        yield from Sweep(executor, jobs, threads).outcomes(waiting)


def _options(sbatch: Mapping[str, Any]) -> dict[str, Any]:
    for key in sbatch:
        if not re.fullmatch("[a-z][a-z-]*", key) or key in OURS:
            raise ValueError(f"launch.sbatch.{key}: not an option of sbatch that can be set here")
    # Some sites requeue a job only if it asks for it.
    return {"requeue": True} | {key: value for key, value in sbatch.items() if value is not False}


def _executor(job: Job, cluster: str) -> Any:
    if not find_spec("submitit"):
        raise ValueError("launch=slurm needs submitit: pip install 'cnnpool[slurm]'")
    import submitit

    folder = Path(job.settings.get("out", "."), RECORDS)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        return submitit.AutoExecutor(folder, cluster=cluster, slurm_max_num_timeout=REQUEUES)
    except RuntimeError as error:
        message = str(error).splitlines()[0]
        raise ValueError(f"launch=slurm: {message}; launch.cluster=local tries it without a queue") from None


class Sweep:
    """Submitted jobs of a sweep, of which ``at_once`` run at once."""

    def __init__(self, executor: Any, at_once: int, threads: int):
        self._executor, self._at_once, self._threads = executor, at_once, threads
        self._queued = executor.cluster == "slurm"
        self._most = most_in_array() if self._queued else 10**6
        self._queue, self._next = Queue(), 0.0
        self._running: dict[Any, Job] = {}

    def outcomes(self, waiting: list[Job]) -> Iterator[Outcome]:
        """Yield outcomes of ``waiting`` as the jobs end."""
        waiting, free = self._left_by_others(waiting), self._at_once // 2
        stop: Stopped | None = None
        with Signals() as signals:
            # Exceptions must not interrupt a submission or a query of the queue.
            signals.patient = True
            while self._running or (waiting and not stop):
                if waiting and len(self._running) <= free:
                    free = self._submit(waiting)
                for submitted, state in self._ended(stop):
                    job = self._running.pop(submitted)
                    if outcome := _outcome(submitted, job, state, stop):
                        yield outcome
                if signals.pending is not None:
                    self._cancel()
                    stop, signals.pending, waiting = Stopped(signals.pending), None, []
                    end = time.monotonic() + END_S
                if stop and time.monotonic() > end:
                    break
                time.sleep(POLL_S if self._running else 0)
        if stop:
            raise stop

    def _submit(self, waiting: list[Job]) -> int:
        """Submit an array of jobs; returns how many may still run when the next one is submitted."""
        from submitit.core.utils import FailedJobError

        running = len(self._running)
        self._executor.update_parameters(slurm_array_parallelism=max(1, self._at_once - running))
        while True:
            chunk = waiting[: self._most]
            try:
                # submitit also prints sbatch's messages.
                with redirect_stderr(StringIO()), self._executor.batch():
                    submitted = [self._executor.submit(Task(job, Path.cwd(), self._threads)) for job in chunk]
                break
            except FailedJobError as error:
                message = " ".join(str(error).split())
                if running:
                    return running // 2
                if "limit" not in message.lower() or len(chunk) == 1:
                    raise ValueError(f"launch=slurm: the queue refuses: {message}") from None
                self._most = len(chunk) // 2
        del waiting[: len(chunk)]
        self._running |= dict(zip(submitted, chunk, strict=True))
        self._next = time.monotonic() + POLL_S
        return self._at_once // 2

    def _left_by_others(self, waiting: list[Job]) -> list[Job]:
        """``waiting`` without the jobs left in the queue by a killed command, which this sweep adopts."""
        if not self._queued:
            return waiting
        from submitit import SlurmJob
        from submitit.core.utils import DelayedSubmission, JobPaths

        rest, folder = {job.folder: job for job in waiting}, Path(self._executor.folder)
        for number in in_queue():
            stored = JobPaths(folder, number).submitted_pickle
            if stored.is_file():
                other: Job = cast(Task, DelayedSubmission.load(stored).function).job
                job = rest.get(other.folder)
                if job and not differences(
                    identity_settings(other.settings), identity_settings(job.settings)
                ):
                    self._running[SlurmJob(folder, number)] = rest.pop(job.folder)
        if self._running:
            sys.stdout.write(f"{len(self._running)} jobs are in the queue already, by an earlier command\n")
        return list(rest.values())

    def _ended(self, stop: Stopped | None) -> list[tuple[Any, str]]:
        """Jobs with a result, or that have ended without one, and their final state."""
        if not self._queued:
            return [(one, one.state) for one in self._running if one.done()]
        done = [one for one in self._running if one.paths.result_pickle.exists()]
        if done or time.monotonic() < self._next:
            return [(one, "") for one in done]
        self._next = time.monotonic() + (POLL_S if stop else QUEUE_S)
        by_id = {one.job_id: one for one in self._running}
        ended = self._queue.ended(list(by_id), sure=not stop)
        return [(by_id[number], state) for number, state in ended.items()]

    def _cancel(self) -> None:
        if not self._queued:
            for submitted in self._running:
                submitted.cancel(check=False)
            return
        self._next = 0.0
        subprocess.run(["scancel", *(one.job_id for one in self._running)], capture_output=True)


def _outcome(submitted: Any, job: Job, state: str, stop: Stopped | None) -> Outcome | None:
    """The result of a job, or a failure; None for one that was cancelled before it started."""
    from submitit import DebugJob
    from submitit.core.utils import FailedJobError

    # Without a result submitit queries the cluster's accounting forever.
    if submitted.paths.result_pickle.exists() or isinstance(submitted, DebugJob):
        with suppress(FailedJobError):
            outcome: Outcome = submitted.result()
            return outcome
    if stop:
        return None
    if state == LOST:
        message = "left the queue without a result (cancelled?); rerun the same command to resume"
    else:
        message = f"ended early on its node, {state or 'by an error'}; rerun the same command to resume"
    return lost(job, message, Path(submitted.paths.stderr))


class Task:
    """A job as submitit stores it, calls it on a node, and requeues it after a timeout."""

    def __init__(self, job: Job, folder: Path, threads: int):
        self.job, self.folder, self.threads = job, folder, threads
        self.in_vain = 0

    def __call__(self) -> Outcome:
        os.chdir(self.folder)
        requeue, before = signal.getsignal(signal.SIGUSR2), self._saved()
        with Signals():
            if self.job.devices > 1:
                each = max(self.threads // self.job.devices, 1)
                outcome = next(run_processes([self.job], threads=each))
            else:
                outcome = run(self.job)
        if outcome.status == 128 + signal.SIGUSR2 and callable(requeue):
            self.in_vain = self.in_vain + 1 if self._saved() == before else 0
            if self.in_vain < IN_VAIN:
                requeue(signal.SIGUSR2, None)
            message = f"it ran out of time {IN_VAIN} times before it could save: raise launch.timeout_min"
            return lost(self.job, message, outcome.log)
        if outcome.status == 128 + signal.SIGTERM and comes_back():
            # Without a result, which would be final for this job.
            sys.exit(outcome.status)
        return outcome

    def checkpoint(self) -> Any:
        """The same job, which resumes from its own checkpoint."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)

    def _saved(self) -> int:
        """Time of the last save, in nanoseconds since 1970; 0: never."""
        with suppress(OSError):
            return (self.job.folder / layout.CHECKPOINTS / layout.LAST).stat().st_mtime_ns
        return 0


def ask(*words: str) -> str | None:
    """The output of a SLURM command; None if it fails, for example if the controller does not respond."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=ANSWER_S)
    except (OSError, subprocess.TimeoutExpired):
        return None
    # For a single forgotten job, squeue reports an invalid number.
    return done.stdout if done.returncode == 0 or "Invalid job id" in done.stderr else None


class Queue:
    """The jobs in the queue, queried together; reports once why jobs wait for what does not come."""

    def __init__(self) -> None:
        self._said: set[str] = set()
        self._absent: set[str] = set()

    def ended(self, ids: Collection[str], *, sure: bool = True) -> dict[str, str]:
        """The jobs of ``ids``, such as ``12_3``, that have ended or are lost, with their state.

        ``sure`` requires the same in the previous call: a job that is being requeued briefly looks ended.
        """
        arrays = sorted({one.partition("_")[0] for one in ids})
        listed = ask("squeue", "-h", "-r", "-t", "all", "-j", ",".join(arrays), "-o", "%i|%T|%r")
        if listed is None:
            return {}
        found = {name: rest for name, *rest in (line.split("|", 2) for line in listed.splitlines())}
        self._say(reason for state, reason in found.values() if state == "PENDING")
        gone = {one for one in ids if one not in found or found[one][0] in ENDED}
        twice, self._absent = gone & self._absent, gone
        return {one: found[one][0] if one in found else LOST for one in (twice if sure else gone)}

    def _say(self, reasons: Iterable[str]) -> None:
        for reason in sorted(set(reasons) - TO_COME - self._said):
            self._said.add(reason)
            clear_bars()
            sys.stderr.write(f"launch=slurm: a job waits: {reason}\n")


def in_queue() -> list[str]:
    """The ids of this user's waiting or running cnnpool jobs."""
    listed = ask("squeue", "-h", "-r", "-u", str(os.getuid()), "-n", NAME, "-o", "%i")
    return (listed or "").split()


def most_in_array(default: int = 1000) -> int:
    """The most jobs that the cluster allows in one array."""
    found = re.search(r"^MaxArraySize\s*=\s*(\d+)", ask("scontrol", "show", "config") or "", re.MULTILINE)
    return max(1, int(found[1])) if found else default


def comes_back() -> bool:
    """Whether this job comes back: one requeued by hand, or preempted, which is requeued here."""
    job = os.environ.get("SLURM_JOB_ID", "")
    shown = ask("scontrol", "show", "job", "-o", job) if job else None
    facts = dict(re.findall(r"(\w+)=(\S+)", shown or ""))
    if facts.get("JobState") == "RUNNING" and facts.get("PreemptTime", "None") != "None":
        return ask("scontrol", "requeue", job) is not None
    return int(facts.get("Restarts", 0)) > int(os.environ.get("SLURM_RESTART_COUNT", 0))
