"""Rules by which a number from several seeds says yes, no, or nothing."""

from collections.abc import Sequence

from cnnpool.report import statistics
from cnnpool.report.statistics import LEVEL, Summary


def at_least(s: Summary, bound: float) -> bool | None:
    """Yes if the 95 % interval lies at or above ``bound``, no if below it; None if astride, or one seed."""
    if s.n < 2:
        return None
    return True if s.low >= bound else False if s.high < bound else None


def at_most(s: Summary, bound: float) -> bool | None:
    """Yes if the 95 % interval lies at or below ``bound``, no if above it; None if astride, or one seed."""
    if s.n < 2:
        return None
    return True if s.high <= bound else False if s.low > bound else None


def within(s: Summary, target: float, tolerance: float) -> bool | None:
    """Yes if the 95 % interval lies in target -+ tolerance, no if it lies outside; None if astride."""
    if s.n < 2:
        return None
    if target - tolerance <= s.low and s.high <= target + tolerance:
        return True
    return False if s.high < target - tolerance or s.low > target + tolerance else None


def signs(families: Sequence[Sequence[float]]) -> list[int]:
    """For each list of paired differences: 1 if they are shown to be above 0, -1 below, else 0.

    Shown: at least as many pairs as the sign-flip test needs, its p below 0.05 after Holm's correction over
    all the lists, and a 95 % interval without 0.
    """
    adjusted = statistics.holm([statistics.sign_flip_p(differences) for differences in families])
    found = []
    for differences, p in zip(families, adjusted, strict=True):
        s = statistics.summarise(differences)
        enough = s.n >= statistics.pairs_needed(len(families))
        shown = enough and p < LEVEL and (s.low > 0 or s.high < 0)
        found.append((1 if s.mean > 0 else -1) if shown else 0)
    return found
