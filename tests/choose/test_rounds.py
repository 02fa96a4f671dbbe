import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import t as student
from scipy.stats import ttest_1samp, ttest_rel

from cnnpool.choose.rounds import FIRST_ROUND, Rule, levels, replay, replays
from cnnpool.choose.study import View

LEADER = [0.95, 0.96, 0.94, 0.95, 0.96, 0.95]
LOSER = [0.80, 0.82, 0.79, 0.81, 0.82, 0.79]


def recommended(state, values, costs):
    return View(values, state, {}, state.left, tuple(costs), state.finished).recommended


def slow_replay(values, rule):
    """The drops, by scipy's paired test on one pair after the other: (candidate, round)."""
    left, drops = list(range(len(values))), []
    for done in range(FIRST_ROUND, values.shape[1] + 1):
        worse = []
        for i in left:
            for j in left:
                both = np.isfinite(values[i, :done]) & np.isfinite(values[j, :done])
                if i != j and both.sum() >= FIRST_ROUND:
                    a, b = values[j, :done][both], values[i, :done][both]
                    if ttest_rel(a, b, alternative="greater").pvalue <= rule.level(done):
                        worse.append(i)
                        break
        drops += [(i, done) for i in worse]
        left = [i for i in left if i not in worse]
        if len(left) == 1:
            break
    return drops, tuple(left)


@settings(max_examples=30)
@given(seed=st.integers(0, 10_000), candidates=st.integers(2, 5), rounds=st.integers(3, 8))
def test_replay_drops_as_paired_tests_of_scipy_do(seed, candidates, rounds):
    generator = np.random.default_rng(seed)
    # Further apart the later the study, so that some end early.
    apart = np.linspace(0, 12, candidates) * np.array([[0], [1], [3]])
    values = generator.normal(size=(3, candidates, rounds)) + apart[..., None]
    values[generator.random(values.shape) < 0.05] = np.nan
    rule = Rule(candidates=candidates, rounds=8)
    states = replays(values, rule)
    found = [([(drop.candidate, drop.round) for drop in one.drops], one.left) for one in states]
    assert found == [slow_replay(study, rule) for study in values]
    assert repr(states) == repr([replay(study, rule) for study in values])


def test_the_cheapest_of_equivalent_candidates_is_recommended():
    noise = np.array([0.001, -0.001, 0.0005, -0.0005, 0.0, 0.0008])
    values = np.array([0.95 + noise, 0.951 - noise])
    state = replay(values, Rule(candidates=2, rounds=6, margin=0.05))
    assert (state.finished, state.not_worse) == ("equivalent", (0, 1))
    assert recommended(state, values, [1.0, 2.0]) == 0
    assert recommended(state, values, [2.0, 1.0]) == 1


def test_of_equal_costs_the_better_is_recommended():
    values = np.array([[0.8, 0.8], [0.9, 0.9], [0.7, 0.7]])
    state = replay(values, Rule(candidates=3, rounds=2, margin=0.05))
    assert recommended(replace(state, not_worse=(0, 1, 2)), values, [1.0] * 3) == 1


def test_without_evidence_nothing_is_recommended():
    values = np.array([[0.9, 0.5, 0.7], [0.6, 0.8, 0.75]])
    state = replay(values, Rule(candidates=2, rounds=10))
    assert state.not_worse == () and recommended(state, values, [1.0, 2.0]) is None


def test_the_bound_of_the_loss_is_that_of_a_t_interval():
    values = np.array([[0.90, 0.97, 0.94, 0.96], [0.95, 0.96, 0.94, 0.95]])
    rule = Rule(candidates=2, rounds=6)
    state = replay(values, rule)
    lead = values[1] - values[0]
    half = student.ppf(1 - rule.level(4), 3) * lead.std(ddof=1) / 2
    assert state.loss[0] == pytest.approx(lead.mean() + half)
    assert state.loss[1] == pytest.approx(-lead.mean() + half)


def test_equal_differences_of_a_coarse_metric_are_no_certainty():
    # One image of 100 fewer, three times in a row: without the resolution, a t statistic of infinity.
    values = np.array([[0.97, 0.96, 0.98], [0.98, 0.97, 0.99]])
    assert replay(values, Rule(candidates=2, rounds=10)).drops
    assert not replay(values, Rule(candidates=2, rounds=10, resolution=0.01)).drops


def test_a_candidate_that_loses_less_than_the_margin_is_not_dropped():
    values = np.array([[0.95, 0.951, 0.949, 0.95], [0.951, 0.9521, 0.9501, 0.9509]])
    assert replay(values, Rule(candidates=2, rounds=6)).drops
    state = replay(values, Rule(candidates=2, rounds=6, margin=0.005))
    assert not state.drops and state.finished == "equivalent"
    assert recommended(state, values, [1.0, 2.0]) == 0


def test_a_study_that_has_ended_is_looked_at_no_more():
    early = np.array([[0.95, 0.951, 0.949], [0.951, 0.9521, 0.9501]])
    rule = Rule(candidates=2, rounds=6, margin=0.05)
    late = np.array([[0.95, 0.951, 0.949], [0.3, 0.301, 0.299]])
    assert replay(early, rule).finished == "equivalent"
    assert replay(np.hstack([early, late]), rule) == replay(early, rule)


def test_a_candidate_without_results_is_neither_dropped_nor_recommended():
    values = np.array([LEADER, [math.nan] * 6, LOSER])
    state = replay(values, Rule(candidates=3, rounds=6, resolution=0.001))
    assert state.left == (0,) and [drop.candidate for drop in state.drops] == [2]
    assert recommended(state, values, [1.0, 0.1, 1.0]) == 0


STUDIES, CANDIDATES, ROUNDS = 2000, 6, 12
DRAWS = {
    "normal": lambda generator, size: generator.standard_normal(size),
    "heavy tails": lambda generator, size: generator.standard_t(3, size),
    "skewed": lambda generator, size: 1 - generator.exponential(size=size),
    "correlated seeds": lambda generator, size: (
        generator.standard_normal(size) + generator.standard_normal((size[0], 1, size[2]))
    ),
    "coarse": lambda generator, size: np.round(generator.standard_normal(size)),
}


@pytest.mark.parametrize("noise", DRAWS)
@pytest.mark.parametrize("lead", [0.0, 1.0])
def test_the_best_of_2000_studies_is_dropped_in_at_most_five_per_cent(noise, lead):
    values = DRAWS[noise](np.random.default_rng(3), (STUDIES, CANDIDATES, ROUNDS))
    values[:, 0] += lead
    rule = Rule(candidates=CANDIDATES, rounds=ROUNDS, resolution=1.0 if noise == "coarse" else 0.0)
    wrong = np.mean([0 not in state.left for state in replays(values, rule)])
    # 5 % and three standard errors of a rate of 5 % in 2,000 studies.
    assert wrong <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / STUDIES)


def crossing_rate(boundary, draw, paths=4000):
    """The share of paths whose t test, by scipy, reaches the boundary at any look."""
    generator = np.random.default_rng(7)
    rounds = FIRST_ROUND + len(boundary) - 1
    x = draw(generator, (paths, rounds))
    crossed = np.zeros(paths, dtype=bool)
    for done, level in enumerate(boundary, FIRST_ROUND):
        crossed |= ttest_1samp(x[:, :done], 0, axis=1, alternative="greater").pvalue <= level
    return crossed.mean()


@pytest.mark.parametrize("rounds", [FIRST_ROUND, 8, ROUNDS])
def test_all_looks_together_reject_as_often_as_the_level_says(rounds):
    boundary = levels(rounds, 0.05)
    assert len(boundary) == rounds - FIRST_ROUND + 1 and list(boundary) == sorted(boundary)
    # Four standard errors of a rate of 5 % in 4,000 paths are 1.4 points.
    assert crossing_rate(boundary, lambda g, shape: g.normal(0, 3, shape)) == pytest.approx(0.05, abs=0.014)
