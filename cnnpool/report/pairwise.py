"""One simultaneous procedure: pairs of choices compared, verdicts and places from the same decisions.

The pairs are those with a named baseline; without one, all. Each is compared by the paired t test, or by
Welch's (1947) where runs are not paired; without any spread the exact permutation test decides. Where runs
record the images that they got right, the test also covers other test images. All p-values are adjusted
together by Holm (1979), which bounds the chance of any false decision at 5 % whatever the dependence among
choices. The rank of a choice lies between one more than the choices decided to be better and all choices less
those decided to be worse: simultaneous 95 % intervals.
"""

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property

from cnnpool.report import statistics
from cnnpool.report.choice import Choice
from cnnpool.report.measure import Measure
from cnnpool.report.statistics import LEVEL, Bits, Crossed, Gap, Summary

SHOWN = ("better", "worse", "higher", "lower")  # The verdicts of a shown difference
LEAST_DECIDED = 3  # Fewest pairs of seeds: with two, t only reflects how alike they happen to be
MARGIN = "10%"  # Of the baseline's errors: the largest difference that does not matter
LEAST_UNPAIRED = 5  # Fewest runs of each group without pairs: of fewer skewed ones, Welch errs too often


@dataclass(frozen=True)
class Pair:
    """The comparison of two choices.

    ``mean`` is the first minus the second over the seeds that both have; ``adjusted`` is ``p``, ``within``
    the p-value of a difference of at least the margin, by Holm over all pairs; the latter is 1 without margin
    and images. ``crossed`` is the standard error from seeds and test images, if the images are known.
    """

    mean: float
    p: float
    adjusted: float
    within: float = 1.0
    crossed: Crossed | None = None


UNDECIDED = Pair(math.nan, math.nan, math.nan, math.nan)  # Too few seeds


@dataclass(frozen=True)
class Rank:
    """Simultaneous 95 % interval of the rank; 1 is best."""

    low: int
    high: int


@dataclass(frozen=True)
class Decisions:
    """The compared pairs that have enough seeds, by the indices of their choices, the smaller first."""

    pairs: dict[tuple[int, int], Pair]

    def between(self, first: int, second: int) -> Pair:
        """The comparison of two choices; its mean is that of the first minus the second."""
        pair = self.pairs.get((min(first, second), max(first, second)), UNDECIDED)
        return pair if first < second else replace(pair, mean=-pair.mean)

    def above(self, first: int, second: int) -> bool:
        """Whether the first choice is decided to have the larger mean."""
        pair = self.between(first, second)
        return pair.adjusted < LEVEL and pair.mean > 0

    def rank(self, choice: int, choices: int, sense: int) -> Rank:
        """The rank of a choice among ``choices``; ``sense``: 1 if higher is better, -1 if lower is."""
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

    ``bits`` say which test images were classified right; ``margin`` is in the unit of ``values``, > 0.
    """

    @cache
    def answers(choice: int, seeds: tuple[int, ...]) -> Bits | None:
        return statistics.stacked(bits[choice], seeds)

    def with_images(i: int, j: int, seeds: tuple[int, ...]) -> Crossed | None:
        one, other = answers(i, seeds), answers(j, seeds)
        if one is None or other is None or one.shape != other.shape:
            return None
        return statistics.of_table(one, other)

    pairs: dict[tuple[int, int], Pair] = {}
    for i, j in itertools.combinations(range(len(values)), 2):
        if named and i:
            break
        seeds = tuple(sorted(values[i].keys() & values[j].keys()))
        n = len(seeds) if paired else min(len(values[i]), len(values[j]))
        if n < least(paired):
            continue
        found = between(values[i], values[j], paired=paired)
        p, within = _p(found, values[i], values[j], margin, paired=paired)
        error = with_images(i, j, seeds) if bits and paired else None
        if error:
            p = max(p, error.p(found.mean))
            within = error.p_within(found.mean, margin) if margin else 1.0
        pairs[i, j] = Pair(found.mean, p, p, within, error)
    adjusted = statistics.holm([one.p for one in pairs.values()])
    close = statistics.holm([one.within for one in pairs.values()])
    corrected = zip(pairs.items(), adjusted, close, strict=True)
    return Decisions({key: replace(one, adjusted=p, within=near) for (key, one), p, near in corrected})


def least(paired: bool) -> int:
    """The fewest pairs, or runs of the smaller group, that a verdict needs."""
    return LEAST_DECIDED if paired else LEAST_UNPAIRED


def margin_of(asked: str | float, metric: Measure, baseline: float) -> float | None:
    """The margin in the metric's unit; ``P%`` is that share of the errors of the ``baseline``'s mean.

    Errors are the distance to the best possible value: None for a metric that has none.
    """
    number, is_share = as_margin(asked)
    if not is_share:
        return number
    best = metric.quantity.range[1 if metric.sense > 0 else 0] if metric.sense else None
    return None if best is None else number * abs(best - baseline)


def as_margin(asked: str | float) -> tuple[float, bool]:
    """A margin as a number, and whether it is a share of errors; a ValueError for other text."""
    share = re.fullmatch(r"(\d+(?:\.\d+)?) ?%", str(asked).strip())
    with suppress(ValueError):
        number = float(share[1]) / 100 if share else float(asked)
        if 0 < number < math.inf:
            return number, bool(share)
    raise ValueError(f"{asked}: not a positive number, nor a share of errors such as {MARGIN}")


def between(first: Mapping[int, float], second: Mapping[int, float], *, paired: bool) -> Gap:
    """The mean of ``first`` minus that of ``second``; if ``paired``, over the seeds that both have."""
    if not paired:
        return statistics.gap(list(first.values()), list(second.values()))
    return statistics.gap([first[seed] - second[seed] for seed in sorted(first.keys() & second.keys())])


def _p(
    found: Gap, first: Mapping[int, float], second: Mapping[int, float], margin: float | None, *, paired: bool
) -> tuple[float, float]:
    """p-values of no difference, two-sided, and of one of at least the margin, by t; without any spread, the
    share of sign patterns or permutations as extreme.
    """
    least, size = statistics.rounding([*first.values(), *second.values()]), abs(found.mean)
    room = margin - size if margin else -math.inf
    if found.error > least:
        p, within = (statistics.tail(x, found.error, found.freedom) for x in (size, room))
        return 2 * p, within
    n, m = len(first), len(second)
    ways = 2 ** len(first.keys() & second.keys()) if paired else math.comb(n + m, n)
    return 2 / ways if size > least else 1.0, 1 / ways if room > least else 1.0


@dataclass(frozen=True)
class Versus:
    """A choice minus the baseline, over the seeds both have; unpaired, each run minus the baseline's mean.

    ``superiority`` is the share of seeds with a better value, a tie counting one half, with its interval for
    another seed. With 80 % power ``needed`` runs of each show this difference, and these runs one that is
    ``detectable``, infinite if none that is possible is. All of them are NaN where they are not known.
    """

    differences: list[float]
    summary: Summary
    pair: Pair
    superiority: float
    superiority_interval: tuple[float, float]
    needed: float
    family: int  # Number of compared pairs
    detectable: float


@dataclass(frozen=True)
class Row:
    """One choice: its value per seed, their summary, the other measures, its comparison with the baseline."""

    choice: Choice
    values: dict[int, float]
    summary: Summary
    others: dict[str, Summary]
    versus: Versus | None = None
    verdict: str = "baseline"
    rank: Rank | None = None
    crossed: Crossed | None = None  # Of the mean, from seeds and test images, if the runs record these

    @cached_property
    def finite(self) -> dict[int, float]:
        """The values that are numbers, by seed."""
        return {seed: value for seed, value in self.values.items() if not math.isnan(value)}

    @property
    def broken(self) -> list[int]:
        """The seeds whose value is not a number; means leave them out."""
        return sorted(self.values.keys() - self.finite.keys())

    def broken_as(self, tag: str) -> dict[str, list[int]]:
        """``broken`` by why: diverged, or what their values are, which runs of cnnpool record as NaN."""
        found: dict[str, list[int]] = {}
        for seed in self.broken:
            run = self.choice.runs[seed]
            infinite = run.measured.get(tag) in (math.inf, -math.inf)
            kind = "diverged" if run.diverged else "infinite" if infinite else "NaN"
            found.setdefault(kind, []).append(seed)
        return found


def verdict(
    versus: Versus, metric: Measure, broken: int = 0, margin: float | None = None, *, paired: bool = True
) -> str:
    """The verdict in words from the decisions of ``pairwise``, if all runs gave a number."""
    n, s = versus.summary.n, versus.summary
    word = "seed" if paired else "run"
    if broken:
        return f"not judged: {broken} {word}{'s' * (broken > 1)} without a number"
    if n < least(paired):
        return f"too few {word}s ({n}, at least {least(paired)} are needed)"
    if versus.pair.adjusted < LEVEL:
        words = {1: SHOWN[:2], -1: SHOWN[1::-1], 0: SHOWN[2:]}[metric.sense]
        return words[0] if s.mean > 0 else words[1]
    if margin and versus.pair.within < LEVEL:
        return f"differs by less than {metric.amount(margin)}"
    if s.sd == 0 and not versus.pair.crossed:
        if versus.pair.p == 1:
            return f"no difference shown at n={n}: all {'pairs' if paired else 'runs'} are equal"
        return f"differs by exactly {metric.amount(s.mean)} at n={n}"
    if versus.detectable == math.inf:
        return f"no difference shown at n={n}; the smallest it could show is more than is possible"
    return f"no difference shown at n={n}; the smallest it could show: {metric.amount(versus.detectable)}"


def in_short(verdict: str) -> str:
    """A verdict without its numbers, but for a margin."""
    return verdict.partition(" at ")[0].partition(" (")[0].partition(":")[0]
