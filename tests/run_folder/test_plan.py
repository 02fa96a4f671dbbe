import json
import os
import signal
import subprocess
import sys

import pytest

from cnnpool.run_folder import layout
from cnnpool.run_folder.errors import DamagedError
from cnnpool.run_folder.plan import FOLDER, lives, planned, read


@pytest.fixture
def jobs(tmp_path):
    """Two seeds of two choices, none begun."""
    asked = [(pool, seed) for pool in ("max", "avg") for seed in (0, 1)]
    root = tmp_path / "outputs" / "digits"
    return {root / pool / f"seed{seed}": [f"pool={pool}", f"seed={seed}"] for pool, seed in asked}


@pytest.fixture
def plans(tmp_path):
    return lambda: sorted((tmp_path / "outputs" / "digits" / FOLDER).glob("*.json"))


def leave(jobs):
    """Plan ``jobs`` as a sweep that is stopped before any has begun."""
    with pytest.raises(KeyboardInterrupt), planned(jobs):
        raise KeyboardInterrupt


def test_the_plan_stands_above_the_runs_while_they_run_and_goes_with_the_last(tmp_path, jobs, plans):
    with planned(jobs):
        [path] = plans()
        assert lives(path) and list(read(path).folders(path).items()) == list(jobs.items())
    assert os.listdir(tmp_path) == []


def test_folders_that_were_there_or_hold_something_stay(tmp_path, jobs):
    first = next(iter(jobs))
    with planned(jobs):
        first.mkdir(parents=True)
    assert [path.name for path in tmp_path.rglob("*")] == ["outputs", "digits", "max", "seed0"]
    (tmp_path / "own").mkdir()
    with planned({tmp_path / "own" / "a": [], tmp_path / "own" / "b": []}):
        pass
    assert os.listdir(tmp_path / "own") == []


def test_a_mistake_leaves_nothing(tmp_path, jobs):
    with pytest.raises(ValueError, match="launch"), planned(jobs):
        raise ValueError("launch.jobs")
    assert os.listdir(tmp_path) == []


def test_a_larger_sweep_replaces_what_it_goes_on_with_and_leaves_others(tmp_path, jobs, plans):
    root = tmp_path / "outputs" / "digits"
    leave(jobs)
    # A choice that the larger sweep does not have: one of its seeds has begun.
    leave({root / "blur" / f"seed{seed}": [] for seed in (0, 1)} | {root / "sum" / "seed0": []})
    assert len(plans()) == 2
    larger = jobs | {root / "max" / "seed2": ["pool=max", "seed=2"]}
    with planned(larger):
        assert sorted(map(len, (read(path).jobs for path in plans()))) == [3, 5]
    for folder in (root / "blur" / "seed0", root / "blur" / "seed1", root / "sum" / "seed0"):
        folder.mkdir(parents=True)
        layout.begin(folder)
    with planned(larger):
        assert [len(read(path).jobs) for path in plans()] == [5]


def test_a_plan_does_not_lie_in_a_run_of_its_own(tmp_path):
    with planned({tmp_path / "study" / "a": [], tmp_path / "study" / "a" / "b": []}):
        assert len(list((tmp_path / "study" / FOLDER).glob("*.json"))) == 1


def test_a_killed_sweep_is_known_as_such_and_its_unfinished_file_goes(tmp_path, jobs, plans):
    code = (
        "import sys, time; from pathlib import Path; from cnnpool.run_folder.plan import planned\n"
        "with planned({Path(word): [] for word in sys.argv[1:]}):\n"
        "    print('planned', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code, *map(str, jobs)], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"planned\n"
        [path] = plans()
        assert lives(path)
        process.send_signal(signal.SIGKILL)
    assert not lives(path)
    path.with_name(f".{path.name}.sweep.part").write_text("{")
    with planned(jobs):
        assert plans() == [path]
    assert not path.parent.exists()


def test_where_no_plan_can_be_written_the_sweep_goes_on(tmp_path):
    (tmp_path / "outputs").write_text("a file")
    with planned({tmp_path / "outputs" / "a": [], tmp_path / "outputs" / "b": []}):
        pass
    assert (tmp_path / "outputs").read_text() == "a file"


def test_a_damaged_plan_is_one_line_and_none_is_none(tmp_path):
    path = tmp_path / FOLDER / "abc.json"
    assert read(path) is None
    path.parent.mkdir()
    for change in ({"schema": 2}, {"jobs": []}, {"jobs": {}}, {"jobs": {"a": "x"}}):
        path.write_text(json.dumps({"schema": 1, "jobs": {"a": ["x"]}} | change))
        with pytest.raises(DamagedError) as caught:
            read(path)
        assert str(caught.value).startswith(f"{path} is damaged: ") and "\n" not in str(caught.value)
