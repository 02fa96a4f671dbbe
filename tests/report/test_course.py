"""Means and intervals over runs against plain loops over their lines."""

import json
import math
import statistics

import numpy as np
import pytest
from scipy import stats

from cnnpool.report.course import course
from cnnpool.report.runs import find


def log(folder, lines):
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_bands_are_those_of_a_slow_loop_over_tags_and_steps(shelf):
    generator = np.random.default_rng(0)
    logged = {}
    for seed in range(4):
        lines = [
            {"step": step, "epoch": step // 2, "a": generator.normal(), **({"b": generator.normal()})}
            for step in range(1, 7)
        ]
        # Steps and tags that not all runs have, one written twice, one written late.
        lines += [{"step": 9 + seed % 2, "epoch": 4, "a": 1.0}, {"step": 3, "epoch": 1, "b": float(seed)}]
        lines += [{"step": 20, "epoch": 9, "only": 2.0}] * (seed == 2)
        logged[seed] = lines
        log(shelf.put(seed=seed), lines)
    found = course(find([shelf.root]))
    tables = {
        tag: [{one["step"]: one[tag] for one in lines if tag in one} for lines in logged.values()]
        for tag in ("a", "b", "only")
    }
    for tag, runs in tables.items():
        runs = [run for run in runs if run]
        steps, band = found.bands[tag]
        assert steps.tolist() == sorted(set.intersection(*map(set, runs)))
        for place, step in enumerate(steps.tolist()):
            values = [run[step] for run in runs]
            assert band[0, place] == pytest.approx(statistics.fmean(values))
            if len(values) == 1:
                assert math.isnan(band[1, place]) and math.isnan(band[2, place])
            else:
                interval = stats.t.interval(0.95, len(values) - 1, band[0, place], stats.sem(values))
                assert band[1:, place] == pytest.approx(interval)


def test_an_epoch_that_one_run_lacks_is_a_gap(shelf):
    for seed, epochs in ((0, (1, 2, 3)), (1, (1, 3))):
        lines = [{"step": 10 * e, "epoch": e, "val/accuracy": 0.1 * e} for e in epochs]
        log(shelf.put(seed=seed), lines)
    # A run without any validation is in no mean and makes no gap.
    log(shelf.put(seed=2), [{"step": 10, "epoch": 1, "train/loss": 1.0}])
    found = course(find([shelf.root]))
    assert (found.epochs, found.runs) == ([1, 2, 3], 2)
    assert found.accuracy[0] == pytest.approx([0.1, math.nan, 0.3], nan_ok=True)


def test_no_interval_of_an_accuracy_leaves_its_range(shelf):
    for seed, value in enumerate((0.5, 1.0, 1.0)):
        log(shelf.put(seed=seed), [{"step": 1, "epoch": 1, "val/accuracy": value}])
    found = course(find([shelf.root]))
    assert found.accuracy[2].tolist() == [1.0] and 0 <= found.accuracy[1][0] < 0.5
