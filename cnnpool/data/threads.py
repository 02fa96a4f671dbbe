"""Work in threads whose results come in order, and a budget of memory that threads share."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Condition
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_threads(
    work: Callable[[Item], Result], items: Iterable[Item], *, ahead: int, workers: int | None = None
) -> Iterator[Result]:
    """``work`` of every item, in the order of ``items``; an error is raised where its result is due.

    Args:
        work: done in a thread.
        items: taken as they are worked on.
        ahead: results that are made before they are asked for, >= 0.
        workers: threads; None for one for each core.
    """
    pool = ThreadPoolExecutor(workers or cores(), thread_name_prefix="cnnpool-data")
    waiting: deque[Future[Result]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) > ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


class Budget:
    """Memory that threads share: each waits until there is room for what it takes.

    Args:
        total: of all that run at once; work that takes more runs alone.
    """

    def __init__(self, total: int):
        self._total = self._free = total
        self._changed = Condition()

    @contextmanager
    def taken(self, cost: int) -> Iterator[None]:
        """Take ``cost`` of it within the context."""
        cost = min(cost, self._total)
        with self._changed:
            self._changed.wait_for(lambda: cost <= self._free)
            self._free -= cost
        try:
            yield
        finally:
            with self._changed:
                self._free += cost
                self._changed.notify_all()
