"""Intervals and verdicts over seeds and test images: by hand, and in studies of equal choices."""

import base64
import csv
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from shelf import finished

from cnnpool.report import render, statistics
from cnnpool.report.columns import records
from cnnpool.report.comparison import compare
from cnnpool.report.pairwise import decide
from cnnpool.report.statistics import summarise
from cnnpool.run_folder.results import packed
from scripts.docs.intervals import KINDS, answers, simulate

MARGIN = 0.005


def rows(table):
    return dict(enumerate(table))


def means(table):
    return dict(enumerate(table.mean(1).tolist()))


def of_difference(own, base):
    """As a comparison of the two finds it; None where it finds none."""
    values = [{seed: float(bits.mean()) for seed, bits in one.items()} for one in (own, base)]
    pairs = decide(values, [own, base]).pairs
    return pairs[0, 1].crossed if pairs else None


def test_a_table_by_hand():
    # Means of seeds 3/4, 2/4, 1/4; of images 1, 2/3, 1/3, 0.
    one = statistics.of_choice(rows(np.array([[1, 1, 1, 0], [1, 1, 0, 0], [1, 0, 0, 0]], dtype=bool)))
    assert one.by_seed == pytest.approx(0.25 / math.sqrt(3))
    assert one.by_image == pytest.approx(math.sqrt(5 / 27) / 2)
    # Sums of squares: 3 in all, 1/2 of the seeds, 5/3 of the images, so 5/6 of the rest, over 2 * 3 and 12.
    assert one.rest == pytest.approx(math.sqrt(5 / 432))
    assert one.error == pytest.approx(math.sqrt(1 / 48 + 5 / 108 - 5 / 432))
    parts = (1 / 48) ** 2 / 2 + (5 / 108) ** 2 / 3 + (5 / 432) ** 2 / 6
    assert one.freedom == pytest.approx((1 / 18) ** 2 / parts)
    assert one.half == pytest.approx(stats.t.ppf(0.975, one.freedom) / math.sqrt(18))
    # Never less than the seeds alone.
    assert statistics.Crossed(3, 400, 0.02, 0.001, 0.002).half == pytest.approx(4.302653 * 0.02)


def test_the_parts_are_those_of_a_two_way_analysis_of_variance():
    generator = np.random.default_rng(4)
    own, base = generator.random((2, 7, 40)) < 0.8
    x = own.astype(float) - base
    found, mean = statistics.of_table(own, base), x.mean()
    rest = x - x.mean(1, keepdims=True) - x.mean(0) + mean
    assert found.by_seed == pytest.approx(math.sqrt(40 * ((x.mean(1) - mean) ** 2).sum() / 6 / x.size))
    assert found.by_image == pytest.approx(math.sqrt(7 * ((x.mean(0) - mean) ** 2).sum() / 39 / x.size))
    assert found.rest == pytest.approx(math.sqrt((rest**2).sum() / (6 * 39) / x.size))


def test_images_that_make_no_difference_leave_the_t_interval():
    table = np.zeros((6, 50), dtype=bool)
    table[:4] = True
    s, one = summarise(table.mean(1).tolist()), statistics.of_choice(rows(table))
    assert one.by_image == pytest.approx(0, abs=1e-12) and one.half == pytest.approx((s.high - s.low) / 2)


def test_seeds_that_agree_leave_the_t_interval_of_the_images():
    table = np.stack([np.random.default_rng(1).random(2000) < 0.9] * 5)
    s, one = summarise(table[0].tolist()), statistics.of_choice(rows(table))
    assert one.rest == pytest.approx(0, abs=1e-9)
    assert one.half == pytest.approx((s.high - s.low) / 2, rel=1e-3)


def test_seeds_that_agree_by_rounding_leave_at_least_a_step():
    own, base = np.ones((3, 500), dtype=bool), np.ones((3, 500), dtype=bool)
    # One other image wrong by each seed: the accuracies agree, the images show no part of their own.
    base[range(3), range(3)] = False
    one = of_difference(rows(own), rows(base))
    assert one.half > 1 / 500
    assert one.p(1 / 500) > 0.05


def test_p_is_below_5_percent_where_the_interval_leaves_out_0():
    generator = np.random.default_rng(2)
    for _ in range(300):
        parts = sorted(generator.uniform(1e-4, 0.01, 3), reverse=True)
        one = statistics.Crossed(int(generator.integers(3, 12)), 360, *parts)
        mean = float(generator.uniform(-0.03, 0.03))
        assert (one.p(mean) < 0.05) == (abs(mean) > one.half)
        # Both one-sided tests at 2.5 % are an interval of 95 % within the margin.
        assert (one.p_within(mean, MARGIN) < 0.025) == (abs(mean) + one.half < MARGIN)


def test_too_few_seeds_or_other_images_give_none():
    table = np.ones((4, 20), dtype=bool)
    assert statistics.of_choice(rows(table[:2])) is None
    assert of_difference(rows(table), {0: table[0], 1: table[1], 9: table[2]}) is None
    assert of_difference(rows(table), rows(table[:, :10])) is None


STUDIES = 2000
ERRORS = stats.binom.ppf(0.999, STUDIES, 0.05) / STUDIES
"""A rate of 5 % exceeds this in one simulation of a thousand."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seeds", "images", "effects"),
    [
        (3, 360, {"by_seed": 0.3, "apart": 0.0}),
        (10, 360, {"apart": 1.0}),
        (10, 1000, {"level": 1.0, "apart": 0.3}),
    ],
)
def test_of_equal_choices_any_is_called_different_in_5_of_100_reports(seeds, images, effects):
    """Training images and seeds are drawn anew by ``by_seed``, test images by ``by_image`` and ``apart``."""
    generator, false, by_seeds = np.random.default_rng(seeds), 0, 0
    by_images = seeds == 10 and effects["apart"] == 1.0
    for _ in range(STUDIES):
        tables = answers(generator, 4, seeds, images, **effects)
        values = list(map(means, tables))
        false += any(p.adjusted < 0.05 for p in decide(values, list(map(rows, tables))).pairs.values())
        by_seeds += by_images and any(p.adjusted < 0.05 for p in decide(values).pairs.values())
    assert false / STUDIES <= ERRORS
    # The test over the seeds alone takes what single images decide for a difference of the choices.
    assert by_seeds / STUDIES > 2 * ERRORS or not by_images


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_an_interval_of_a_difference_holds_0_in_95_of_100_studies(kind):
    held, ratio = simulate(6, STUDIES, **KINDS[kind])
    assert 1 - held <= ERRORS and ratio < 1


def test_a_difference_of_the_margin_is_called_less_in_5_of_100():
    generator, false = np.random.default_rng(7), 0
    for _ in range(STUDIES):
        base = generator.random((6, 4000)) < 0.95
        # Wrong on a share of images that is the margin, over all images.
        own = base & (generator.random((6, 4000)) > MARGIN / 0.95)
        [pair] = decide([means(own), means(base)], [rows(own), rows(base)], margin=MARGIN).pairs.values()
        false += pair.within < 0.05
    assert 0 < false / STUDIES <= ERRORS


def test_a_report_uses_both_and_writes_the_parts(tmp_path):
    generator = np.random.default_rng(3)
    one, other = answers(generator, 2, 6, 400, apart=0.1)
    # In base64 these six are a plus, which begins a formula in other columns.
    one[0, :6] = [True, True, True, True, True, False]
    tables = {"max": one, "avg": other, "same": one ^ (generator.random(one.shape) < 0.001)}
    runs = [
        finished(pool, seed, {"test": {"accuracy": float(row.mean()), "loss": 1.0}}, correct=packed(row))
        for pool, table in tables.items()
        for seed, row in enumerate(table)
    ]
    comparison = compare(runs, margin=0.005)
    for record, table in zip(records(comparison), (one, other), strict=False):
        found = statistics.of_choice(rows(table))
        assert (record["se_seeds"], record["se_images"]) == (found.by_seed, found.by_image)
        assert record["ci_high"] - record["mean"] == pytest.approx(found.half)
    assert records(comparison)[2]["verdict"] == "differs by less than 0.50 points"
    # A share of the errors, of which max makes so many.
    [*_, same] = records(compare(runs, margin="5%"))
    assert same["verdict"] == f"differs by less than {5 * (1 - one.mean()):.2f} points"
    render.write(comparison, tmp_path, [], [])
    one_run = next(csv.DictReader((tmp_path / "correct.csv").read_text("utf-8").splitlines()))
    bits = np.unpackbits(np.frombuffer(base64.b64decode(one_run["bits"], validate=True), np.uint8))[:400]
    assert (one_run["choice"], one_run["seed"], one_run["images"]) == ("max", "0", "400")
    assert (bits == one[0]).all() and one_run["bits"].startswith("+")
    without = [replace(run, found=replace(run.results, correct=None)) for run in runs]
    assert records(compare(without))[0]["se_images"] is None
    assert records(compare(runs, metric="test.loss"))[0]["se_images"] is None
