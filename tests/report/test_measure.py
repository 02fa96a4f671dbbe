import math

import pytest

from cnnpool.report.measure import known_keys, measure


def test_star_is_the_mean_over_stages():
    one = measure("gradient.*.zero_fraction")
    assert one.read(
        {"gradient": {"s1": {"zero_fraction": 0.5}, "s2": {"zero_fraction": 0.7}}}
    ) == pytest.approx(0.6)
    assert one.read({"gradient": {}}) is None
    assert one.read({}) is None
    assert math.isnan(one.read({"gradient": {"s1": {"zero_fraction": None}, "s2": {"zero_fraction": 1.0}}}))


@pytest.mark.parametrize(
    ("key", "title", "kind", "sense"),
    [
        ("test.accuracy", "test accuracy", "fraction", 1),
        ("test.loss", "test loss", "ratio", -1),
        ("invariance.consistency.tips", "consistency (tips)", "fraction", 1),
        ("invariance.stages.s1.relative_change.1", "stages s1 relative change 1", "ratio", -1),
        ("cost.flops", "FLOPs", "count", -1),
        ("gradient.s1.coverage", "gradient s1 coverage", "fraction", 0),
        ("all_shifts.consistency", "consistency over all shifts", "fraction", 1),
        ("diagonal.top1_change", "top-1 change for 1 px along a diagonal", "fraction", -1),
        ("aliasing.stages.*.alias_energy_ratio", "alias energy, mean of stages", "fraction", -1),
        (
            "equivariance.stages.s1.equivariance_error",
            "equivariance stages s1 equivariance error",
            "ratio",
            -1,
        ),
        ("test.something_new", "test something new", "number", 0),
    ],
)
def test_kind_and_sense_follow_from_the_key(key, title, kind, sense):
    one = measure(key)
    assert (one.title, one.kind, one.sense) == (title, kind, sense)


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("test.accuracy", 0.98765, "98.77"),
        ("test.accuracy", math.nan, "NaN"),
        ("cost.flops", 1_250_000, "1.25 M"),
        ("cost.flops", 999_999, "1.00 M"),
        ("cost.flops", 61_706, "61.7 k"),
        ("cost.flops", 123_456, "123 k"),
        ("cost.flops", 0, "0"),
        ("cost.parameters", 999, "999"),
        ("cost.wall_s", 12.5, "12.5"),
        ("test.loss", 0.12345, "0.1235"),
    ],
)
def test_numbers_are_shown_in_their_unit(key, value, text):
    assert measure(key).format(value) == text


def test_difference_of_fractions_is_in_points_with_a_sign():
    assert measure("test.accuracy").format(0.0123, sign=True) == "+1.23"
    assert measure("test.accuracy").step_unit == "points"


def test_known_keys_are_the_measured_numbers():
    results = {"test": {"accuracy": 1.0, "name": "x"}, "cost": {"flops": None}, "seed": 3}
    assert known_keys(results) == {"test.accuracy", "cost.flops"}
