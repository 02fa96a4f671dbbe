"""The scripts that kill, fuzz and make mistakes, and the pages docs/reliability.md and docs/faults.md."""

import json
import multiprocessing
import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from scripts.reliability import mutants, null_logs
from scripts.reliability.__main__ import MEASUREMENTS, ROWS, faults, page
from scripts.reliability.faults import FAULTS, run, wrong
from scripts.reliability.same_against_same import verdict

ROOT = Path(__file__).parents[2]
KEPT = json.loads((ROOT / "docs" / "reliability.json").read_text())
PAGE = (ROOT / "docs" / "reliability.md").read_text()


def test_the_committed_pages_are_what_the_results_say():
    assert page(KEPT, PAGE) == PAGE
    assert (ROOT / "docs" / "faults.md").read_text() == faults(KEPT)


def test_what_was_measured_held():
    assert set(KEPT) <= set(ROWS)
    assert [command for parts in KEPT.values() for command, one in parts.items() if one["status"]] == []


def test_an_operator_against_itself_differs_by_nothing_and_a_planted_difference_is_found():
    values = [0.8 + 0.01 * (7 * seed % 11) for seed in range(20)]
    said, mean = verdict(values, values)
    assert said.startswith("no difference shown") and mean == 0.0
    said, mean = verdict(values, [value + 0.05 - 0.001 * (k % 3) for k, value in enumerate(values)])
    assert said == "better" and mean == pytest.approx(0.05 - 0.001 * (6 * 3 + 1) / 20)


def test_every_measurement_is_a_command_that_can_be_given_again():
    assert all(set(parts) <= set(MEASUREMENTS[name]) for name, parts in KEPT.items())
    commands = [command for parts in MEASUREMENTS.values() for command in parts]
    assert all((ROOT / command.split()[0]).is_file() for command in commands)


def test_groups_that_do_not_differ_are_seldom_told_apart():
    # Of 60 comparisons of independent groups 4 in 100 hold a false word: 9 are seen less than once in 1,000.
    for n, paired in ((5, False), (6, True)):
        assert null_logs.share(n, n, paired, 60) < 9 / 60


def outcome(script, *arguments):
    command = [sys.executable, f"scripts/reliability/{script}", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="the script forks")


@forks
@pytest.mark.slow
def test_a_sweep_killed_at_random_instants_goes_on_to_the_same_results():
    found = outcome("kill_test.py", "1", "0", "processes")
    assert found["kills"] == 1
    assert found["broken files"] == found["failed restarts"] == found["done twice"] == found["different"] == 0


def test_altered_files_are_named_and_the_rest_goes_on():
    found = outcome("fuzz_files.py", "12", "7")
    assert found["told"] + found["of no effect"] == found["alterations"] > 8


@pytest.fixture(scope="module")
def fresh():
    """A process in which nothing was computed: threads and kernels of other tests would be in every fork."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
            yield process


@forks
@pytest.mark.slow
def test_runs_killed_at_random_instants_go_on_to_the_same_bits(fresh):
    status, said = fresh.submit(run, "kill_test", ["1"]).result()
    found = json.loads(said)
    assert status == 0 and found["kills"] == 1 and found["runs"] >= 1
    assert found["broken files"] == found["steps lost"] == found["failed restarts"] == found["different"] == 0


def test_altered_words_are_fine_or_refused_in_one_line(fresh):
    status, said = fresh.submit(run, "fuzz_configuration", ["60", "99"]).result()
    found = json.loads(said)
    assert status == 0 and found["cases"] == found["fine"] + found["refused"] == 60


@forks
@pytest.mark.parametrize("what", [fault.what for fault in FAULTS])
def test_a_fault_is_answered(what, fresh, tmp_path):
    assert fresh.submit(wrong, what, tmp_path).result() == []


def test_nearly_every_change_of_meaning_stands_once_where_the_list_says():
    found = mutants.mutants()
    standing = [one for one in found if one.stands]
    assert len(standing) >= max(200, 0.95 * len(found)) and len(set(found)) == len(found)
    assert {"fit", "data", "probe", "report", "choose", "pool", "readout"} <= {one.room for one in standing}


def test_changes_of_meaning_are_tried_in_a_clone_on_tests_that_pass_without_them(
    tmp_path, monkeypatch, capsys
):
    files = {
        "cnnpool/__init__.py": "",
        "cnnpool/training.py": "quick, rest, wiring, none = 1, 2, 3, 4\n",
        "tests/fit/test_training.py": "from pytest import mark\nfrom cnnpool.training import *\n"
        "def test_quick(): assert quick == 1\ndef test_unfit(): assert 0\n"
        "@mark.rest\ndef test_rest(): assert rest == 2\n",
        "tests/wiring/test_all.py": "import cnnpool.training\n"
        "def test_all(): assert cnnpool.training.wiring == 3\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "all"]):
        named = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", *named, *words], cwd=tmp_path, check=True)
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    changes = [("1,", "0,", "a"), (" 2", " 0", "b"), (" 3", " 0", "c"), (" 4", " 0", "d"), ("9", "", "e")]
    made = [mutants.Mutant("cnnpool/training.py", *change) for change in changes]
    monkeypatch.setattr(mutants, "mutants", lambda: made)
    mutants.main(["fit"])
    found = json.loads(capsys.readouterr().out)
    assert (found["changes"], found["noticed"], found["noticed quickly"]) == (4, 3, 2)
    names = ("slowly", "missed", "gone")
    assert [found[name] for name in names] == [[f"cnnpool/training.py: {what}"] for what in "bde"]
    assert found["tests that fail without"] == ["tests/fit/test_training.py::test_unfit"]
    assert (tmp_path / "cnnpool/training.py").read_text() == files["cnnpool/training.py"]
