"""How much a choice matters as images grow: hand-worked cases of the script that draws it."""

from types import SimpleNamespace as Fact

import pytest

from scripts.docs import sizes


def run(limit, pool, seed):
    return Fact(results=Fact(data={"limit": limit}, pool={"name": pool}), seed=seed)


def test_a_sweep_that_was_stopped_counts_with_the_seeds_that_are_whole():
    runs = [run(limit, pool, seed) for seed in (0, 1) for limit in (300, 100) for pool in ("max", "avg")]
    stopped = [*runs, run(300, "max", 2), run(100, "max", 2), run(100, "avg", 2)]
    assert sizes.whole_seeds(stopped) == runs
    assert list(sizes.by_size(runs)) == [100, 300]
    assert [one.seed for one in sizes.by_size(runs)[100]] == [0, 0, 1, 1]


def test_the_ratio_is_the_spread_of_means_over_the_mean_spread_of_seeds():
    rows = [Fact(summary=Fact(mean=mean, sd=sd)) for mean, sd in ((0.90, 0.01), (0.92, 0.02), (0.94, 0.03))]
    # Means 90, 92 and 94 have the standard deviation 2; seeds 1, 2 and 3 the mean 2.
    assert sizes.ratio(Fact(rows=rows)) == pytest.approx(1.0)
