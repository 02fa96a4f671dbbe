import os
import threading
import time
from itertools import islice
from threading import Barrier, Lock

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cnnpool.data import DataError
from cnnpool.data.rows import File, InMemory, Stored, sums_of
from cnnpool.data.threads import Budget, in_threads

RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (40, 5, 3, 2), np.uint8)


def stored(path) -> Stored:
    path.write_bytes(PIXELS.tobytes())
    row_sums = torch.from_numpy(np.stack([sums_of(image) for image in PIXELS]))
    return Stored(File(path), (5, 3, 2), torch.arange(40), row_sums)


@pytest.fixture(scope="module")
def on_disk(tmp_path_factory) -> Stored:
    return stored(tmp_path_factory.mktemp("rows") / "x")


@settings(max_examples=60)
@given(first=st.lists(st.integers(0, 39), max_size=30), data=st.data())
def test_rows_on_disk_are_those_in_memory(on_disk, first, data):
    taken = on_disk.take(torch.tensor(first, dtype=torch.int64))
    then = data.draw(st.lists(st.integers(0, len(first) - 1), max_size=30)) if first else []
    index = torch.tensor(then, dtype=torch.int64)
    expected = PIXELS[first][then]
    assert np.array_equal(taken.read(index).numpy(), expected)
    assert np.array_equal(InMemory(torch.from_numpy(PIXELS)[first]).read(index).numpy(), expected)
    assert np.array_equal(taken.whole().numpy(), PIXELS[first])


def test_rows_are_read_in_several_parts_where_one_is_too_large(on_disk, monkeypatch):
    monkeypatch.setattr("cnnpool.data.rows.CHUNK", on_disk.nbytes // 3)
    assert [len(chunk) for chunk in on_disk.chunks()] == [13, 13, 13, 1]
    assert np.array_equal(on_disk.whole().numpy(), PIXELS)


def test_sums_are_those_of_whole_numbers_in_memory_and_on_disk(on_disk):
    values = PIXELS.astype(np.int64)
    expected = np.stack((values.sum((0, 1, 2)), (values**2).sum((0, 1, 2))))
    for rows in (on_disk, InMemory(torch.from_numpy(PIXELS))):
        assert rows.sums().dtype == torch.float64
        assert np.array_equal(rows.sums().numpy(), expected)
    own = on_disk.take(torch.tensor([3, 3, 9]))
    assert np.array_equal(own.sums().numpy(), sum(sums_of(PIXELS[i]) for i in (3, 3, 9)))


def test_sums_of_the_largest_image_do_not_overflow():
    white = np.full((8192, 9, 3), 255, np.uint8)
    assert sums_of(white)[1].tolist() == [8192 * 9 * 255**2] * 3


def test_a_file_that_became_shorter_is_named_and_one_whose_name_is_gone_stays_readable(tmp_path):
    rows, other = stored(tmp_path / "x"), stored(tmp_path / "y")
    (tmp_path / "x").write_bytes(b"short")
    with pytest.raises(DataError, match=r"/x ended too early: it was changed by another program; run again"):
        rows.whole()
    (tmp_path / "y").unlink()
    assert np.array_equal(other.whole().numpy(), PIXELS)
    with pytest.raises(DataError, match=rf"cannot read {tmp_path} \(Is a directory\): run again"):
        File(tmp_path).read(np.zeros(1, np.int64), (1, 1, 1))
    descriptor = other.file.descriptor
    del other
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


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


def test_what_another_has_taken_is_waited_for():
    budget, order = Budget(3), []

    def other():
        with budget.taken(2):
            order.append("other")

    thread = threading.Thread(target=other)
    with budget.taken(2):
        thread.start()
        thread.join(0.2)
        order.append("first")
    thread.join(30)
    assert order == ["first", "other"]


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
