"""Run jobs in separate processes, several at once, so that one crash stops no other job."""

import os
from collections.abc import Iterator, Sequence
from multiprocessing.connection import wait

from cnnpool.launch.job import Job, NoDownload, Outcome, Workers
from cnnpool.launch.run_job import failed, outcome_if_done
from cnnpool.launch.worker import StartError, Worker, start_method
from cnnpool.run_folder.layout import OUTPUT
from cnnpool.system.process import for_jobs
from cnnpool.system.signals import Stopped

POLL_S = 0.5


def run_processes(
    tasks: Sequence[Job], /, *, jobs: Workers | None = None, threads: Workers | None = None
) -> Iterator[Outcome]:
    """Yield outcomes as the jobs end; several jobs print into ``output.log`` of their folders.

    Args:
        jobs: jobs at once; null: one per core.
        threads: threads per process; null: ``OMP_NUM_THREADS``, else the cores divided by the processes.
    """
    at_once, each = shares(tasks, jobs, threads)
    with for_jobs(each):
        yield from _run(list(tasks), at_once, each)


def shares(tasks: Sequence[Job], jobs: int | None, threads: int | None) -> tuple[int, int]:
    """(jobs at once, threads per process) on this machine's cores."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    devices = max(job.devices for job in tasks)
    at_once = min(jobs or max(cores // devices, 1), len(tasks))
    asked = os.environ.get("OMP_NUM_THREADS", "")
    threads = threads or (int(asked) if asked.isdigit() else 0)
    return at_once, threads or max(cores // (at_once * devices), 1)


def _run(waiting: list[Job], at_once: int, threads: int) -> Iterator[Outcome]:
    total, context = len(waiting), start_method()
    running: dict[Worker, Job] = {}
    missing = NoDownload()
    stop: Stopped | None = None
    try:
        while running or (waiting and not stop):
            try:
                while waiting and not stop and len(running) < at_once:
                    job = waiting.pop(0)
                    if outcome := outcome_if_done(job) or missing.outcome(job):
                        yield outcome
                        continue
                    try:
                        job.folder.mkdir(parents=True, exist_ok=True)
                        worker = Worker(job, context, threads, job.folder / OUTPUT if total > 1 else None)
                    except (OSError, StartError) as error:
                        yield failed(job, error)
                        continue
                    running[worker] = job
                wait([report for worker in running for report in worker.reports], POLL_S)
                for worker in list(running):
                    if outcome := worker.poll():
                        missing.note(running.pop(worker), outcome)
                        yield outcome
            except Stopped as stopped:
                for worker in running:
                    worker.kill() if stop else worker.send_signal(stopped.signum)
                stop = stopped
    finally:
        for worker in running:
            worker.kill()
    if stop:
        raise stop
