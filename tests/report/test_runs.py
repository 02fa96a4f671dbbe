import json
import math
import statistics

import numpy as np
import pytest
from scipy import stats

from cnnpool.report.comparison import compare
from cnnpool.report.foreign import read
from cnnpool.report.plots.learning_curve import history, learning
from cnnpool.report.runs import Run


def test_runs_are_found_at_any_depth_and_only_once(shelf):
    first = shelf.put("a/b/seed0", seed=0)
    shelf.put("c/seed1", seed=1)
    runs = read([shelf.root, first, shelf.root / "a"])
    assert sorted(run.seed for run in runs) == [0, 1]
    assert {run.state for run in runs} == {"done"}


def test_states_tell_failed_running_and_unfinished_apart(shelf):
    shelf.put(seed=0)
    for name, file, text in (
        ("failed", "status.json", '{"state": "failed", "error": "loss became NaN"}'),
        ("running", "status.json", '{"state": "running"}'),
        ("begun", ".hydra/config.yaml", "seed: 0\n"),
        ("logged", "metrics.jsonl", ""),
        # Of another program.
        ("other", "results.json", "{}"),
    ):
        path = shelf.root / name / file
        path.parent.mkdir(parents=True)
        path.write_text(text)
        if name != "other":
            (shelf.root / name / ".cnnpool").touch()
    states = {run.folder.name: (run.state, run.reason) for run in read([shelf.root])}
    assert states == {
        "seed0": ("done", ""), "failed": ("failed", "loss became NaN"), "running": ("running", ""),
        "begun": ("unfinished", "no results.json"), "logged": ("unfinished", "no results.json")
    }  # fmt: skip


def test_a_damaged_record_is_named_with_a_remedy_that_works(shelf):
    path = shelf.put(seed=0) / "results.json"
    path.write_text("{half")
    [run] = read([shelf.root])
    assert run.state == "damaged" and run.reason.startswith(f"{path} is damaged: ")
    assert run.reason.endswith("; delete it, then rerun the same command")
    path.unlink()
    path.mkdir()
    [run] = read([shelf.root])
    assert run.reason == f"{path} cannot be read: it is not a regular file"


def test_paths_that_hold_no_run_are_refused(tmp_path):
    (tmp_path / "file").write_text("")
    for name, said in (("nowhere", "does not exist"), (".", "no run found"), ("file", "is not a folder")):
        with pytest.raises(ValueError, match=said):
            read([tmp_path / name])


def log(folder, lines):
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_means_and_intervals_are_those_of_a_slow_loop(shelf):
    generator = np.random.default_rng(0)
    logged = {}
    for seed in range(4):
        lines = [
            {"step": 2 * epoch + late, "epoch": epoch, "val/accuracy": generator.uniform()}
            for epoch in range(1, 5)
            # The last of an epoch counts.
            for late in range(2)
        ]
        logged[seed] = lines
        log(shelf.put(seed=seed), [{"step": 1, "epoch": 0, "train/loss": 2.0}, *lines])
    found = history(read([shelf.root]))
    assert found.epochs == [1, 2, 3, 4] and len(found.each) == 4
    for place, epoch in enumerate(found.epochs):
        values = [
            [line["val/accuracy"] for line in lines if line["epoch"] == epoch][-1]
            for lines in logged.values()
        ]
        assert [one[epoch] for one in found.each] == values
        mean, low, high = found.accuracy[:, place]
        assert mean == pytest.approx(statistics.fmean(values))
        interval = stats.t.interval(0.95, len(values) - 1, mean, stats.sem(values))
        assert (low, high) == pytest.approx((max(0, interval[0]), min(1, interval[1])))


def test_an_epoch_that_one_run_lacks_is_a_gap(shelf):
    for seed, epochs in ((0, (1, 2, 3)), (1, (1, 3))):
        lines = [{"step": 10 * e, "epoch": e, "val/accuracy": 0.1 * e} for e in epochs]
        log(shelf.put(seed=seed), lines)
    # A run without any validation is in no mean and makes no gap.
    log(shelf.put(seed=2), [{"step": 10, "epoch": 1, "train/loss": 1.0}])
    found = history(read([shelf.root]))
    assert (found.epochs, len(found.each)) == ([1, 2, 3], 2)
    assert found.accuracy[0] == pytest.approx([0.1, math.nan, 0.3], nan_ok=True)


def test_curves_are_called_running_only_where_their_runs_are(shelf):
    lines = [{"step": 10 * e, "epoch": e, "val/accuracy": 0.1 * e} for e in (1, 2)]
    going = {}
    for label, states in {"max": ["running", "running"], "avg": ["running", "failed"]}.items():
        folders = [shelf.root / label / str(place) for place in range(len(states))]
        for folder in folders:
            folder.mkdir(parents=True)
            log(folder, lines)
        going[label] = list(map(Run, folders, states))
    [legend] = learning(None, going, ("max", "avg"))[0].legends
    assert [one.get_text() for one in legend.get_texts()] == ["max (2 running)", "avg (2 not finished)"]


def test_lost_metrics_are_named_even_where_no_curve_is_left_of_them(shelf):
    for seed, pool in enumerate(("max", "avg")):
        shelf.put(pool=pool, steps=30, epochs=3)
        lines = [{"step": 10 * e, "epoch": e, "val/accuracy": 0.1 * e} for e in (1, 2, 3)]
        log(shelf.root / pool / "seed0", lines[: 1 + 2 * seed])
    caption = learning(compare(read([shelf.root])))[1]
    path = shelf.root / "max" / "seed0" / "metrics.jsonl"
    assert f" {path} is damaged: it ends in epoch 1 of 3." in caption and caption.count("is damaged") == 1
