"""Items of an iterator, made in a thread while the last one is used."""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def prefetched(items: Iterator[T], ahead: int) -> Iterator[T]:
    """``items`` in their order, up to ``ahead`` of them made before they are asked for; 0: as they are.

    One thread makes one after another. An error is raised where its item is due.
    """
    if not ahead:
        yield from items
        return
    end = object()
    pool = ThreadPoolExecutor(1, thread_name_prefix="cnnpool-batches")
    try:
        ready = deque(pool.submit(next, items, end) for _ in range(ahead))
        while (item := ready.popleft().result()) is not end:
            ready.append(pool.submit(next, items, end))
            yield item  # type: ignore[misc]
            del item
    finally:
        pool.shutdown(cancel_futures=True)
