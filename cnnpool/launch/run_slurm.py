"""Submit every job to a SLURM cluster by submitit."""

import os
import signal
import time
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le

from cnnpool.launch.job import Job, Outcome, Workers
from cnnpool.launch.run_job import already, lost, run, stopped
from cnnpool.launch.run_processes import run_processes
from cnnpool.system.signals import Signals, Stopped

POLL_S = 1.0
RECORDS = ".slurm"
"""Folder below the output root for the scripts and outputs of submitit."""
REQUEUES = 1000
"""Times that a job may run out of time and go on from its checkpoint."""


def run_slurm(
    tasks: Sequence[Job],
    /,
    *,
    jobs: Annotated[int, Ge(1), Le(10**6)] = 256,
    threads: Workers = 4,
    timeout_min: Annotated[int, Ge(1), Le(10**6)] = 240,
    mem_gb: Annotated[float, Gt(0), Le(10**6)] = 8,
    gpus: Annotated[int, Ge(0), Le(1024)] = 0,
    partition: str | None = None,
    account: str | None = None,
    qos: str | None = None,
    constraint: str | None = None,
    cluster: Literal["slurm", "local", "debug"] = "slurm",
) -> Iterator[Outcome]:
    """Outcomes as the jobs end; a signal cancels those that wait or run.

    A job whose time is up, or that gives way to another, saves, is queued again, and goes on from there.

    Args:
        tasks: what to run; their folders must be the same on every node.
        jobs: at once.
        threads: processors of each job.
        timeout_min: after which a job is queued again, in minutes.
        mem_gb: memory of each job in GB.
        gpus: of each job.
        partition, account, qos, constraint: of the queue, as for ``sbatch``; null: the cluster's own.
        cluster: slurm, or to try it without a queue: local (processes of this machine) or debug (this one).

    Raises:
        ValueError: if submitit or SLURM is missing, or the queue refuses the jobs.
    """
    queue = {"partition": partition, "account": account, "qos": qos, "constraint": constraint}
    waiting = []
    for job in tasks:
        if outcome := already(job):
            yield outcome
        else:
            waiting.append(job)
    if not waiting:
        return
    # Nodes inherit this environment; PYTHONSAFEPATH keeps their working directory off the import path.
    os.environ |= {"OMP_NUM_THREADS": str(threads), "PYTHONSAFEPATH": "1"}
    executor = _executor(waiting[0], cluster)
    executor.update_parameters(
        name="cnnpool",
        timeout_min=timeout_min,
        mem_gb=mem_gb,
        cpus_per_task=threads,
        gpus_per_node=gpus,
        slurm_array_parallelism=jobs,
        **{f"slurm_{key}": value for key, value in queue.items() if value is not None},
    )
    from submitit.core.utils import FailedJobError

    try:
        with executor.batch():
            submitted = [executor.submit(Task(job, Path.cwd(), threads)) for job in waiting]
    except FailedJobError as error:
        raise ValueError(f"launch=slurm: the queue refuses: {' '.join(str(error).split())}") from None
    yield from _wait(dict(zip(submitted, waiting, strict=True)))


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


def _wait(running: dict[Any, Job]) -> Iterator[Outcome]:
    from submitit.core.utils import FailedJobError, UncompletedJobError

    stop: Stopped | None = None
    while running:
        try:
            for submitted in [each for each in running if each.done()]:
                job = running.pop(submitted)
                try:
                    outcome: Outcome = submitted.result()
                except (FailedJobError, UncompletedJobError):
                    if stop:
                        continue
                    message = f"ended early on its node, {submitted.state}"
                    outcome = lost(job, message, Path(submitted.paths.stderr))
                yield outcome
            time.sleep(POLL_S if running else 0)
        except Stopped as stopped:
            if stop:
                break
            for submitted in running:
                submitted.cancel(check=False)
            stop = stopped
    if stop:
        raise stop


class Task:
    """A job as submitit stores it, calls it on a node, and requeues it after a timeout.

    Args:
        job: to be run.
        folder: the working directory of the sweep.
        threads: of torch.
    """

    def __init__(self, job: Job, folder: Path, threads: int):
        self.job, self.folder, self.threads = job, folder, threads

    def __call__(self) -> Outcome:
        os.chdir(self.folder)
        requeue = signal.getsignal(signal.SIGUSR2)
        with Signals():
            try:
                if self.job.devices > 1:
                    each = max(self.threads // self.job.devices, 1)
                    outcome = next(run_processes([self.job], threads=each))
                else:
                    outcome = run(self.job)
            except Stopped as stop:
                outcome = stopped(self.job, stop)
        if outcome.status == 128 + signal.SIGUSR2 and callable(requeue):
            requeue(signal.SIGUSR2, None)
        return outcome

    def checkpoint(self) -> Any:
        """The same job, which goes on from its own checkpoint."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)
