import threading
import time
from itertools import islice
from threading import Barrier, Lock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cnnpool.data.threads import Budget, in_threads


def threads() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name.startswith("cnnpool-data")]


@settings(max_examples=40)
@given(costs=st.lists(st.integers(0, 30), max_size=60), total=st.integers(1, 40), workers=st.integers(1, 8))
def test_results_come_in_order_and_work_stays_within_the_budget(costs, total, workers):
    lock, budget, now, peaks = Lock(), Budget(total), [], []

    def work(item):
        with budget.taken(costs[item]):
            with lock:
                now.append(costs[item])
                peaks.append((len(now), sum(now)))
            with lock:
                now.remove(costs[item])
        return item

    assert list(in_threads(work, range(len(costs)), ahead=9, workers=workers)) == list(range(len(costs)))
    assert all(count == 1 or cost <= total for count, cost in peaks)
    assert all(count <= workers for count, _ in peaks) and not threads()


def test_items_that_have_room_run_at_once():
    together, budget = Barrier(4), Budget(4)

    def work(item):
        with budget.taken(1):
            return together.wait(30)

    assert sorted(in_threads(work, range(4), ahead=4, workers=4)) == [0, 1, 2, 3]


@pytest.mark.parametrize("ahead", [0, 1, 3])
def test_no_more_than_so_many_are_made_before_they_are_asked_for(ahead):
    made = []
    results = in_threads(made.append, range(100), ahead=ahead, workers=1)
    assert not made
    for used in range(1, 10):
        next(results)
        time.sleep(0.02)
        assert used <= len(made) <= used + ahead
    results.close()
    assert len(made) <= 9 + ahead and not threads()


@pytest.mark.parametrize("ahead", [0, 3])
def test_an_error_comes_where_its_item_is_due(ahead):
    def make(step):
        if step == 2:
            raise OSError("no disk")
        return step

    results = in_threads(make, range(5), ahead=ahead, workers=1)
    assert list(islice(results, 2)) == [0, 1]
    with pytest.raises(OSError, match="no disk"):
        next(results)
    assert not threads()
