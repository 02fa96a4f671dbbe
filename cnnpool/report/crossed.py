"""Intervals and tests that cover seeds and test images: two random effects, crossed.

Other seeds would give other networks, and other test images other predictions. The mean over a table (S, N)
of S seeds and N images has the variance s/S + i/N + r/(S N), where s, i and r are the variances by seed, by
image and of the rest. Var(means of seeds) / S and Var(means of images) / N both include the last part, so
their sum is not too small; its degrees of freedom are Satterthwaite's (1946). The resulting t is the root of
min F' (Clark 1973, "The language-as-fixed-effect fallacy"). With few seeds the estimate of their part may be
too small by chance, so every statement must also hold by the t test over the seeds alone: the wider interval,
the larger p.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from cnnpool.report.runs import Run
from cnnpool.report.statistics import LEVEL, tail
from cnnpool.run_folder.results import unpacked

MEASURE = "test.accuracy"
LEAST_SEEDS = 3
Bits = NDArray[np.bool_]
Values = NDArray[np.float64]


@dataclass(frozen=True)
class Crossed:
    """Error of the mean of a table of seeds, >= 3, and images, >= 2, as an estimate of that over all of them.

    Standard errors from the seeds and their draws, such as training images, and from the test images.
    """

    seeds: int
    images: int
    by_seed: float
    by_image: float

    @property
    def error(self) -> float:
        return math.hypot(self.by_seed, self.by_image)

    @property
    def freedom(self) -> float:
        """Degrees of freedom of ``error``, by Satterthwaite; infinite where it is 0."""
        parts = self.by_seed**4 / (self.seeds - 1) + self.by_image**4 / (self.images - 1)
        return self.error**4 / parts if parts else math.inf

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


def table(runs: Mapping[int, Run]) -> dict[int, Bits]:
    """Seed -> which test images were classified correctly, (images,), for the runs that record it."""
    records = {seed: run.results.correct for seed, run in runs.items()}
    return {seed: unpacked(record) for seed, record in records.items() if record is not None}


def of_choice(own: Mapping[int, Bits]) -> Crossed | None:
    """The error of a choice's accuracy; None from fewer than 3 seeds, or if their images differ."""
    by_image = image_means(own, list(own))
    return None if by_image is None else of_means(np.array([bits.mean() for bits in own.values()]), by_image)


def image_means(own: Mapping[int, Bits], seeds: Sequence[int]) -> Values | None:
    """The share of ``seeds`` that classified each image correctly, (images,); None where it is not known."""
    rows = [own[seed] for seed in seeds if seed in own]
    if len(rows) < len(seeds) or len({row.shape for row in rows}) != 1:
        return None
    means: Values = np.mean(rows, axis=0)
    return means


def of_means(by_seed: Values, by_image: Values) -> Crossed | None:
    """The error of the mean of a table with the row means ``by_seed`` and the column means ``by_image``.

    None from fewer than 3 seeds, or 2 images. For the difference of two choices, paired by seed and by image,
    pass the differences of their means.
    """
    seeds, images = len(by_seed), len(by_image)
    if seeds < LEAST_SEEDS or images < 2:
        return None
    errors = (float(values.std(ddof=1)) / math.sqrt(len(values)) for values in (by_seed, by_image))
    return Crossed(seeds, images, *errors)
