import threading
import time
from itertools import islice

import pytest

from cnnpool.data.prefetch import AHEAD, prefetched


def threads() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name.startswith("cnnpool-batches")]


def test_results_come_in_order_and_the_thread_ends():
    assert list(prefetched(lambda step: step * step, range(20))) == [step * step for step in range(20)]
    assert list(prefetched(str, [])) == []
    assert not threads()


def test_no_more_than_a_few_are_made_before_they_are_asked_for():
    made = []
    results = prefetched(made.append, range(100))
    assert not made
    for used in range(1, 10):
        next(results)
        time.sleep(0.02)
        assert used <= len(made) <= used + AHEAD
    results.close()
    assert len(made) <= 9 + AHEAD and not threads()


def test_results_are_made_while_the_last_one_is_used():
    results = prefetched(lambda step: (step, threading.current_thread().name), range(3))
    assert [step for step, name in results if name != threading.current_thread().name] == [0, 1, 2]


def test_an_error_comes_where_its_result_is_due():
    def make(step):
        if step == 2:
            raise OSError("no disk")
        return step

    results = prefetched(make, range(5))
    assert list(islice(results, 2)) == [0, 1]
    with pytest.raises(OSError, match="no disk"):
        next(results)
    assert not threads()
