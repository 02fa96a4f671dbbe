"""Results of the next few calls, made in a thread while the last one is used."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

T = TypeVar("T")

AHEAD = 3
"""Results that are ready or being made, where nobody says how many."""


def prefetched(make: Callable[[int], T], steps: Iterable[int], ahead: int = AHEAD) -> Iterator[T]:
    """``make(step)`` for every step in order, up to ``ahead`` of them made before they are asked for.

    One thread makes one after another. An error is raised where its result is due.
    """
    left = iter(steps)
    pool = ThreadPoolExecutor(1, thread_name_prefix="cnnpool-batches")
    try:
        ready = deque(pool.submit(make, step) for step in islice(left, ahead))
        while ready:
            result = ready.popleft().result()
            ready.extend(pool.submit(make, step) for step in islice(left, 1))
            yield result
            del result
    finally:
        pool.shutdown(cancel_futures=True)
