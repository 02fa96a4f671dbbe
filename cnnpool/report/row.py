"""One line of a comparison, and the words its numbers allow."""

import math
from dataclasses import dataclass
from functools import cached_property

from cnnpool.report.choice import Choice
from cnnpool.report.crossed_bootstrap import Interval
from cnnpool.report.measure import Measure
from cnnpool.report.pairwise import LEAST_DECIDED, Rank
from cnnpool.report.statistics import LEVEL, Summary


@dataclass(frozen=True)
class Versus:
    """A choice less the baseline, over the seeds both have."""

    seeds: list[int]
    differences: list[float]
    summary: Summary
    p: float
    """Of the paired t test, two-sided; NaN from too few pairs."""
    p_sign_flip: float
    """Of the exact sign-flip test, beside it, which assumes no distribution; NaN from too few pairs."""
    p_holm: float
    """``p`` adjusted over all pairs of choices."""
    d: float
    """Effect size; NaN from too few pairs."""
    superiority: float
    """Share of seeds in which the choice is better (higher, where neither sense is better), ties one half."""
    detectable: float
    """The smallest true difference detectable with 80 % power; NaN where it is not known."""


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
    crossed: Interval | None = None
    """The 95 % interval over seeds and test images, where the runs say which images they got right."""
    crossed_difference: Interval | None = None
    """The same of the difference to the baseline."""

    @cached_property
    def finite(self) -> dict[int, float]:
        """The values that are numbers, by seed."""
        return {seed: value for seed, value in self.values.items() if not math.isnan(value)}

    @property
    def broken(self) -> list[int]:
        """The seeds whose value is not a number: they are in no mean."""
        return sorted(self.values.keys() - self.finite.keys())


def verdict(versus: Versus, metric: Measure, broken: int = 0) -> str:
    """The words that the decisions of ``pairwise`` allow, from runs that all gave a number."""
    n, s = versus.summary.n, versus.summary
    if broken:
        return f"not judged: {broken} seed{'s' * (broken > 1)} without a number"
    if n < LEAST_DECIDED:
        return f"too few seeds ({n}, at least {LEAST_DECIDED} are needed)"
    if versus.p_holm < LEVEL:
        words = {1: ("better", "worse"), -1: ("worse", "better"), 0: ("higher", "lower")}[metric.sense]
        return words[0] if s.mean > 0 else words[1]
    if s.sd == 0:
        return f"no difference shown at n={n}: all pairs differ by {metric.format(s.mean)}"
    size = f"{metric.format(versus.detectable)} {metric.step_unit}".strip()
    return f"no difference shown at n={n}; the smallest it could show: {size}"
