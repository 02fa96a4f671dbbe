import threading
import time
from itertools import islice

import pytest

from cnnpool.data.prefetch import prefetched


def threads() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name.startswith("cnnpool-batches")]


@pytest.mark.parametrize("ahead", [0, 1, 3, 30])
def test_items_come_in_order_and_the_thread_ends(ahead):
    assert list(prefetched(iter(range(20)), ahead)) == list(range(20))
    assert list(prefetched(iter([]), ahead)) == []
    assert not threads()


@pytest.mark.parametrize("ahead", [0, 1, 3])
def test_no_more_than_so_many_are_made_before_they_are_asked_for(ahead):
    made = []
    results = prefetched(map(made.append, range(100)), ahead)
    assert not made
    for used in range(1, 10):
        next(results)
        time.sleep(0.02)
        assert used <= len(made) <= used + ahead
    results.close()
    assert len(made) <= 9 + ahead and not threads()


def test_items_are_made_while_the_last_one_is_used():
    items = ((step, threading.current_thread().name) for step in range(3))
    here = threading.current_thread().name
    assert [step for step, name in prefetched(items, 1) if name != here] == [0, 1, 2]


@pytest.mark.parametrize("ahead", [0, 3])
def test_an_error_comes_where_its_item_is_due(ahead):
    def make(step):
        if step == 2:
            raise OSError("no disk")
        return step

    results = prefetched(map(make, range(5)), ahead)
    assert list(islice(results, 2)) == [0, 1]
    with pytest.raises(OSError, match="no disk"):
        next(results)
    assert not threads()
