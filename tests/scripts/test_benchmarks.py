import dataclasses
import subprocess

import pytest
import torch

from cnnpool import data
from scripts.benchmarks import figures, images, memory, sweep, train


def test_a_row_is_said_and_written_with_its_ratio():
    ratio = {"median": 2.0, "q1": 1.5, "q3": 2.5, "n": 3}
    row = figures.row("one thing", "s", 1.0, 2.0, "another", ratio, figures.Wanted(1.5))
    assert "one thing" in figures.line(row) and "[1.50 2.50] 3" in figures.line(row)
    figure = "| one thing | 1 | 2 (another) | s | **2** (1.5 to 2.5, 3) |"
    assert f"{figure} at least 1.5, reached |" in figures.table([row])
    bound = figures.row("one thing", "s", 1.0, 2.0, "another", ratio)
    assert f"{figure}  |" in figures.table([bound]) and "wanted" not in bound
    assert figures.line(bound).rstrip().endswith("[1.50 2.50] 3")


def test_a_target_is_one_of_the_ratio_or_of_our_own_figure():
    ratio = {"median": 2.0, "q1": 1.5, "q3": 2.5, "n": 3}
    for wanted, words, reached in [
        (figures.Wanted(2), "at least 2", True),
        (figures.Wanted(2.5), "at least 2.5", False),
        (figures.Wanted(1.9, most=True), "at most 1.9", False),
        (figures.Wanted(0.5, most=True, unit="s"), "at most 0.5 s", False),
        (figures.Wanted(1, most=True, unit="s"), "at most 1 s", True),
    ]:
        row = figures.row("one thing", "s", 1.0, 0.5, "another", ratio, wanted)
        assert (row["wanted"], row["reached"]) == (words, reached)


def few(case, root):
    whole = data.build("digits", val_size=0)
    part = torch.arange(case.steps * case.batch_size)
    source = dataclasses.replace(whole.source, batch_size=case.batch_size)
    return dataclasses.replace(whole, train=whole.train.take(part), source=source)


def test_a_run_and_the_bare_loop_are_timed_on_the_same_images(monkeypatch):
    monkeypatch.setattr(train, "_dataset", few)
    case = train.Case("tiny", "sprint", 2, 8, 6)
    assert min(timed(case, None) for timed in (train._speed, train._bare, train._automatic)) > 0
    row = train._batches(case, None, 3)
    assert row["rival"] > 0 and row["wanted"] == "at most 0.1 ms"


@pytest.mark.parametrize(("network", "operator"), [("sprint", "soft"), ("resnet18", "max_blur")])
def test_a_step_with_kernels_and_one_without_train(network, operator):
    case = dataclasses.replace(train.RESNET if network == "resnet18" else train.SMALL, batch_size=2, steps=1)
    assert min(train._steps(case, operator, wanted) for wanted in (None, False)) > 0


def test_a_run_with_its_probe_is_timed_beside_one_without(monkeypatch):
    monkeypatch.setattr(train, "_dataset", few)
    whole, share = train._probes(train.Case("tiny", "sprint", 2, 8, 6), None, 3)
    assert whole["ratio"]["n"] == share["ratio"]["n"] == 3
    assert 0 < share["ours"] < whole["ours"], "one reading is a part of the run"


def test_a_sweep_is_timed_beside_the_same_runs_one_after_the_other(monkeypatch):
    def seconds(arguments, threads=None):
        assert {"seed=0,1,2", "fit.epochs=5"} <= set(arguments)
        return 10.0 if "launch=processes" in arguments else 30.0 if threads else 20.0

    monkeypatch.setattr(sweep, "CASES", (sweep.Case(3, "convnet", ("fit.epochs=5",)),))
    monkeypatch.setattr(sweep, "seconds", seconds)
    monkeypatch.setattr(sweep.os, "cpu_count", lambda: 2)
    whole, bound = sweep.rows(2)
    # One core takes 30 s, so two that lose nothing would take 15.
    assert (whole["ours"], bound["ours"], whole["rival"], bound["rival"]) == (10, 15, 20, 20)
    assert (whole["ratio"]["median"], bound["ratio"]["median"]) == (20 / 10, 20 / 15)
    assert whole["case"] == "3 runs, convnet on digits, fit.epochs=5, 2 cores" and whole["reached"]


def test_a_folder_is_measured_from_memory_and_from_disk(monkeypatch):
    monkeypatch.setattr(images, "CASES", (images.Case("small", "", size=48, resize=64, batch_size=4),))
    rows = list(images.rows(8, repeat=3))
    assert len(rows) == 6 and all(row["ours"] > 0 and row["rival"] > 0 for row in rows)
    shares = [row for row in rows if not row["unit"]]
    assert len(shares) == 2 and all(row["ours"] <= 1 and row["rival"] <= 1 for row in shares)
    assert "from disk" in figures.line(rows[-1])


def test_peak_memory_is_that_of_the_whole_process_and_a_failed_run_is_said(tmp_path, monkeypatch):
    script = "b = bytearray(256 << 20); b[::4096] = b'1' * len(b[::4096])"
    monkeypatch.setattr(memory, "PROGRAM", ["-c", script])
    assert 256 < memory.peak([], tmp_path) < 256 + 1024
    monkeypatch.setattr(memory, "PROGRAM", ["-c", "raise SystemExit(3)"])
    with pytest.raises(subprocess.CalledProcessError, match="status 3"):
        memory.peak([], tmp_path)


def test_photographs_are_further_names_of_a_few_files(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "DISTINCT", 12)
    memory.write_photos(tmp_path, 50)
    train = list((tmp_path / "train").glob("*/*.jpg"))
    assert len(train) == 50 and len({path.stat().st_ino for path in train}) == 12
    assert len(list((tmp_path / "test").glob("*/*.jpg"))) == memory.TEST
    source = data.build("image_folder", root=str(tmp_path), size=memory.SIZE, val_size=8, stream=True)
    assert source.train.rows.nbytes == 42 * 224 * 224 * 3
