import csv
import statistics

import numpy as np
import pytest
from scipy.stats import friedmanchisquare

from scripts.docs import choose_errors


def test_a_race_drops_candidates_only_where_friedmans_test_says_that_they_differ():
    generator = np.random.default_rng(0)
    decided = []
    for shift in np.repeat([0.0, 0.4, 0.8], 20):
        values = generator.standard_normal((4, 8)) + shift * np.arange(4)[:, None]
        kept = choose_errors._unbeaten(values)
        decided.append(not kept.all())
        assert kept[np.argmax((values.argsort(0).argsort(0)).sum(1))]
        assert decided[-1] <= (friedmanchisquare(*values).pvalue < 0.05)
    assert 10 < sum(decided) < 50


def test_every_way_to_choose_finds_a_clear_best_and_counts_its_runs():
    values = np.random.default_rng(1).standard_normal((50, choose_errors.EACH, 60)) / 10
    values[:, 0] += 3
    best, shown, dropped, runs = choose_errors.advised(values[..., : choose_errors.LATEST])
    raced, races = choose_errors.raced(values[..., : choose_errors.LATEST])
    assert not best.any() and shown.all() and not dropped.any()
    assert not raced.any() and not choose_errors.halved(values, 24).any()
    assert (runs >= 3 * choose_errors.EACH).all() and (races < 60).all()


def test_the_candidates_of_a_sweep_have_the_means_and_the_lead_of_its_runs():
    found = choose_errors.published("mnist_operators")
    runs = (choose_errors.DOCS / "mnist_operators" / "runs.csv").read_text("utf-8").splitlines()
    values = {}
    for row in csv.DictReader(runs):
        if row["choice"] in choose_errors.POOLS:
            values.setdefault(row["choice"], []).append(100 * float(row["test.accuracy"]))
    order = sorted(values, key=lambda name: -statistics.mean(values[name]))
    assert found.means == pytest.approx([statistics.mean(values[name]) for name in order])
    assert order[found.baseline] == "max"
    apart = [a - b for a, b in zip(values[order[0]], values[order[1]], strict=True)]
    assert found.lead == pytest.approx(statistics.mean(apart) / statistics.stdev(apart))
