"""Run jobs one after the other in this process."""

import sys
from collections.abc import Iterator, Sequence

from cnnpool.launch.job import Job, NoDownload, Outcome
from cnnpool.launch.run_job import outcome_if_done, run
from cnnpool.system.signals import Stopped


def run_here(jobs: Sequence[Job], /) -> Iterator[Outcome]:
    """Outcomes of ``jobs``, one after the other, up to a signal."""
    missing = NoDownload()
    for job in jobs:
        failed = missing.outcome(job)
        outcome = (outcome_if_done(job) or failed) if failed else run(job, sparse=len(jobs) > 1)
        missing.note(job, outcome)
        yield outcome
        if outcome.state == "stopped":
            raise Stopped(outcome.status - 128)


def run_local(jobs: Sequence[Job], /) -> Iterator[Outcome]:
    """Like :func:`run_here`; after a job that ran out of memory the others run in separate processes.

    Memory still held by the failed job could make small jobs fail too.
    """
    for number, outcome in enumerate(run_here(jobs), 1):
        yield outcome
        if outcome.out_of_memory and number < len(jobs):
            yield from _apart(jobs[number:])
            return


def _apart(jobs: Sequence[Job]) -> Iterator[Outcome]:
    # torch is imported already. With the same number of threads the results are bit-identical.
    import torch

    from cnnpool.launch.run_processes import run_processes
    from cnnpool.system.hardware import release_memory

    release_memory()
    sys.stdout.write("out of memory: the other jobs run in separate processes\n")
    yield from run_processes(jobs, jobs=1, threads=torch.get_num_threads())
