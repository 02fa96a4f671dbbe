"""Means and intervals over runs against plain loops over their lines."""

import json
import math
import statistics

import numpy as np
import pytest
from scipy import stats

from cnnpool.report.plots.learning_curve import history
from cnnpool.report.runs import find


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
    found = history(find([shelf.root]))
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
    found = history(find([shelf.root]))
    assert (found.epochs, len(found.each)) == ([1, 2, 3], 2)
    assert found.accuracy[0] == pytest.approx([0.1, math.nan, 0.3], nan_ok=True)


def test_no_interval_of_an_accuracy_leaves_its_range(shelf):
    for seed, value in enumerate((0.5, 1.0, 1.0)):
        log(shelf.put(seed=seed), [{"step": 1, "epoch": 1, "val/accuracy": value}])
    found = history(find([shelf.root]))
    assert found.accuracy[2].tolist() == [1.0] and 0 <= found.accuracy[1][0] < 0.5
