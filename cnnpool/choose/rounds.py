"""Replay a sequential comparison: which candidates are dropped, after which round, and which are equivalent.

The statement behind a drop is that of multiple comparisons with the best (Hsu 1984, Annals of Statistics 12):
the candidate is no better than the best of the others. All such statements of a study hold together with
probability 95 %, whenever the study is looked at or stopped.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from cnnpool.choose.boundary import FIRST_ROUND, levels

LEVEL = 0.05
Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Rule:
    """How candidates are compared, fixed before the first run.

    Args:
        candidates: how many there are at the beginning, >= 2.
        rounds: the most rounds of seeds, >= 3.
        margin: differences below it do not matter, >= 0, in the metric's unit.
        resolution: the metric's smallest step, such as one over the number of test images, >= 0. Its
            rounding variance, resolution^2 / 12, is added to that of the differences, since a few equal
            differences of so coarse a metric would otherwise seem to have none.
    """

    candidates: int
    rounds: int
    margin: float = 0.0
    resolution: float = 0.0

    def __post_init__(self) -> None:
        for name, least in (("candidates", 2), ("rounds", FIRST_ROUND), ("margin", 0), ("resolution", 0)):
            if not getattr(self, name) >= least:
                raise ValueError(f"{name} must be at least {least}, got {getattr(self, name)}")

    def level(self, done: int) -> float:
        """The one-sided level of one pair's test after ``done`` rounds.

        Each rival of the best candidate has an equal share of the whole level (Bonferroni), so the best is
        dropped in at most 5 % of studies, over all looks and all rivals. Where several are best, that holds
        for each of them.
        """
        return levels(self.rounds, LEVEL / (self.candidates - 1))[done - FIRST_ROUND]


@dataclass(frozen=True)
class Drop:
    """A candidate that was found worse: after which round, than which, with which p-value and level."""

    candidate: int
    round: int
    than: int
    p: float
    level: float


@dataclass(frozen=True)
class State:
    """The evidence after some rounds.

    Args:
        done: rounds.
        left: candidates that nothing is shown against.
        drops: the others, in the order in which they were dropped.
        not_worse: those left whose loss against every other one left is below the margin.
        finished: why no further round is needed ("one left" or "equivalent"), or nothing.
        loss: upper bound of each candidate's loss against the best of the others left, in the metric's
            unit; NaN before the first look and for dropped ones.
    """

    done: int
    left: tuple[int, ...]
    drops: tuple[Drop, ...]
    not_worse: tuple[int, ...]
    finished: str
    loss: tuple[float, ...]


def replay(values: Array, rule: Rule) -> State:
    """The state after all rounds in ``values``: a pure function, so a stopped study goes on as if it had not.

    Args:
        values: (candidates, rounds done), higher is better; NaN where a candidate was dropped before, or
            did not finish. Tests of a pair use the rounds that both have; a candidate without any value is
            neither left nor dropped.

    Raises:
        ValueError: if the shape does not fit the rule.
    """
    if values.ndim != 2 or len(values) != rule.candidates or values.shape[1] > rule.rounds:
        raise ValueError(f"values must be ({rule.candidates}, at most {rule.rounds}), got {values.shape}")
    left = np.isfinite(values).sum(1) > 0 if values.shape[1] else np.ones(len(values), dtype=bool)
    drops: list[Drop] = []
    bound = np.full((len(values), len(values)), np.nan)
    finished = ""
    for done in range(FIRST_ROUND, values.shape[1] + 1):
        level = rule.level(done)
        p, bound = _pairs(values[:, :done], rule.resolution, level)
        for candidate in np.flatnonzero(left):
            rivals = np.where(left, p[candidate], np.nan)
            if np.nanmin(rivals, initial=1.0) <= level:
                than = int(np.nanargmin(rivals))
                drops.append(Drop(int(candidate), done, than, float(rivals[than]), level))
        left[[drop.candidate for drop in drops]] = False
        finished = _finished(bound, left, rule.margin)
        if finished:
            break
    loss = np.where(left, np.max(np.where(left[None], bound, -np.inf), 1), np.nan)
    kept = tuple(int(i) for i in np.flatnonzero(left))
    good = tuple(i for i in kept if loss[i] < rule.margin or len(kept) == 1)
    return State(values.shape[1], kept, tuple(drops), good, finished, tuple(map(float, loss)))


def recommend(state: State, values: Array, costs: Sequence[float]) -> int:
    """The cheapest candidate shown not to be worse; if there is none, the best mean of those left.

    Args:
        costs: of each candidate, lower is better.
    """
    if state.not_worse:
        return min(state.not_worse, key=lambda i: (costs[i], -float(np.nanmean(values[i]))))
    return max(state.left, key=lambda i: float(np.nanmean(values[i])))


def _finished(bound: Array, left: NDArray[np.bool_], margin: float) -> str:
    if left.sum() <= 1:
        return "one left"
    others = left[:, None] & left[None] & ~np.eye(len(left), dtype=bool)
    return "equivalent" if (bound[others] < margin).all() else ""


def _pairs(values: Array, resolution: float, level: float) -> tuple[Array, Array]:
    """For every pair (i, j): the p-value of "i is not worse than j", and the upper bound of j's lead over i.

    Both by the paired t test over the rounds that the two have in common; NaN (p) and infinity (bound) with
    fewer than three of them.
    """
    differences = values[None] - values[:, None]
    count = np.isfinite(differences).sum(2)
    enough = count >= FIRST_ROUND
    n = np.where(enough, count, FIRST_ROUND)
    mean = np.nansum(differences, 2) / n
    squares = np.nansum((differences - mean[..., None]) ** 2, 2)
    error = np.sqrt((squares / (n - 1) + resolution**2 / 12) / n)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(error > 0, mean / error, np.sign(mean) * np.inf)
    p = np.where(enough & ~np.isnan(t), stdtr(n - 1, -t), np.nan)
    bound = np.where(enough, mean + stdtrit(n - 1, 1 - level) * error, np.inf)
    np.fill_diagonal(p, np.nan)
    np.fill_diagonal(bound, -np.inf)
    return p, bound
