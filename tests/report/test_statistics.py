"""Numbers of few seeds by hand and by scipy; how often verdicts and places err, and what they see."""

import math

import numpy as np
import pytest
from scipy import stats

from cnnpool.report.pairwise import decide
from cnnpool.report.statistics import detectable, holm, summarise, superiority, superiority_interval

TRIALS = 400
ERRORS = stats.binom.ppf(0.999, TRIALS, 0.05) / TRIALS
"""A rate of 5 % exceeds this in one simulation of a thousand: 8.5 %."""


def test_summary_of_three_values_by_hand():
    s = summarise([1.0, 2.0, 4.0])
    # t(0.975, 2) = 4.302653 from any table.
    half = 4.302652729911275 * math.sqrt(7 / 3) / math.sqrt(3)
    assert (s.n, s.mean, s.sd) == (3, pytest.approx(7 / 3), pytest.approx(math.sqrt(7 / 3)))
    assert (s.low, s.high) == (pytest.approx(7 / 3 - half), pytest.approx(7 / 3 + half))
    # One value has a mean and no interval.
    s = summarise([0.5])
    assert s.mean == 0.5 and math.isnan(s.sd) and math.isnan(s.low) and math.isnan(s.high)
    assert math.isnan(summarise([]).mean)


def test_holm_by_hand():
    # Sorted .01 .02 .03 .04, times 4 3 2 1, each at least the one before.
    assert holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_superiority_by_hand():
    assert superiority([1.0, -1.0, 0.0, 2.0]) == pytest.approx(2.5 / 4)


@pytest.mark.parametrize(("wins", "pairs"), [(0, 3), (1, 6), (6, 6), (7, 10)])
def test_the_probability_of_being_better_has_the_exact_binomial_interval(wins, pairs):
    expected = stats.binomtest(wins, pairs).proportion_ci(0.95, "exact")
    found = superiority_interval([1.0] * wins + [-1.0] * (pairs - wins))
    assert found == pytest.approx((expected.low, expected.high))
    # A tie lies between a win and a loss.
    ties = superiority_interval([1.0] * wins + [-1.0] * (pairs - wins) + [0.0])
    assert found[0] * 0.5 < ties[0] <= found[1] and found[0] <= ties[1] <= 1


def test_detectable_difference_is_found_in_80_of_100_cases():
    # The power of the t test at that difference, from scipy's noncentral t.
    n, sd = 12, 1.3
    delta = detectable(sd, n)
    edge = stats.t.ppf(0.975, n - 1)
    power = stats.nct.sf(edge, n - 1, delta / (sd / math.sqrt(n)))
    assert power == pytest.approx(0.8, abs=1e-5)
    assert detectable(sd, n, comparisons=5) > delta


def decisions(table):
    return decide([dict(enumerate(row)) for row in table])


def test_seeds_are_paired_by_their_numbers():
    first = {0: 0.9, 1: 0.7, 2: 0.8, 3: 0.5}
    second = {3: 0.4, 2: 0.69, 1: 0.6, 0: 0.81, 9: 0.1}
    (pair,) = decide([first, second]).pairs.values()
    wanted = stats.ttest_rel([first[seed] for seed in range(4)], [second[seed] for seed in range(4)])
    assert (pair.mean, pair.p) == pytest.approx((0.1, wanted.pvalue))


def draws(kind, choices, seeds, generator):
    """Values (choices, seeds) of equal means."""
    shape = (choices, seeds)
    if kind == "heavy tails":
        return generator.standard_t(3, shape)
    if kind == "correlated seeds":
        return generator.normal(0, 3, seeds) + generator.normal(0, 1, shape)
    if kind == "unequal spread":
        return generator.normal(0, 1, shape) * np.linspace(0.2, 3, choices)[:, None]
    if kind == "few test images":
        # An accuracy of 360 images: differences are often equal to the last digit.
        return np.round(generator.normal(0.95, 0.004, shape) * 360) / 360
    return generator.normal(0, 1, shape)


@pytest.mark.parametrize(
    "kind", ["normal", "heavy tails", "correlated seeds", "unequal spread", "few test images"]
)
@pytest.mark.parametrize(("choices", "seeds"), [(2, 3), (4, 6)])
def test_of_equal_choices_any_is_called_different_in_5_of_100_reports(kind, choices, seeds):
    generator = np.random.default_rng(0)
    false = 0
    for _ in range(TRIALS):
        found = decisions(draws(kind, choices, seeds, generator))
        # A false verdict against any baseline and a place that leaves one out are the same event.
        wrong = any(pair.adjusted < 0.05 for pair in found.pairs.values())
        ranks = [found.rank(place, choices, 1) for place in range(choices)]
        assert wrong == any((rank.low, rank.high) != (1, choices) for rank in ranks)
        false += wrong
    assert false / TRIALS <= ERRORS


def test_with_one_better_the_equal_others_are_called_different_in_5_of_100():
    generator, false = np.random.default_rng(1), 0
    for _ in range(TRIALS):
        table = generator.normal(0, 1, (4, 6))
        table[0] += 8
        pairs = decisions(table).pairs
        false += any(pair.adjusted < 0.05 for (i, _), pair in pairs.items() if i > 0)
    assert false / TRIALS <= ERRORS


def test_lower_is_better_turns_the_places_around():
    table = np.array([[1.0], [2.0], [3.0]]) + np.random.default_rng(4).normal(0, 0.01, (3, 6))
    found = decisions(table)
    assert [found.rank(place, 3, 1).low for place in range(3)] == [3, 2, 1]
    assert [found.rank(place, 3, -1).high for place in range(3)] == [1, 2, 3]


def test_p_is_scipys_paired_t_test_adjusted_over_all_pairs():
    table = np.random.default_rng(5).normal(0, 1, (3, 7))
    found = decisions(table)
    keys = [(0, 1), (0, 2), (1, 2)]
    raw = [stats.ttest_rel(table[i], table[j]).pvalue for i, j in keys]
    assert [found.pairs[key].p for key in keys] == pytest.approx(raw)
    assert [found.pairs[key].adjusted for key in keys] == pytest.approx(holm(raw))
    assert found.between(2, 0).mean == pytest.approx((table[2] - table[0]).mean())


def pair(first, second, **options):
    return decide([dict(enumerate(first)), dict(enumerate(second))], **options).pairs[0, 1]


def test_without_any_spread_the_exact_permutation_test_decides():
    def p(first, second, **options):
        return pair(first, second, **options).p

    assert p([0.9, 0.8, 0.7, 0.6], [0.8, 0.7, 0.6, 0.5]) == 2 / 2**4
    assert p([0.9, 0.8, 0.7], [0.9, 0.8, 0.7]) == 1
    # Of the 252 ways to deal out ten values as five and five, two are as far apart.
    assert p([0.9] * 5, [0.8] * 5, paired=False) == 2 / 252
    assert p([0.1] * 5, [0.1] * 6, paired=False) == 1
    # As event files hold them: the same differences, rounded to float32.
    first, second = (np.float32(values).tolist() for values in ([0.9, 0.91, 0.92], [0.95, 0.96, 0.97]))
    assert p(second, first) == 2 / 2**3


def test_without_any_spread_a_margin_is_decided_by_the_signs_too():
    assert pair([0.9] * 3, [0.95] * 3, margin=0.06).within == 1 / 2**3
    assert pair([0.9] * 5, [0.95] * 5, margin=0.06).within == 1 / 2**5
    assert pair([0.9] * 5, [0.9] * 5, margin=1e-6, paired=False).within == 1 / 252
    assert pair([0.9] * 5, [0.95] * 5, margin=0.04).within == 1


def test_two_seeds_decide_nothing_and_unshared_seeds_do_not_count():
    assert decide([{0: 1.0, 1: 1.1}, {0: 5.0, 1: 5.2}]).pairs == {}
    assert decide([{0: 1.0, 1: 1.1, 2: 1.2}, {2: 5.0, 3: 5.2, 4: 5.1}]).pairs == {}


def test_four_runs_against_thirty_decide_nothing_without_pairs():
    few, many = ({place: 1.0 + place / 99 for place in range(n)} for n in (4, 30))
    assert decide([few, many], paired=False).pairs == {}
    assert decide([few | {4: 1.1}, many], paired=False).pairs
