"""Thread pool with a memory budget."""

import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from threading import Condition


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_threads(
    work: Callable[[int], None], costs: Sequence[int], *, budget: int = 1, workers: int | None = None
) -> None:
    """Call ``work`` with every index of ``costs``, the dearest first; the first exception ends it.

    Args:
        work: done in a thread.
        costs: memory that each item takes while it is worked on.
        budget: of all that run at once, in the same unit; an item that takes more runs alone.
        workers: threads; None for one for each core.
    """
    waiting = deque(sorted(range(len(costs)), key=lambda item: -costs[item]))
    changed, free = Condition(), budget

    def one_after_another() -> None:
        nonlocal free
        while True:
            with changed:
                if not waiting:
                    return
                item = waiting.popleft()
                cost = min(costs[item], budget)
                while cost > free:
                    changed.wait()
                free -= cost
            try:
                work(item)
            finally:
                with changed:
                    free += cost
                    changed.notify_all()

    number = min(workers or cores(), len(costs))
    with ThreadPoolExecutor(max(1, number)) as pool:
        threads = [pool.submit(one_after_another) for _ in range(number)]
        try:
            for thread in wait(threads, return_when=FIRST_EXCEPTION).done:
                thread.result()
        finally:
            waiting.clear()
