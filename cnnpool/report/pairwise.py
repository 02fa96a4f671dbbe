"""One simultaneous procedure: every pair of choices compared, verdicts and places from the same decisions.

Each pair is compared by the paired t test; where all differences are equal, t has no scale and the sign-flip
test decides. All p-values are adjusted together by Holm (1979), which holds the chance of any false decision
at 5 % whatever the dependence among choices. The place of a choice lies between one more than the number of
choices decided to be better and all choices less those decided to be worse: simultaneous 95 % intervals.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr

from cnnpool.report.statistics import LEVEL, holm, sign_flip_p

LEAST_DECIDED = 3
"""Pairs of seeds below which nothing is decided: of two, t is only how alike they happen to be."""


@dataclass(frozen=True)
class Pair:
    """The comparison of two choices."""

    mean: float
    """Of the first less the second, over the seeds both have."""
    p: float
    adjusted: float
    """By Holm over all pairs."""


@dataclass(frozen=True)
class Rank:
    """Simultaneous 95 % interval of the place; 1 is best."""

    low: int
    high: int


@dataclass(frozen=True)
class Decisions:
    """All pairs that have enough seeds, by the places of their choices, the smaller first."""

    pairs: dict[tuple[int, int], Pair]

    def between(self, first: int, second: int) -> Pair | None:
        """The comparison of two choices, its mean that of the first less the second; None without seeds."""
        if first < second:
            return self.pairs.get((first, second))
        pair = self.pairs.get((second, first))
        return pair and Pair(-pair.mean, pair.p, pair.adjusted)

    def above(self, first: int, second: int) -> bool:
        """Whether the first is decided to have the larger mean."""
        pair = self.between(first, second)
        return pair is not None and pair.adjusted < LEVEL and pair.mean > 0

    def rank(self, choice: int, choices: int, sense: int) -> Rank:
        """The place of a choice among so many; ``sense`` 1 where higher is better, -1 where lower is."""
        others = [other for other in range(choices) if other != choice]
        up = sum(self.above(other, choice) for other in others)
        down = sum(self.above(choice, other) for other in others)
        better, worse = (up, down) if sense > 0 else (down, up)
        return Rank(1 + better, choices - worse)


def decide(values: Sequence[Mapping[int, float]]) -> Decisions:
    """Compare every pair of choices; ``values`` holds seed -> number for each."""
    means, p_values = {}, {}
    for i, j in itertools.combinations(range(len(values)), 2):
        seeds = sorted(values[i].keys() & values[j].keys())
        if len(seeds) >= LEAST_DECIDED:
            differences = np.array([values[i][seed] - values[j][seed] for seed in seeds])
            means[i, j], p_values[i, j] = float(differences.mean()), paired_t_p(differences)
    adjusted = holm(list(p_values.values()))
    return Decisions(
        {key: Pair(means[key], p, all_) for (key, p), all_ in zip(p_values.items(), adjusted, strict=True)}
    )


def paired_t_p(differences: Sequence[float] | np.ndarray) -> float:
    """Two-sided p-value of mean 0 by the t test; by the sign-flip test where all differences are equal."""
    d = np.asarray(differences, dtype=np.float64)
    # Equal up to rounding is equal: the last bits of a subtraction are no spread.
    if np.ptp(d) <= 1e-9 * max(float(np.abs(d).max()), 1e-300):
        return sign_flip_p(list(np.full(d.size, d[0])))
    t = float(d.mean() / (d.std(ddof=1) / math.sqrt(d.size)))
    return 2 * float(stdtr(d.size - 1, -abs(t)))
