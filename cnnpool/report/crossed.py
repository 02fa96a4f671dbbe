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
from cnnpool.run_folder.correct import unpacked

MEASURE = "test.accuracy"
DRAWS = 4000
LEAST_SEEDS = 3
Bits = NDArray[np.bool_]
Interval = tuple[float, float]


def table(runs: Mapping[int, Run]) -> dict[int, Bits]:
    """Seed -> which test images were classified correctly, (images,), of the runs that say so."""
    found = {}
    for seed, run in runs.items():
        record = run.results.correct
        if record is not None:
            try:
                found[seed] = unpacked(record)
            except ValueError:
                continue
    return found


def of_choice(own: Mapping[int, Bits]) -> Interval | None:
    """The 95 % interval of a choice's accuracy over seeds and images; None from fewer than 3 seeds."""
    return _interval([bits.astype(np.float64) for bits in own.values()])


def of_difference(own: Mapping[int, Bits], base: Mapping[int, Bits]) -> Interval | None:
    """The 95 % interval of the difference of two choices' accuracies, paired by seed and by image."""
    seeds = sorted(own.keys() & base.keys())
    return _interval(
        [own[s].astype(np.float64) - base[s] for s in seeds if own[s].shape == base[s].shape],
    )


def _interval(rows: Sequence[NDArray[np.float64]]) -> Interval | None:
    """Percentiles of the mean of the (seeds, images) table under crossed resampling, widened for few seeds.

    A bootstrap of n seeds has (n - 1) / n of their variance and the tails of a normal distribution, so the
    seeds' part of each draw is stretched: if images made no difference, this would be the t interval.
    """
    if len(rows) < LEAST_SEEDS or len({row.shape for row in rows}) > 1:
        return None
    values = np.stack(rows)
    seeds, images = values.shape
    # Most images are classified alike by all seeds, so there are few kinds of them.
    kinds, counts = np.unique(values.T, axis=0, return_counts=True)
    # The same runs give the same interval.
    digest = hashlib.sha256(kinds.tobytes() + counts.tobytes()).digest()
    generator = np.random.default_rng(int.from_bytes(digest[:8], "little"))
    picked = generator.multinomial(seeds, np.full(seeds, 1 / seeds), DRAWS) / seeds
    shown = generator.multinomial(images, counts / images, DRAWS) / images
    stretch = math.sqrt(seeds / (seeds - 1)) * stdtrit(seeds - 1, 1 - LEVEL / 2) / ndtri(1 - LEVEL / 2)
    weights = 1 / seeds + stretch * (picked - 1 / seeds)
    drawn = np.einsum("ds,ds->d", weights, shown @ kinds)
    low, high = np.quantile(drawn, [LEVEL / 2, 1 - LEVEL / 2])
    return float(low), float(high)
