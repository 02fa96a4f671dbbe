import math

import pytest
from shelf import QUANTITIES, finished

from cnnpool.quantity import fraction
from cnnpool.report.measure import columns, quantities_of
from cnnpool.report.measure import measure as measure_of


def measure(key):
    return measure_of(key, QUANTITIES)


def test_star_is_the_mean_over_stages():
    one = measure("gradient.*.zero_fraction")
    stages = {"s1": {"zero_fraction": 0.5}, "s2": {"zero_fraction": 0.7}}
    assert one.read({"gradient": stages}) == pytest.approx(0.6)
    assert one.read({"gradient": {}}) is None
    assert one.read({}) is None
    assert math.isnan(one.read({"gradient": {"s1": {"zero_fraction": None}, "s2": {"zero_fraction": 1.0}}}))


def test_kind_and_sense_follow_from_the_key():
    for key, title, kind, sense in (
        ("test.accuracy", "test accuracy", "fraction", 1),
        ("invariance.stages.s1.relative_change.1", "relative change at 1 px, stage s1", "ratio", -1),
        ("gradient.s1.coverage", "coverage, stage s1", "fraction", 0),
        ("aliasing.stages.*.alias_energy_ratio", "alias energy, mean of stages", "fraction", -1),
        ("test.something_new", "test something new", "number", 0),
    ):
        one = measure(key)
        assert (one.title, one.quantity.form, one.sense) == (title, kind, sense)


def test_numbers_are_shown_in_their_unit():
    for key, value, text in [
        ("test.accuracy", 0.98765, "98.77"),
        ("test.accuracy", math.nan, "NaN"),
        ("cost.flops", 999_999, "1.00 M"),
        ("cost.flops", 123_456, "123 k"),
        ("cost.flops", 0, "0"),
        ("cost.wall_s", 12.5, "12.5"),
        ("test.loss", 0.12345, "0.1235"),
    ]:
        assert measure(key).format(value) == text
    assert measure("test.accuracy").format(0.0123, sign=True) == "+1.23"
    assert measure("test.accuracy").step_unit == "points"


def test_columns_take_stages_together_at_the_smallest_distance_and_put_cost_last():
    keys = [f"gradient.{key}" for key in ("s1.zero_fraction", "s2.zero_fraction", "s1.hoyer")]
    keys += [f"invariance.stages.s1.relative_change.{px}" for px in (3, 2, 10)]
    keys += ["cost.flops", "invariance.consistency.distinct", "fit.lr"]
    assert [one.key for one in columns(keys, QUANTITIES)] == [
        "invariance.consistency.distinct",
        "gradient.*.zero_fraction",
        "invariance.stages.*.relative_change.2",
        "cost.flops",
    ]


def test_stages_become_one_as_the_quantity_says():
    results = {"p": {"stages": {"a": {"x": 0.2}, "b": {"x": 0.4}, "c": {"x": 0.6}}}}
    for stages, value in {"mean": 0.4, "sum": 1.2, "max": 0.6, "min": 0.2}.items():
        one = measure_of("p.stages.*.x", [fraction("p.stages.<stage>.x", "x", "X.", stages=stages)])
        assert one.read(results) == pytest.approx(value)


def test_a_runs_own_description_comes_before_that_of_the_probes():
    own = {"test.accuracy": {"title": "hits", "definition": "Hits.", "form": "count"}}
    quantities = quantities_of([finished("max", 0, {}, quantities=own)])
    assert [one.title for one in quantities] == ["hits"]
    # A run from before runs described their numbers.
    both = quantities_of([finished("max", 0, {}, quantities=own), finished("max", 1, {})])
    assert measure_of("test.accuracy", both).title == "hits"
    assert measure_of("cost.flops", both).title == "FLOPs"
