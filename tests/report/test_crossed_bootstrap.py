import math
from dataclasses import replace

import numpy as np
import pytest

from cnnpool.report import crossed_bootstrap as crossed
from cnnpool.report.columns import image_columns, records
from cnnpool.report.comparison import compare
from cnnpool.report.render import pages
from cnnpool.report.runs import Run
from cnnpool.report.statistics import summarise
from cnnpool.run_folder.results import Results, packed


def bits(generator, seeds, images, level=0.8, by_seed=0.0, by_image=0.0):
    """(seeds, images) of right answers whose probability depends on seed and image."""
    effect = by_seed * generator.standard_normal((seeds, 1)) + by_image * generator.standard_normal(images)
    odds = math.log(level / (1 - level)) + effect
    return generator.random((seeds, images)) < 1 / (1 + np.exp(-odds))


def rows(table):
    return dict(enumerate(table))


def test_images_that_make_no_difference_leave_the_t_interval():
    table = np.zeros((6, 50), dtype=bool)
    # Seeds differ, and images of one kind are alike: the whole table of a seed is right or wrong.
    table[:4] = True
    s = summarise(table.mean(1).tolist())
    low, high = crossed.of_choice(rows(table))
    assert (low + high) / 2 == pytest.approx(s.mean, abs=0.1)
    assert high - low == pytest.approx(s.high - s.low, rel=0.2)


def test_seeds_that_agree_leave_the_binomial_interval_of_the_images():
    one = np.random.default_rng(1).random(2000) < 0.9
    low, high = crossed.of_choice(rows(np.stack([one] * 5)))
    half = 1.96 * math.sqrt(one.mean() * (1 - one.mean()) / 2000)
    assert (low, high) == pytest.approx((one.mean() - half, one.mean() + half), abs=0.003)


def test_the_interval_holds_the_expected_accuracy_of_other_seeds_and_images():
    generator, inside, both = np.random.default_rng(5), 0, 0
    truth = bits(np.random.default_rng(0), 2000, 2000, by_seed=0.3, by_image=1.5).mean()
    for _ in range(200):
        table = bits(generator, 6, 300, by_seed=0.3, by_image=1.5)
        low, high = crossed.of_choice(rows(table))
        s = summarise(table.mean(1).tolist())
        inside += low <= truth <= high
        both += s.low <= truth <= s.high
    # 95 % less three standard errors of 200 studies; the interval over seeds alone does not reach that.
    assert inside >= 0.95 * 200 - 3 * math.sqrt(0.95 * 0.05 * 200)
    assert both < inside


def test_a_difference_is_paired_by_seed_and_image():
    generator = np.random.default_rng(2)
    base = bits(generator, 6, 500, by_image=3.0)
    own = base.copy()
    own[:, np.flatnonzero(~base.any(0))[:5]] = True
    low, high = crossed.of_difference(rows(own), rows(base))
    assert 0 < low < (own.mean() - base.mean()) < high < 0.03
    again = crossed.of_difference(rows(own), rows(base))
    assert again == (low, high)


@pytest.mark.parametrize(("seeds", "images", "level"), [(4, 2000, 0.9), (8, 1000, 0.97), (12, 300, 0.8)])
def test_the_normal_distribution_of_many_images_gives_the_interval_of_drawing_each(
    monkeypatch, seeds, images, level
):
    tables = [rows(bits(np.random.default_rng([3, k]), seeds, images, level, 0.2, 2.0)) for k in range(2)]
    found = {}
    for most in (0, images):
        monkeypatch.setattr(crossed, "FEW_KINDS", most)
        found[most] = [*crossed.of_choice(tables[0]), *crossed.of_difference(*tables)]
    width = found[images][1] - found[images][0]
    # An end of 4,000 draws has a standard error of 2 % of the width.
    assert found[0] == pytest.approx(found[images], abs=0.06 * width)
    assert found[0] != found[images]


def test_too_few_seeds_or_other_images_give_none():
    table = np.ones((4, 20), dtype=bool)
    assert crossed.of_choice(rows(table[:2])) is None
    assert crossed.of_difference(rows(table), {0: table[0], 1: table[1], 9: table[2]}) is None
    assert crossed.of_difference(rows(table), rows(table[:, :10])) is None


def runs_of(folder, tables):
    facts = {"readout": {"name": "gap"}, "model": {"name": "net"}, "data": {"name": "digits"}}
    for pool, table in tables.items():
        for seed, row in enumerate(table):
            measured = {"test": {"accuracy": float(row.mean()), "loss": 1.0}}
            one = Results(pool={"name": pool}, seed=seed, epochs=1, measured=measured, **facts)
            yield Run(folder / pool / str(seed), "done", found=replace(one, correct=packed(row)))


def test_a_report_shows_both_intervals_and_says_which_is_which(tmp_path):
    generator = np.random.default_rng(3)
    tables = {"max": bits(generator, 6, 400, 0.8), "avg": bits(generator, 6, 400, 0.9)}
    runs = list(runs_of(tmp_path, tables))
    comparison = compare(runs)
    over = ("95 % CI over seeds", "difference (points), over seeds")
    headers = [column.header for column in image_columns(comparison)]
    assert headers == ["choice", *(f"{one}{more}" for one in over for more in ("", " and images"))]
    assert f"| {' | '.join(headers)} |" in pages(comparison, [], [])["report.md"]
    [_, avg] = records(comparison)
    assert avg["ci_images_low"] < avg["mean"] < avg["ci_images_high"]
    assert avg["difference_ci_images_low"] < avg["difference"] < avg["difference_ci_images_high"]
    without = [replace(run, found=replace(run.results, correct=None)) for run in runs]
    assert image_columns(compare(without)) == []
    assert image_columns(compare(runs, metric="test.loss")) == []
