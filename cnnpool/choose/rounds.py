"""Replay a sequential comparison: which candidates are dropped, after which round, and which are equivalent.

A dropped candidate is no better than the best of the others (multiple comparisons with the best, Hsu 1984,
Annals of Statistics 12). All such statements of a study hold together with probability 95 %, whenever it is
looked at or stopped. A candidate whose loss is shown to be below the margin is not dropped.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

FIRST_ROUND = 3  # Rounds before the first look: the variance of two differences says next to nothing
SHAPE = 2.0  # Exponent of the levels' growth: 0 is Pocock's constant level; larger spends it later
PATHS = 200_000
CHUNK = 20_000
LEVEL = 0.05
Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Rule:
    """How candidates are compared, fixed before the first run.

    ``resolution`` is the metric's smallest step, such as one over the test images. Its rounding variance,
    resolution^2 / 12, is added, since a few equal differences would otherwise seem to have none.
    """

    candidates: int
    rounds: int
    margin: float = 0.0
    resolution: float = 0.0

    def level(self, done: int) -> float:
        """The one-sided level of a pair's test after ``done`` rounds; rivals share equally (Bonferroni)."""
        return levels(self.rounds, LEVEL / (self.candidates - 1))[done - FIRST_ROUND]


@dataclass(frozen=True)
class Drop:
    """A candidate dropped after a round: shown by ``than`` to be no better, with p at or below the level."""

    candidate: int
    round: int
    than: int
    p: float
    level: float


@dataclass(frozen=True)
class State:
    """The evidence after some rounds: remaining candidates, drops in order, and those within the margin.

    ``finished`` is "one left", "equivalent" or empty; ``loss`` bounds that against the best of those left.
    """

    left: tuple[int, ...]
    drops: tuple[Drop, ...]
    not_worse: tuple[int, ...]
    finished: str
    loss: tuple[float, ...]


def replay(values: Array, rule: Rule) -> State:
    """The state after all rounds in ``values``: a pure function, so a stopped study resumes exactly.

    Values (candidates, rounds done) are NaN where there is none; a pair is compared where both have one.
    """
    return replays(values[None], rule)[0]


def replays(values: Array, rule: Rule) -> list[State]:
    """As ``replay`` of each study of (studies, candidates, rounds), all of them at once."""
    studies, candidates, rounds = values.shape
    left: Mask = np.asarray(np.isfinite(values).any(2) | (rounds == 0))
    bound = np.full((studies, candidates, candidates), np.nan)
    drops: list[list[Drop]] = [[] for _ in range(studies)]
    finished = np.full(studies, "", dtype=object)
    for done in range(FIRST_ROUND, rounds + 1):
        going = np.flatnonzero(finished == "")
        level, still = rule.level(done), left[going]
        p, bound[going] = _pairs(values[going, :, :done], rule.resolution, level)
        rivals = np.where(still[:, None] & ~np.isnan(p), p, 2.0)
        than, least = rivals.argmin(2), rivals.min(2)
        # A loss shown to be below the margin does not matter.
        matters = _loss(bound[going], still) >= rule.margin
        worse = still & (least <= level) & matters
        for at, i in np.argwhere(worse).tolist():
            drops[going[at]].append(Drop(i, done, int(than[at, i]), float(least[at, i]), level))
        left[going] = still & ~worse
        finished[going] = _finished(bound[going], left[going], rule.margin)
    each = zip(left, drops, _loss(bound, left), finished.tolist(), strict=True)
    return [_state(*one, rule.margin) for one in each]


def _state(left: Mask, drops: list[Drop], loss: Array, finished: str, margin: float) -> State:
    kept = tuple(np.flatnonzero(left).tolist())
    good = tuple(i for i in kept if loss[i] < margin or len(kept) == 1)
    return State(kept, tuple(drops), good, finished, tuple(np.where(left, loss, np.nan).tolist()))


def _loss(bound: Array, left: Mask) -> Array:
    """The bound on each candidate's loss against the best of those left, (studies, candidates)."""
    return np.asarray(np.where(left[:, None], bound, -np.inf).max(2))


def _finished(bound: Array, left: Mask, margin: float) -> np.ndarray:
    others = left[..., None] & left[:, None] & ~np.eye(left.shape[1], dtype=bool)
    equivalent = ((bound < margin) | ~others).all((1, 2))
    return np.where(left.sum(1) <= 1, "one left", np.where(equivalent, "equivalent", ""))


def _pairs(values: Array, resolution: float, level: float) -> tuple[Array, Array]:
    """For every pair (i, j): the p-value of "i is not worse than j", and the upper bound of j's lead over i.

    Of each study, (studies, candidates, rounds), by the paired t test over their common rounds; NaN and
    infinity from fewer than three.
    """
    differences = values[:, None] - values[:, :, None]
    count = np.isfinite(differences).sum(3)
    enough = count >= FIRST_ROUND
    n = np.where(enough, count, FIRST_ROUND)
    mean = np.nansum(differences, 3) / n
    squares = np.nansum((differences - mean[..., None]) ** 2, 3)
    error = np.sqrt((squares / (n - 1) + resolution**2 / 12) / n)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(error > 0, mean / error, np.sign(mean) * np.inf)
    itself = np.eye(values.shape[1], dtype=bool)
    p = np.where(enough & ~np.isnan(t) & ~itself, stdtr(n - 1, -t), np.nan)
    # One quantile per number of common rounds: there are few such numbers.
    edges = stdtrit(np.arange(1, values.shape[2] + 1), 1 - level)
    bound = np.where(enough, mean + edges[n - 2] * error, np.inf)
    return p, np.where(itself, -np.inf, bound)


@lru_cache(maxsize=64)
def levels(rounds: int, level: float) -> tuple[float, ...]:
    """One-sided level at every look, growing as (round / rounds)^2 (families of Kim & DeMets 1987).

    Together the looks reject with probability ``level`` where differences are normal with mean 0, whatever
    their variance: t depends on neither, so its joint distribution over the looks is simulated once (200,000
    paths of a fixed seed, relative standard error 3 % at a level of 0.005).
    """
    weights, smallest = _simulated(rounds)
    scale = float(np.quantile(smallest, level, method="lower"))
    return tuple(float(scale * weight) for weight in weights)


@lru_cache(maxsize=4)
def _simulated(rounds: int) -> tuple[Array, Array]:
    """The weight of each look, and the smallest p / weight of each path."""
    looks = np.arange(FIRST_ROUND, rounds + 1)
    weights = (looks / rounds) ** SHAPE
    chunks = [_smallest_p(chunk, looks, weights) for chunk in range(-(-PATHS // CHUNK))]
    return weights, np.concatenate(chunks)


def _smallest_p(chunk: int, looks: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The smallest p / weight over the looks, of ``CHUNK`` paths of standard normal differences."""
    drawn = np.random.default_rng([20_261, chunk]).standard_normal((CHUNK, looks[-1]))
    total, squares = drawn.cumsum(1)[:, looks - 1], (drawn**2).cumsum(1)[:, looks - 1]
    mean = total / looks
    variance = (squares - looks * mean**2) / (looks - 1)
    p_values = stdtr(looks - 1, -mean / np.sqrt(variance / looks))
    return np.asarray((p_values / weights).min(1))
