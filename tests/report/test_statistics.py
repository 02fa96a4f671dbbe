import math

import pytest
from scipy import stats

from cnnpool.report import statistics


def test_summary_of_three_values_by_hand():
    s = statistics.summarise([1.0, 2.0, 4.0])
    # t(0.975, 2) = 4.302653 from any table.
    half = 4.302652729911275 * math.sqrt(7 / 3) / math.sqrt(3)
    assert (s.n, s.mean, s.sd) == (3, pytest.approx(7 / 3), pytest.approx(math.sqrt(7 / 3)))
    assert (s.low, s.high) == (pytest.approx(7 / 3 - half), pytest.approx(7 / 3 + half))
    # One value has a mean and no interval.
    s = statistics.summarise([0.5])
    assert s.mean == 0.5 and math.isnan(s.sd) and math.isnan(s.low) and math.isnan(s.high)
    assert math.isnan(statistics.summarise([]).mean)


def test_holm_by_hand():
    # Sorted .01 .02 .03 .04, times 4 3 2 1, each at least the one before.
    assert statistics.holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert statistics.holm([0.5, 0.9]) == [1.0, 1.0]
    assert statistics.holm([]) == []


def test_superiority_by_hand():
    assert statistics.superiority([1.0, -1.0, 0.0, 2.0]) == pytest.approx(2.5 / 4)


@pytest.mark.parametrize(("wins", "pairs"), [(0, 3), (1, 6), (6, 6), (7, 10)])
def test_the_probability_of_being_better_has_the_exact_binomial_interval(wins, pairs):
    expected = stats.binomtest(wins, pairs).proportion_ci(0.95, "exact")
    found = statistics.superiority_interval([1.0] * wins + [-1.0] * (pairs - wins))
    assert found == pytest.approx((expected.low, expected.high))
    # A tie lies between a win and a loss.
    ties = statistics.superiority_interval([1.0] * wins + [-1.0] * (pairs - wins) + [0.0])
    assert found[0] * 0.5 < ties[0] <= found[1] and found[0] <= ties[1] <= 1


def test_detectable_difference_is_found_in_80_of_100_cases():
    # The power of the t test at that difference, from scipy's noncentral t.
    n, sd = 12, 1.3
    delta = statistics.detectable(sd, n)
    edge = stats.t.ppf(0.975, n - 1)
    power = stats.nct.sf(edge, n - 1, delta / (sd / math.sqrt(n)))
    assert power == pytest.approx(0.8, abs=1e-5)
    assert statistics.detectable(sd, n, comparisons=5) > delta
