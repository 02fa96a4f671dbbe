import math

import pytest
from scipy.stats import ttest_1samp

from cnnpool.claims.case import Case, verdict
from cnnpool.claims.rules import at_least, at_most, signs, within
from cnnpool.report.statistics import Summary


def interval(low, high, n=5):
    return Summary(n, (low + high) / 2, 0.1, low, high)


@pytest.mark.parametrize(
    ("low", "high", "least", "most", "inside"),
    [
        (0.5, 0.6, True, False, True),
        (0.3, 0.4, False, True, None),
        (0.35, 0.65, None, None, None),
        (0.1, 0.2, False, True, False),
        (0.8, 0.9, True, False, False),
        (0.45, 0.55, None, None, True),
    ],
)
def test_an_interval_decides_where_it_lies_on_one_side_of_the_bound(low, high, least, most, inside):
    s = interval(low, high)
    # At 0.5 itself the bound counts as met.
    assert at_least(s, 0.5) is least
    assert at_most(s, 0.5) is (most if low != 0.5 else None)
    assert within(s, 0.5, 0.1) is inside


def test_one_seed_decides_nothing():
    alone = Summary(1, 0.9, math.nan, math.nan, math.nan)
    assert at_least(alone, 0.5) is at_most(alone, 0.5) is within(alone, 0.9, 0.1) is None


def test_a_sign_is_shown_by_enough_pairs_alike_and_not_by_fewer_or_mixed():
    up, mixed = [0.01, 0.02, 0.01, 0.03, 0.02, 0.01, 0.02], [0.01, -0.02, 0.01, -0.01, 0.02, -0.01, 0.01]
    assert signs([up]) == [1]
    assert signs([[-x for x in up]]) == [-1]
    assert signs([mixed]) == [0]
    assert signs([up[:2]]) == [0]
    assert signs([up, mixed, up[:2]]) == [1, 0, 0]
    assert signs([]) == []


def test_a_sign_is_decided_by_the_paired_t_test_with_holms_correction():
    assert ttest_1samp([1.0, 2.0, 3.0], 0).pvalue > 0.05 and signs([[1.0, 2.0, 3.0]]) == [0]
    close = [2.0, 2.1, 1.9]
    assert 0.05 / 80 < ttest_1samp(close, 0).pvalue < 0.05 / 40
    assert signs([close] * 40) == [1] * 40 and signs([close] * 80) == [0] * 80


def test_equal_differences_are_decided_by_the_sign_flip_test():
    assert signs([[0.1] * 5]) == [0] and signs([[0.1] * 6]) == [1]


def case(holds, when="it rains", n=10):
    return Case(when, "here", "umbrellas", interval(0, 1, n), {}, holds, ())


@pytest.mark.parametrize(
    ("cases", "words"),
    [
        ([case(True), case(True, "the sun shines")], "holds (2 of 2 cases)"),
        ([case(False), case(None)], "does not hold (0 of 1 cases, 1 cannot be told)"),
        ([case(True), case(False, "the sun shines")], "holds only when it rains (1 of 2 cases)"),
        (
            [case(True), case(True, "it snows"), case(False, "the sun shines")],
            "holds only when it rains; or it snows (2 of 3 cases)",
        ),
        ([case(True), case(False)], "holds only in some runs (1 of 2 cases)"),
        ([case(True), case(True), case(None), case(None)], "holds (2 of 2 cases, 2 cannot be told)"),
        (
            [case(True), case(False), *3 * [case(None)]],
            "cannot be told in most cases (1 yes, 1 no, 3 cannot be told)",
        ),
        ([case(None)], "cannot be told from these runs: nothing is shown either way"),
        ([case(None, n=2)], "cannot be told from these runs: too few seeds"),
        ([], "cannot be told from these runs: none of them tests it"),
    ],
)
def test_the_verdict_is_the_word_that_the_cases_allow(cases, words):
    assert verdict(cases) == words


def test_a_number_has_its_unit_and_interval_and_a_single_one_has_no_spread():
    shown = Case("", "", "", Summary(3, 0.125, 0.01, 0.1, 0.15), {}, True, (), "points")
    assert (shown.number, shown.spread) == ("+12.50 [+10.00, +15.00] points", "1")
    alone = Case("", "", "", Summary(1, 0.125, math.nan, math.nan, math.nan), {}, None, (), "")
    assert (alone.number, alone.spread, alone.word) == ("0.125", "–", "cannot be told")
    share = Case("", "", "", Summary(3, 0.001, 1e-17, -0.001, 0.003), {}, True, ())
    assert (share.number, share.spread) == ("0.10 [0.00, 0.30] %", "0")
    counted = Case("", "", "", Summary(3, 0.5, 0.0, 0.5, 0.5), {}, True, (), exact=True)
    assert (counted.number, counted.spread, counted.count) == ("50.00 %", "–", "–")
