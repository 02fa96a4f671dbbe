"""One simultaneous procedure: pairs of choices compared, verdicts and places from the same decisions.

The pairs are those with a named baseline; without one, all. Each is compared by the paired t test, or by
Welch's (1947) where runs are not paired; where all differences are equal, t has no scale and the sign-flip
test decides. Where runs say which test images they got right, the test covers other test images too
(``crossed``). All p-values are adjusted together by Holm (1979), which holds the chance of any false decision
at 5 % whatever the dependence among choices. The place of a choice, which needs all pairs, lies between one
more than the number of choices decided to be better and all choices less those decided to be worse:
simultaneous 95 % intervals.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import stdtr

from cnnpool.report.choice import Choice
from cnnpool.report.crossed import Bits, Crossed, image_means, of_means
from cnnpool.report.measure import Measure
from cnnpool.report.statistics import LEVEL, Gap, Summary, gap, holm, shuffle_p, sign_flip_p, tail

SHOWN = ("better", "worse", "higher", "lower")
"""The verdicts of a difference that is shown."""
LEAST_DECIDED = 3
"""Pairs of seeds below which nothing is decided: of two, t is only how alike they happen to be."""
MARGIN = 0.005
"""Of an accuracy, 0..1: a smaller difference is called none that matters."""


@dataclass(frozen=True)
class Pair:
    """The comparison of two choices."""

    mean: float
    """Of the first less the second, over the seeds both have."""
    p: float
    adjusted: float
    """By Holm over all pairs compared."""
    within: float = 1.0
    """p-value of a difference of ``MARGIN`` or more, adjusted likewise; 1 where images are not known."""
    crossed: Crossed | None = None
    """Its standard error from seeds and test images, where the images are known."""


@dataclass(frozen=True)
class Rank:
    """Simultaneous 95 % interval of the place; 1 is best."""

    low: int
    high: int


@dataclass(frozen=True)
class Decisions:
    """The compared pairs that have enough seeds, by the places of their choices, the smaller first."""

    pairs: dict[tuple[int, int], Pair]

    def between(self, first: int, second: int) -> Pair | None:
        """The comparison of two choices, its mean that of the first less the second; None without seeds."""
        if first < second:
            return self.pairs.get((first, second))
        pair = self.pairs.get((second, first))
        return pair and replace(pair, mean=-pair.mean)

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


def decide(
    values: Sequence[Mapping[int, float]],
    bits: Sequence[Mapping[int, Bits]] = (),
    *,
    named: bool = False,
    paired: bool = True,
    margin: float | None = None,
) -> Decisions:
    """Compare every pair of choices, or, with a ``named`` baseline, each with the first.

    Args:
        values: seed -> number, for each choice.
        bits: seed -> which test images were classified correctly, for each choice, where it is known and the
            numbers are accuracies.
        named: whether the first is a baseline that was named.
        paired: whether equal seeds are pairs; else runs are independent, and the test is Welch's.
        margin: a smaller difference is none that matters; None for ``MARGIN`` where images are known.
    """
    # Pairs over the same seeds are computed at once: of a hundred choices there are 4,950.
    alike: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    means: dict[tuple[int, int], float] = {}
    p_values: dict[tuple[int, int], float] = {}
    errors: dict[tuple[int, int], Crossed | None] = {}
    for i, j in itertools.combinations(range(len(values)), 2):
        if named and i:
            break
        shared = values[i].keys() & values[j].keys()
        if paired and len(shared) >= LEAST_DECIDED:
            alike.setdefault(tuple(sorted(shared)), []).append((i, j))
        elif not paired and min(len(values[i]), len(values[j])) >= LEAST_DECIDED:
            means[i, j], p_values[i, j] = _welch(list(values[i].values()), list(values[j].values()))
    for seeds, pairs in alike.items():
        table = np.array([[one.get(seed, math.nan) for seed in seeds] for one in values])
        first, second = np.array(pairs).T
        differences = table[first] - table[second]
        means |= dict(zip(pairs, differences.mean(1).tolist(), strict=True))
        p_values |= dict(zip(pairs, paired_t_p(differences).tolist(), strict=True))
        errors |= _errors(bits, seeds, pairs, differences) if bits else {}
    keys = sorted(p_values)
    within = dict.fromkeys(keys, 1.0)
    for key, one in errors.items():
        if one:
            p_values[key] = max(p_values[key], one.p(means[key]))
            within[key] = one.p_within(means[key], MARGIN if margin is None else margin)
    for key in keys:
        if margin is not None and not errors.get(key):
            own = between(values[key[0]], values[key[1]], paired=paired)
            within[key] = tail(margin - abs(own.mean), own.error, own.freedom)
    adjusted, close = holm([p_values[key] for key in keys]), holm([within[key] for key in keys])
    return Decisions(
        {
            key: Pair(means[key], p_values[key], apart, near, errors.get(key))
            for key, apart, near in zip(keys, adjusted, close, strict=True)
        }
    )


def between(first: Mapping[int, float], second: Mapping[int, float], *, paired: bool) -> Gap:
    """The mean of ``first`` less that of ``second``, over the seeds both have if they are ``paired``."""
    if not paired:
        return gap(list(first.values()), list(second.values()))
    return gap([first[seed] - second[seed] for seed in sorted(first.keys() & second.keys())])


def _welch(first: list[float], second: list[float]) -> tuple[float, float]:
    """Mean and two-sided p-value; where no group has any spread, that of dealing all values out anew."""
    found = gap(first, second)
    if found.error <= 1e-9 * max(map(abs, [*first, *second])):
        return found.mean, shuffle_p(first, second)
    return found.mean, 2 * tail(abs(found.mean), found.error, found.freedom)


def _errors(
    bits: Sequence[Mapping[int, Bits]],
    seeds: Sequence[int],
    pairs: Sequence[tuple[int, int]],
    differences: np.ndarray,
) -> dict[tuple[int, int], Crossed | None]:
    """Of the differences (pairs, seeds), where the answers of both choices are known for all seeds."""
    # Once for each choice, which is in many pairs.
    shown = {place: image_means(bits[place], seeds) for place in {*itertools.chain(*pairs)}}
    found: dict[tuple[int, int], Crossed | None] = {}
    for (i, j), by_seed in zip(pairs, differences, strict=True):
        one, other = shown[i], shown[j]
        if one is not None and other is not None and one.shape == other.shape:
            found[i, j] = of_means(by_seed, one - other)
    return found


def paired_t_p(differences: np.ndarray) -> np.ndarray:
    """Two-sided p-values of mean 0 by the t test, (rows,), for differences of (rows, pairs).

    By the sign-flip test where all differences of a row are equal.
    """
    n = differences.shape[1]
    # Equal up to rounding is equal: the last bits of a subtraction are no spread.
    equal = np.ptp(differences, 1) <= 1e-9 * np.maximum(np.abs(differences).max(1), 1e-300)
    sd = np.where(equal, 1.0, differences.std(1, ddof=1))
    t = differences.mean(1) / (sd / math.sqrt(n))
    p: np.ndarray = 2 * stdtr(n - 1, -np.abs(t))
    p[equal] = [sign_flip_p([row[0]] * n) for row in differences[equal]]
    return p


@dataclass(frozen=True)
class Versus:
    """A choice less the baseline, over the seeds both have; unpaired, each run less the baseline's mean."""

    differences: list[float]
    summary: Summary
    p: float
    """Of the paired t test, two-sided; NaN from too few pairs."""
    p_sign_flip: float
    """Of the exact sign-flip test, beside it, which assumes no distribution; NaN from too few pairs."""
    p_holm: float
    """``p`` adjusted over all pairs compared."""
    needed: float
    """Runs of each choice that show a difference of this size in 80 % of cases; NaN where not known."""
    d: float
    """Effect size; NaN from too few pairs."""
    superiority: float
    """Share of seeds in which the choice is better (higher, where neither sense is better), ties one half."""
    superiority_interval: tuple[float, float]
    """The 95 % interval of the probability of that with another seed."""
    family: int
    """How many pairs were compared."""
    detectable: float
    """The smallest true difference detectable with 80 % power; NaN where it is not known."""
    within: float
    """p-value of a difference of ``MARGIN`` or more, adjusted over all pairs compared."""
    crossed: Crossed | None
    """The standard error of the difference from seeds and images; the interval of ``summary`` covers both."""


@dataclass(frozen=True)
class Row:
    """One choice: its value per seed, their summary, the other measures, its stand to the baseline."""

    choice: Choice
    values: dict[int, float]
    summary: Summary
    others: dict[str, Summary]
    versus: Versus | None = None
    verdict: str = "baseline"
    rank: Rank | None = None
    crossed: Crossed | None = None
    """The standard error of the mean from seeds and test images, where the runs say which they got right."""

    @cached_property
    def finite(self) -> dict[int, float]:
        """The values that are numbers, by seed."""
        return {seed: value for seed, value in self.values.items() if not math.isnan(value)}

    @property
    def broken(self) -> list[int]:
        """The seeds whose value is not a number: they are in no mean."""
        return sorted(self.values.keys() - self.finite.keys())


def verdict(versus: Versus, metric: Measure, broken: int = 0, margin: float | None = None) -> str:
    """The words that the decisions of ``pairwise`` allow, from runs that all gave a number."""
    n, s = versus.summary.n, versus.summary
    if broken:
        return f"not judged: {broken} seed{'s' * (broken > 1)} without a number"
    if n < LEAST_DECIDED:
        return f"too few seeds ({n}, at least {LEAST_DECIDED} are needed)"
    if versus.p_holm < LEVEL:
        words = {1: SHOWN[:2], -1: SHOWN[1::-1], 0: SHOWN[2:]}[metric.sense]
        return words[0] if s.mean > 0 else words[1]
    if versus.within < LEVEL:
        least = metric.format(MARGIN if margin is None else margin)
        return f"differs by less than {least} {metric.step_unit}".rstrip()
    if s.sd == 0:
        return f"no difference shown at n={n}: all pairs differ by {metric.format(s.mean)}"
    size = f"{metric.format(versus.detectable)} {metric.step_unit}".strip()
    return f"no difference shown at n={n}; the smallest it could show: {size}"
