"""Intervals that cover seeds and test images: the crossed bootstrap (Owen 2007, "The pigeonhole bootstrap").

The t intervals of a comparison cover the seeds alone: other test images would give other accuracies. Where
runs say which test images they classified correctly, both are drawn again with replacement, seeds and images,
and the accuracy, or the difference of two choices, is that over the drawn table. The variance so found is
not too small (McCullagh 2000, Bernoulli 6).
"""

import hashlib
import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from cnnpool.report.runs import Run
from cnnpool.report.statistics import LEVEL
from cnnpool.run_folder.results import unpacked

MEASURE = "test.accuracy"
DRAWS = 4000
LEAST_SEEDS = 3
FEW_KINDS = 32
"""Kinds of images up to which each image is drawn; the time of that grows with their number."""
Bits = NDArray[np.bool_]
Values = NDArray[np.float64]
Interval = tuple[float, float]


def table(runs: Mapping[int, Run]) -> dict[int, Bits]:
    """Seed -> which test images were classified correctly, (images,), of the runs that say so."""
    records = {seed: run.results.correct for seed, run in runs.items()}
    return {seed: unpacked(record) for seed, record in records.items() if record is not None}


def of_choice(own: Mapping[int, Bits]) -> Interval | None:
    """The 95 % interval of a choice's accuracy over seeds and images; None from fewer than 3 seeds."""
    return _interval([bits.astype(np.int8) for bits in own.values()])


def of_difference(own: Mapping[int, Bits], base: Mapping[int, Bits]) -> Interval | None:
    """The 95 % interval of the difference of two choices' accuracies, paired by seed and by image."""
    seeds = sorted(own.keys() & base.keys())
    return _interval(
        [own[s].astype(np.int8) - base[s].astype(np.int8) for s in seeds if own[s].shape == base[s].shape],
    )


def _interval(rows: Sequence[NDArray[np.int8]]) -> Interval | None:
    """Percentiles of the mean of the (seeds, images) table under crossed resampling, widened for few seeds.

    A bootstrap of n seeds has (n - 1) / n of their variance and the tails of a normal distribution, so the
    seeds' part of each draw is stretched: if images made no difference, this would be the t interval.
    """
    if len(rows) < LEAST_SEEDS or len({row.shape for row in rows}) > 1:
        return None
    values = np.stack(rows)
    seeds = len(values)
    kinds, counts = _kinds(values)
    # The same runs give the same interval.
    digest = hashlib.sha256(kinds.tobytes() + counts.tobytes()).digest()
    generator = np.random.default_rng(int.from_bytes(digest[:8], "little"))
    picked = generator.multinomial(seeds, np.full(seeds, 1 / seeds), DRAWS) / seeds
    stretch = math.sqrt(seeds / (seeds - 1)) * stdtrit(seeds - 1, 1 - LEVEL / 2) / ndtri(1 - LEVEL / 2)
    weights = 1 / seeds + stretch * (picked - 1 / seeds)
    draw = _each_image if len(kinds) <= FEW_KINDS else _their_mean
    low, high = np.quantile(draw(kinds, counts, weights, generator), [LEVEL / 2, 1 - LEVEL / 2])
    return float(low), float(high)


def _kinds(values: NDArray[np.int8]) -> tuple[Values, NDArray[np.int64]]:
    """The columns of (seeds, images) that differ, (kinds, seeds), and how many images are of each.

    Most images are classified alike by all seeds, so there are few kinds of them.
    """
    # As bytes without a sign, columns are in the order of their numbers, and compared at once.
    columns = np.ascontiguousarray(values.T + 1).view(f"V{len(values)}")[:, 0]
    found, counts = np.unique(columns, return_counts=True)
    return found.view(np.int8).reshape(len(found), -1).astype(np.float64) - 1, counts


def _each_image(
    kinds: Values, counts: NDArray[np.int64], weights: Values, generator: np.random.Generator
) -> Values:
    """The mean of each draw over images that are drawn as well, (draws,); ``weights`` (draws, seeds)."""
    images = counts.sum()
    shown = generator.multinomial(images, counts / images, len(weights)) / images
    return np.asarray(np.einsum("ds,ds->d", weights, shown @ kinds))


def _their_mean(
    kinds: Values, counts: NDArray[np.int64], weights: Values, generator: np.random.Generator
) -> Values:
    """The same with the images' part drawn from the normal distribution that their mean has (CLT)."""
    images = counts.sum()
    shares = counts / images
    mean = shares @ kinds
    apart = kinds - mean
    covariance = (apart * shares[:, None]).T @ apart / images
    variance = np.einsum("ds,ds->d", weights @ covariance, weights)
    # Rounding alone can make it negative.
    sd = np.sqrt(np.maximum(variance, 0))
    return np.asarray(weights @ mean + sd * generator.standard_normal(len(weights)))
