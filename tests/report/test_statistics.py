import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from cnnpool.report import statistics

numbers = st.floats(-10, 10, allow_nan=False).map(lambda x: round(x, 3))


def test_summary_of_three_values_by_hand():
    s = statistics.summarise([1.0, 2.0, 4.0])
    # t(0.975, 2) = 4.302653 from any table.
    half = 4.302652729911275 * math.sqrt(7 / 3) / math.sqrt(3)
    assert (s.n, s.mean, s.sd) == (3, pytest.approx(7 / 3), pytest.approx(math.sqrt(7 / 3)))
    assert (s.low, s.high) == (pytest.approx(7 / 3 - half), pytest.approx(7 / 3 + half))


def test_one_value_has_a_mean_and_no_interval():
    s = statistics.summarise([0.5])
    assert s.mean == 0.5
    assert math.isnan(s.sd) and math.isnan(s.low) and math.isnan(s.high)
    assert math.isnan(statistics.summarise([]).mean)


@given(st.lists(numbers, min_size=2, max_size=20))
@settings(max_examples=50)
def test_interval_is_scipys(values):
    s = statistics.summarise(values)
    if s.sd > 1e-6:
        interval = stats.ttest_1samp(values, 0).confidence_interval(0.95)
        assert (s.low, s.high) == pytest.approx((interval.low, interval.high), rel=1e-9, abs=1e-9)


def test_t_interval_covers_the_mean_in_95_of_100_cases():
    generator = np.random.default_rng(0)
    hits = [s.low < 3 < s.high for s in map(statistics.summarise, generator.normal(3, 2, (4000, 8)))]
    assert 0.94 < np.mean(hits) < 0.96


def test_holm_by_hand():
    # Sorted .01 .02 .03 .04, times 4 3 2 1, each at least the one before.
    assert statistics.holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert statistics.holm([0.5, 0.9]) == [1.0, 1.0]
    assert statistics.holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
@settings(max_examples=50)
def test_holm_lies_between_the_raw_p_and_bonferroni(p_values):
    for raw, adjusted in zip(p_values, statistics.holm(p_values), strict=True):
        assert raw <= adjusted <= min(1, len(p_values) * raw) or adjusted == pytest.approx(raw)


def test_detectable_difference_is_found_in_80_of_100_cases():
    # The power of the t test at that difference, from scipy's noncentral t.
    n, sd = 12, 1.3
    delta = statistics.detectable(sd, n)
    edge = stats.t.ppf(0.975, n - 1)
    power = stats.nct.sf(edge, n - 1, delta / (sd / math.sqrt(n)))
    assert power == pytest.approx(0.8, abs=1e-5)
    assert statistics.detectable(sd, n, comparisons=5) > delta
