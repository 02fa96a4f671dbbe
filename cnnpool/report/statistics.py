"""Numbers from few seeds: t intervals, sign-flip tests, Holm's correction, ranks by bootstrap."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

LEVEL = 0.05
POWER = 0.8
LEAST_PAIRS = 6
EXACT_PAIRS = 16
RESAMPLES = 100_000
BOOTSTRAPS = 10_000


@dataclass(frozen=True)
class Summary:
    """n values, their mean, standard deviation (n - 1) and 95 % t interval; NaN where n is too small."""

    n: int
    mean: float
    sd: float
    low: float
    high: float


def summarise(values: Sequence[float]) -> Summary:
    """Mean, standard deviation and 95 % t interval of ``values``: mean -+ t(n-1) sd / sqrt(n)."""
    x = np.asarray(values, dtype=np.float64)
    mean = float(x.mean()) if x.size else math.nan
    if x.size < 2:
        return Summary(x.size, mean, math.nan, math.nan, math.nan)
    sd = float(x.std(ddof=1))
    half = float(stdtrit(x.size - 1, 1 - LEVEL / 2)) * sd / math.sqrt(x.size)
    return Summary(x.size, mean, sd, mean - half, mean + half)


def spread(values: np.ndarray) -> np.ndarray:
    """Mean, low and high of the 95 % t interval for each column of (runs, points): (3, points).

    NaN in a column with a NaN; low and high are NaN for a single run.
    """
    mean = values.mean(0)
    if len(values) < 2:
        return np.array([mean, np.full_like(mean, np.nan), np.full_like(mean, np.nan)])
    half = stdtrit(len(values) - 1, 1 - LEVEL / 2) * values.std(0, ddof=1) / math.sqrt(len(values))
    return np.array([mean, mean - half, mean + half])


def sign_flip_p(differences: Sequence[float]) -> float:
    """Two-sided p-value of mean 0 when each paired difference could as well have the other sign.

    Exact over all 2^n sign patterns up to n = 16; above, 100,000 patterns drawn with a fixed seed, the
    observed one counted among them, so that p is never 0.
    """
    d = np.asarray(differences, dtype=np.float64)
    n = d.size
    # Patterns that reach the observed sum in another order of addition must count as equal.
    least = abs(d.sum()) - 1e-12 * np.abs(d).sum()
    if n <= EXACT_PAIRS:
        patterns = np.arange(2**n)[:, None] >> np.arange(n) & 1
        return float(np.mean(np.abs((1 - 2 * patterns) @ d) >= least))
    generator = np.random.default_rng(0)
    reached = 0
    for _ in range(RESAMPLES // 1000):
        signs = 1 - 2 * generator.integers(0, 2, (1000, n))
        reached += int(np.count_nonzero(np.abs(signs @ d) >= least))
    return (reached + 1) / (RESAMPLES + 1)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm-adjusted p-values, in the given order: reject where below the level (Holm 1979)."""
    adjusted = [0.0] * len(p_values)
    floor = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        floor = max(floor, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = floor
    return adjusted


def paired_d(differences: Sequence[float]) -> float:
    """Effect size: mean difference in standard deviations of the difference; NaN where that is 0/0."""
    d = summarise(differences)
    if d.n < 2:
        return math.nan
    if d.sd == 0:
        return math.copysign(math.inf, d.mean) if d.mean else math.nan
    return d.mean / d.sd


def superiority(differences: Sequence[float]) -> float:
    """P(A > B): the share of pairs with a positive difference, a tie counting one half."""
    d = np.asarray(differences, dtype=np.float64)
    return float((np.sign(d).sum() / d.size + 1) / 2) if d.size else math.nan


def detectable(sd: float, n: int, comparisons: int = 1) -> float:
    """The smallest true difference that n pairs show in 80 % of cases, at Holm's first step.

    (t(1 - a/2) + t(0.8)) sd / sqrt(n) with a = 0.05 / comparisons, t of n - 1 degrees of freedom.
    """
    if n < 2:
        return math.nan
    level = LEVEL / max(comparisons, 1)
    return float(stdtrit(n - 1, 1 - level / 2) + stdtrit(n - 1, POWER)) * sd / math.sqrt(n)


def pairs_needed(comparisons: int) -> int:
    """Pairs below which no sign-flip p-value survives Holm's correction: 2^(1-n) m <= 0.05; at least 6."""
    return max(LEAST_PAIRS, math.ceil(1 + math.log2(max(comparisons, 1) / LEVEL)))


@dataclass(frozen=True)
class Rank:
    """95 % interval of the place (1 is best) and the share of resamples in which it came first."""

    low: int
    high: int
    first: float


def ranks(values: np.ndarray) -> list[Rank]:
    """Places of the rows of ``values`` (choices, seeds), higher is better, over resampled seeds.

    The same seeds are drawn for every choice, so that pairing is kept; equal means share the place.

    Raises:
        ValueError: below 6 seeds, where no ranking is shown.
    """
    choices, n = values.shape
    if n < LEAST_PAIRS:
        raise ValueError(f"too few seeds to rank: {n}, at least {LEAST_PAIRS} are needed")
    drawn = np.random.default_rng(0).multinomial(n, np.full(n, 1 / n), BOOTSTRAPS)
    means = drawn @ values.T / n
    # Equal up to rounding is equal: the order of addition must not invent a winner.
    slack = 1e-12 * np.abs(values).max()
    best, worst = [], []
    # In parts: all gaps between 50 choices at once would take 200 MB.
    for part in np.array_split(means, 20):
        gap = part[:, :, None] - part[:, None, :]
        best.append(1 + (gap < -slack).sum(2))
        worst.append(choices - (gap > slack).sum(2))
    best, worst = np.concatenate(best), np.concatenate(worst)
    first = (best == 1) / (best == 1).sum(1, keepdims=True)
    low = np.quantile(best, LEVEL / 2, axis=0, method="lower")
    high = np.quantile(worst, 1 - LEVEL / 2, axis=0, method="higher")
    return [Rank(int(a), int(b), float(c)) for a, b, c in zip(low, high, first.mean(0), strict=True)]
