"""Work in threads with results in order, and a memory budget shared by threads."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Condition
from typing import TypeVar

from cnnpool.system.load import usable

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_threads(
    work: Callable[[Item], Result], items: Iterable[Item], *, ahead: int, workers: int | None = None
) -> Iterator[Result]:
    """``work`` on every item, in order, up to ``ahead`` in advance, by ``workers`` or all cores."""
    pool = ThreadPoolExecutor(workers or len(usable()), thread_name_prefix="cnnpool-data")
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
    """A memory budget shared by threads: each waits for its share; work above ``total`` runs alone."""

    def __init__(self, total: int):
        self._total = self._free = total
        self._changed = Condition()

    @contextmanager
    def taken(self, cost: int) -> Iterator[None]:
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
