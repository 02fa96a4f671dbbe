"""Rules that turn a number from several seeds into yes, no, or undecided."""

from collections.abc import Sequence

import numpy as np

from cnnpool.report import statistics
from cnnpool.report.pairwise import LEAST_DECIDED, paired_t_p
from cnnpool.report.statistics import LEVEL, Summary


def at_least(s: Summary, bound: float) -> bool | None:
    """Yes if the 95 % interval lies at or above ``bound``, no if below it; None if both, or one seed."""
    if s.n < 2:
        return None
    return True if s.low >= bound else False if s.high < bound else None


def at_most(s: Summary, bound: float) -> bool | None:
    """Yes if the 95 % interval lies at or below ``bound``, no if above it; None if both, or one seed."""
    if s.n < 2:
        return None
    return True if s.high <= bound else False if s.low > bound else None


def within(s: Summary, target: float, tolerance: float) -> bool | None:
    """Yes if the 95 % interval lies in target -+ tolerance, no if it lies outside; None if partly."""
    if s.n < 2:
        return None
    if target - tolerance <= s.low and s.high <= target + tolerance:
        return True
    return False if s.high < target - tolerance or s.low > target + tolerance else None


def signs(families: Sequence[Sequence[float]]) -> list[int]:
    """For each list of paired differences: 1 if they are shown to be above 0, -1 below, else 0.

    Shown as in ``cnnpool compare``: at least three pairs, and p of the paired t test below 0.05 after Holm's
    correction over all lists that have as many; the sign-flip test where all differences are equal.
    """
    enough = [place for place, one in enumerate(families) if len(one) >= LEAST_DECIDED]
    adjusted = statistics.holm([float(paired_t_p(np.array([families[place]]))[0]) for place in enough])
    found = [0] * len(families)
    for place, p in zip(enough, adjusted, strict=True):
        if p < LEVEL:
            found[place] = 1 if statistics.summarise(families[place]).mean > 0 else -1
    return found
