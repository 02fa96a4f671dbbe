"""Work on many items in all cores at once, of which those that run together fit into a given memory."""

import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from itertools import islice
from threading import Condition

import torch

from cnnpool.data.draw import generator

STEPS = 16
"""Costs are told apart by this part of the budget."""
AHEAD = 64
"""Items that may be preferred to one that has no room yet."""


class Shared:
    """The items still to be worked on; those that run together cost no more than ``budget``, or run alone.

    Args:
        costs: memory of each item.
        budget: of all that run at once, in the same unit.
    """

    def __init__(self, costs: Sequence[int], budget: int):
        self.costs, self.free, self.running = costs, budget, 0
        # The largest first, lest the other cores wait for them at the end; equal ones mixed, for they lie in
        # one folder, and what is left to do is judged by what is done.
        mixed: list[int] = torch.randperm(len(costs), generator=generator(0)).tolist()
        self.waiting: deque[int] = deque(sorted(mixed, key=lambda item: -(STEPS * costs[item] // budget)))
        self.changed = Condition()

    def take(self) -> int | None:
        """The next item that there is room for, once there is; None when all are taken."""
        with self.changed:
            while self.waiting:
                for place, item in enumerate(islice(self.waiting, AHEAD)):
                    if self.costs[item] <= self.free or not self.running:
                        del self.waiting[place]
                        self.free -= self.costs[item]
                        self.running += 1
                        return item
                self.changed.wait()
            return None

    def give_back(self, item: int) -> None:
        """Note that ``item`` is done."""
        with self.changed:
            self.free += self.costs[item]
            self.running -= 1
            self.changed.notify_all()

    def stop(self) -> None:
        """Start no further item."""
        with self.changed:
            self.waiting.clear()
            self.changed.notify_all()


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_threads(
    work: Callable[[int], None], costs: Sequence[int], *, budget: int = 1, workers: int | None = None
) -> None:
    """Call ``work`` with every index of ``costs``, in any order; the first exception ends it.

    Args:
        work: done in a thread.
        costs: memory that each item takes while it is worked on.
        budget: what all that run at once may take together; an item that takes more runs alone.
        workers: threads; None for one for each core.
    """
    shared = Shared(costs, budget)

    def one_after_another() -> None:
        while (item := shared.take()) is not None:
            try:
                work(item)
            finally:
                shared.give_back(item)

    number = min(workers or cores(), len(costs))
    with ThreadPoolExecutor(max(1, number)) as pool:
        try:
            threads = [pool.submit(one_after_another) for _ in range(number)]
            for thread in wait(threads, return_when=FIRST_EXCEPTION).done:
                thread.result()
        finally:
            shared.stop()
