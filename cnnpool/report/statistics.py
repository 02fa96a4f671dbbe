"""Numbers from few seeds: t intervals, Holm's correction, power; intervals over images too.

Other seeds would give other networks, and other test images other predictions. The mean over a table (S, N)
of S seeds and N images has the variance s/S + i/N + r/(S N), where s, i and r are the variances by seed, by
image and of the rest. Var(means of seeds) / S and Var(means of images) / N both include the last part, which
counts once: it is estimated from the interaction of the table and subtracted. The result is never less than
the part of the seeds alone, nor are its degrees of freedom, Satterthwaite's (1946), fewer than theirs.
"""

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, nctdtrinc, stdtr, stdtrit

LEVEL = 0.05
POWER = 0.8
LEAST_PAIRS = 6
LEAST_SEEDS = 3
Bits = NDArray[np.bool_]
Values = NDArray[np.float64]


@dataclass(frozen=True)
class Summary:
    """n values, their mean, standard deviation (n - 1) and 95 % t interval; NaN where n is too small."""

    n: int
    mean: float
    sd: float
    low: float
    high: float

    @property
    def interval(self) -> tuple[float, float, float]:
        """The mean and the ends of its interval."""
        return self.mean, self.low, self.high


def summarise(values: Sequence[float]) -> Summary:
    """Mean, standard deviation and 95 % t interval of ``values``: mean -+ t(n-1) sd / sqrt(n)."""
    x = np.asarray(values, dtype=np.float64)
    if not x.size:
        return Summary(0, *[math.nan] * 4)
    mean, low, high = spread(x[:, None])[:, 0].tolist()
    return Summary(x.size, mean, float(x.std(ddof=1)) if x.size > 1 else math.nan, low, high)


def spread(values: np.ndarray) -> np.ndarray:
    """Mean, low and high of the 95 % t interval of each column of (runs, points): (3, points), or NaN."""
    n, mean = len(values), values.mean(0)
    half = np.full_like(mean, np.nan)
    if n > 1:
        half = stdtrit(n - 1, 1 - LEVEL / 2) * values.std(0, ddof=1) / math.sqrt(n)
    return np.array([mean, mean - half, mean + half])


@dataclass(frozen=True)
class Gap:
    """The mean of a difference, its standard error and the degrees of freedom of that."""

    mean: float
    error: float
    freedom: float


def gap(first: Sequence[float], second: Sequence[float] | None = None) -> Gap:
    """The mean of ``first``, or that minus the mean of ``second`` by Welch (1947); NaN from under two."""
    groups = [first] if second is None else [first, second]
    means = [sum(x) / len(x) if x else math.nan for x in groups]
    mean = means[0] if second is None else means[0] - means[1]
    if any(len(x) < 2 for x in groups):
        return Gap(mean, math.nan, math.nan)
    # Plain Python is faster here: a hundred choices have 4,950 pairs of a few seeds.
    squares = [sum((value - m) * (value - m) for value in x) for x, m in zip(groups, means, strict=True)]
    parts = [(len(x), square / (len(x) - 1) / len(x)) for x, square in zip(groups, squares, strict=True)]
    variance = sum(part for _, part in parts)
    below = sum(part * part / (n - 1) for n, part in parts)
    freedom = variance * variance / below if below else float(sum(n - 1 for n, _ in parts))
    return Gap(mean, math.sqrt(variance), freedom)


def apart(first: Sequence[float], second: Sequence[float]) -> tuple[Summary, Gap]:
    """The difference of two groups by Welch: with n that of the smaller, the standard deviation that of a
    difference of one value of each; and its error.
    """
    own, n = gap(first, second), min(len(first), len(second))
    half = float(stdtrit(own.freedom, 1 - LEVEL / 2)) * own.error
    sd = math.hypot(*(summarise(group).sd for group in (first, second)))
    return Summary(n, own.mean, sd, own.mean - half, own.mean + half), own


def rounding(values: Sequence[float]) -> float:
    """The spread of ``values`` that may be rounding alone, which is none: event files hold float32."""
    return 2.0**-22 * max(map(abs, values), default=0.0)


def tail(distance: float, error: float, freedom: float) -> float:
    """One-sided p-value of the t of ``distance`` in standard errors; 0, 0.5 or 1 if ``error`` is 0."""
    if not error:
        return 0.5 if distance == 0 else float(distance < 0)
    return float(stdtr(freedom, -distance / error))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm-adjusted p-values, in the given order: reject where below the level (Holm 1979)."""
    adjusted = [0.0] * len(p_values)
    floor = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        floor = max(floor, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = floor
    return adjusted


def superiority(differences: Sequence[float]) -> float:
    """P(A > B): the share of pairs with a positive difference, a tie counting one half."""
    d = np.asarray(differences, dtype=np.float64)
    return float((np.sign(d).sum() / d.size + 1) / 2) if d.size else math.nan


def superiority_interval(differences: Sequence[float], n: int | None = None) -> tuple[float, float]:
    """The 95 % interval of P(A > B) for another pair (Clopper & Pearson 1934); a tie counts one half.

    Of independent groups ``n`` is the smaller one's: no share varies more (van Dantzig 1951).
    """
    n, share = len(differences) if n is None else n, superiority(differences)
    if not n:
        return math.nan, math.nan
    wins, side = n * share, LEVEL / 2
    low = float(betaincinv(wins, n - wins + 1, side)) if wins else 0.0
    high = float(betaincinv(wins + 1, n - wins, 1 - side)) if wins < n else 1.0
    return low, high


def detectable(sd: float, n: int, comparisons: int = 1, freedom: float | None = None) -> float:
    """The smallest true difference that n pairs detect by the t test with 80 % power, at Holm's first step.

    ncp sd / sqrt(n), where the noncentral t exceeds the critical value of 0.05 / comparisons in 80 %.
    """
    if n < 2:
        return math.nan
    freedom = n - 1 if freedom is None else freedom
    edge = stdtrit(freedom, 1 - LEVEL / max(comparisons, 1) / 2)
    return float(nctdtrinc(freedom, 1 - POWER, edge)) * sd / math.sqrt(n)


def needed(difference: float, sd: float, comparisons: int = 1, groups: int = 1) -> float:
    """The fewest pairs, or runs of each of two ``groups``, that detect it: 3 to 1,000, or infinity."""
    sizes = range(3, 1001)
    place = bisect_left(
        sizes, True, key=lambda n: detectable(sd, n, comparisons, groups * (n - 1)) <= abs(difference)
    )
    return sizes[place] if place < len(sizes) else math.inf


@dataclass(frozen=True)
class Crossed:
    """Error of the mean of a table of seeds, >= 3, and images, >= 2: standard errors from each of them.

    ``by_seed`` and ``by_image`` both contain ``rest``, the standard error from the interaction alone.
    """

    seeds: int
    images: int
    by_seed: float
    by_image: float
    rest: float

    @property
    def error(self) -> float:
        """The standard error from seeds and images, never less than that of the seeds alone."""
        return math.sqrt(self.by_seed**2 + max(0.0, self.by_image**2 - self.rest**2))

    @property
    def freedom(self) -> float:
        """Degrees of freedom of ``error``, by Satterthwaite, never fewer than those of the seeds."""
        rows, columns = self.seeds - 1, self.images - 1
        parts = self.by_seed**4 / rows + self.by_image**4 / columns + self.rest**4 / (rows * columns)
        return max(float(rows), self.error**4 / parts)

    @property
    def half(self) -> float:
        """Half the width of the 95 % interval, at least that of the t interval over the seeds alone."""
        over_seeds = float(stdtrit(self.seeds - 1, 1 - LEVEL / 2)) * self.by_seed
        return max(over_seeds, float(stdtrit(self.freedom, 1 - LEVEL / 2)) * self.error)

    def p(self, mean: float) -> float:
        """Two-sided p-value of the hypothesis that the mean is 0."""
        return 2 * self._tail(abs(mean))

    def p_within(self, mean: float, margin: float) -> float:
        """p-value of a mean of at least ``margin`` in size: the larger of two one-sided tests (TOST)."""
        return self._tail(margin - abs(mean))

    def _tail(self, distance: float) -> float:
        pairs = ((self.by_seed, self.seeds - 1.0), (self.error, self.freedom))
        return max(tail(distance, error, freedom) for error, freedom in pairs)


def of_choice(own: Mapping[int, Bits]) -> Crossed | None:
    """The error of a choice's accuracy; None from fewer than 3 seeds, or if their images differ."""
    table = stacked(own, list(own))
    return None if table is None else of_table(table)


def stacked(own: Mapping[int, Bits], seeds: Sequence[int]) -> Bits | None:
    """Which images each of ``seeds`` classified correctly, (seeds, images); None where it is not known."""
    rows = [own[seed] for seed in seeds if seed in own]
    if not rows or len(rows) < len(seeds) or len({row.shape for row in rows}) != 1:
        return None
    return np.stack(rows)


def of_table(own: Bits, base: Bits | None = None) -> Crossed | None:
    """The error of the mean of a table (seeds, images), or of that less ``base``, paired by seed and image.

    None from too few seeds or images. A seed's accuracy is a multiple of 1 / images: where seeds seem more
    alike than that rounding makes them, its variance counts, 1 / (12 images^2) of each accuracy.
    """
    seeds, images = own.shape
    if seeds < LEAST_SEEDS or images < 2:
        return None
    by_seed, by_image = own.mean(1), own.mean(0)
    squares, rounded = float(by_seed.mean()), 1 / (12 * images**2)
    if base is not None:
        by_seed, by_image = by_seed - base.mean(1), by_image - base.mean(0)
        squares, rounded = np.count_nonzero(own != base) / own.size, 2 * rounded
    over_seeds, over_images = float(by_seed.var()), float(by_image.var())
    interaction = squares - float(by_seed.mean()) ** 2 - over_seeds - over_images
    return Crossed(
        seeds,
        images,
        math.sqrt(max(over_seeds / (seeds - 1), rounded / seeds)),
        math.sqrt(over_images / (images - 1)),
        math.sqrt(max(0.0, interaction) / ((seeds - 1) * (images - 1))),
    )
