"""What one line of a comparison holds, and the words its numbers allow."""

import math
from dataclasses import dataclass

from cnnpool.report import statistics
from cnnpool.report.choice import Choice
from cnnpool.report.measure import Measure
from cnnpool.report.statistics import LEVEL, Rank, Summary


@dataclass(frozen=True)
class Versus:
    """A choice less the baseline, over the seeds both have."""

    seeds: list[int]
    differences: list[float]
    summary: Summary
    p: float
    """Sign-flip, two-sided."""
    p_holm: float
    d: float
    superiority: float
    """Share of seeds in which the choice is better (higher, where neither sense is better), ties one half."""
    detectable: float
    """The smallest true difference shown in 80 % of repetitions."""


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

    @property
    def finite(self) -> dict[int, float]:
        """The values that are numbers, by seed."""
        return {seed: value for seed, value in self.values.items() if not math.isnan(value)}

    @property
    def broken(self) -> list[int]:
        """The seeds whose value is not a number: they are in no mean."""
        return sorted(self.values.keys() - self.finite.keys())


def verdict(versus: Versus, metric: Measure, comparisons: int, broken: int = 0) -> str:
    """The words that the numbers allow, by rule.

    Better and worse need a Holm-adjusted p below 0.05 and an interval without 0, from at least 6 pairs and
    from runs that all gave a number.
    """
    n, s = versus.summary.n, versus.summary
    if broken:
        return f"not judged: {broken} seed{'s' * (broken > 1)} without a number"
    if n < statistics.LEAST_PAIRS:
        return f"too few seeds ({n}, at least {statistics.LEAST_PAIRS} are needed)"
    if n < statistics.pairs_needed(comparisons):
        return f"too few seeds ({n}, {comparisons} comparisons need {statistics.pairs_needed(comparisons)})"
    if versus.p_holm < LEVEL and (s.low > 0 or s.high < 0):
        words = {1: ("better", "worse"), -1: ("worse", "better"), 0: ("higher", "lower")}[metric.sense]
        return words[0] if s.mean > 0 else words[1]
    if s.sd == 0:
        return f"no difference shown at n={n}: all pairs differ by {metric.format(s.mean)}"
    size = f"{metric.format(versus.detectable)} {metric.step_unit}".strip()
    return f"no difference shown at n={n}; the smallest it could show: {size}"
