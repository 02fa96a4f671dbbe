import time
from threading import Barrier, Lock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cnnpool.data.threads import in_threads


@settings(max_examples=60)
@given(
    costs=st.lists(st.integers(0, 30), max_size=120),
    budget=st.integers(1, 40),
    workers=st.one_of(st.none(), st.integers(1, 8)),
)
def test_every_item_is_done_once_within_the_budget(costs, budget, workers):
    lock, done, now, peaks = Lock(), [], [], []

    def work(item):
        with lock:
            now.append(item)
            peaks.append((len(now), sum(costs[one] for one in now)))
        with lock:
            now.remove(item)
            done.append(item)

    in_threads(work, costs, budget=budget, workers=workers)
    assert sorted(done) == list(range(len(costs)))
    assert all(count == 1 or total <= budget for count, total in peaks)
    assert all(count <= (workers or 10**6) for count, _ in peaks)


def test_items_that_have_room_run_at_once():
    together = Barrier(4)
    in_threads(lambda item: together.wait(30), [1] * 4, budget=4, workers=4)


def test_the_largest_begin():
    begun = []
    in_threads(begun.append, [1, 2, 160, 3, 80], budget=160, workers=1)
    assert begun[:2] == [2, 4]


def test_the_first_error_ends_the_work():
    done = []

    def work(item):
        time.sleep(0.001)
        done.append(item)
        if len(done) == 3:
            raise KeyError("bad")

    with pytest.raises(KeyError, match="bad"):
        in_threads(work, [1] * 1000, budget=10, workers=2)
    assert len(done) < 20
