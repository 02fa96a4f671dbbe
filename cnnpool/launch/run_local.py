"""Run jobs one after the other in this process, until one of them runs out of memory."""

import sys
from collections.abc import Iterator, Sequence

from cnnpool.launch.job import Job, Outcome
from cnnpool.launch.run_here import run_here


def run_local(asked: Sequence[Job], /) -> Iterator[Outcome]:
    """Outcomes of ``asked``; after one that ran out of memory the others run in processes of their own.

    Memory that the failed job still holds could make small jobs fail too.
    """
    for number, outcome in enumerate(run_here(asked), 1):
        yield outcome
        if outcome.out_of_memory and number < len(asked):
            yield from _apart(asked[number:])
            return


def _apart(asked: Sequence[Job]) -> Iterator[Outcome]:
    # The failed job has imported torch already. With as many threads the results are the same to the bit.
    import torch

    from cnnpool.launch.run_processes import run_processes
    from cnnpool.system.hardware import release_memory

    release_memory()
    sys.stdout.write("out of memory: each of the other jobs runs in a process of its own\n")
    yield from run_processes(asked, jobs=1, threads=torch.get_num_threads())
