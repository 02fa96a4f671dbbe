import os

import pytest

from cnnpool.report import foreign
from cnnpool.report import runs as reading
from cnnpool.run_folder import metrics, status
from cnnpool.run_folder.folder_lock import held
from cnnpool.tensorboard.index import Index


@pytest.fixture
def follow(shelf, restless):
    return Index([shelf.root])


@pytest.fixture
def read(monkeypatch):
    """The folders that are read, in order."""
    folders = []
    real = reading.read
    monkeypatch.setattr(reading, "read", lambda folder: (folders.append(folder.name), real(folder))[1])
    return folders


def test_the_same_runs_are_found_as_by_compare(shelf, follow, begin):
    shelf.sweep(max=[0.9, 0.8], avg=[0.7])
    begin("blur/seed0", pool="blur")
    (shelf.root / "max" / "report").mkdir()
    # A run's own place is its name, even if a link to it comes first.
    (shelf.root / "a_link").symlink_to(shelf.root / "max")
    own, others = follow.snapshot().every, foreign.read([shelf.root])
    assert [(run.folder, run.state) for run in own] == [(run.folder, run.state) for run in others]
    assert [run.found for run in own] == [run.found for run in others]


def test_only_what_has_changed_is_read_again(shelf, follow, read):
    shelf.sweep(max=[0.9, 0.8])
    first = follow.snapshot()
    assert read == ["seed0", "seed1"]
    assert follow.snapshot() == first and len(read) == 2
    shelf.put(pool="avg", seed=7)
    second = follow.snapshot()
    assert read[2:] == ["seed7"] and second != first and second.finished != first.finished
    os.remove(shelf.root / "max" / "seed0" / "results.json")
    third = follow.snapshot()
    assert read[3:] == ["seed0"] and third.finished != second.finished
    assert [run.state for run in third.every] == ["done", "unfinished", "done"]


def test_a_run_that_goes_on_changes_no_results(shelf, follow, begin):
    shelf.put()
    folder = begin("max/seed1", seed=1, epochs=[(1, 0.5)])
    first = follow.snapshot()
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"step": 20, "epoch": 2, "val/accuracy": 0.75}\n')
    second = follow.snapshot()
    assert second != first and second.finished == first.finished
    [run] = [run for run in second.every if not run.found]
    assert [record["val/accuracy"] for record in metrics.read(run.folder).records] == [0.5, 0.75]


def test_a_killed_run_is_no_longer_running(follow, begin):
    folder = begin("max/seed0")
    with held(folder):
        status.write(folder, "running")
        first = follow.snapshot()
        assert [run.state for run in first.every] == ["running"] and follow.snapshot() == first
    second = follow.snapshot()
    [run] = second.every
    assert second != first and second.finished == first.finished
    assert (run.state, run.reason.partition(":")[0]) == ("unfinished", "stopped")
    assert follow.snapshot() == second


def test_a_folder_that_is_not_there_yet_has_no_runs_and_links_are_followed_once(shelf, follow, tmp_path):
    assert not follow.any() and follow.snapshot().every == ()
    shelf.put(folder=tmp_path / "elsewhere" / "seed0")
    shelf.root.mkdir(exist_ok=True)
    for name in ("linked", "twice"):
        (shelf.root / name).symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "round").symlink_to(shelf.root)
    assert [run.folder for run in follow.snapshot().every] == [shelf.root / "linked" / "seed0"]
