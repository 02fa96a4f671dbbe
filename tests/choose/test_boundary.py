import numpy as np
import pytest
from scipy.stats import ttest_1samp

from cnnpool.choose.boundary import FIRST_ROUND, levels


def crossing_rate(boundary, draw, paths=4000):
    """The share of paths whose t test, by scipy, reaches the boundary at any look."""
    generator = np.random.default_rng(7)
    rounds = FIRST_ROUND + len(boundary) - 1
    x = draw(generator, (paths, rounds))
    crossed = np.zeros(paths, dtype=bool)
    for done, level in enumerate(boundary, FIRST_ROUND):
        crossed |= ttest_1samp(x[:, :done], 0, axis=1, alternative="greater").pvalue <= level
    return crossed.mean()


def test_a_single_look_has_the_whole_level():
    assert levels(FIRST_ROUND, 0.05)[0] == pytest.approx(0.05, rel=0.03)


@pytest.mark.parametrize("rounds", [4, 8, 20])
def test_all_looks_together_reject_as_often_as_the_level_says(rounds):
    boundary = levels(rounds, 0.05)
    assert len(boundary) == rounds - FIRST_ROUND + 1
    # Four standard errors of a rate of 5 % in 4,000 paths are 1.4 points.
    assert crossing_rate(boundary, lambda g, shape: g.normal(0, 3, shape)) == pytest.approx(0.05, abs=0.014)


def test_later_looks_may_reject_more_easily():
    boundary = levels(10, 0.01)
    assert list(boundary) == sorted(boundary)
    assert boundary[-1] < 0.01
