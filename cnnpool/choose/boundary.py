"""Levels of a group-sequential t test: how small a p-value must be after each round of seeds."""

from functools import lru_cache

import numpy as np
from scipy.special import stdtr

FIRST_ROUND = 3
"""Rounds before the first look: a variance of two differences says next to nothing."""
SHAPE = 2.0
"""Exponent of the levels' growth over the rounds: 0 is Pocock's constant level, larger spends it later."""
PATHS = 200_000
CHUNK = 20_000


@lru_cache(maxsize=64)
def levels(rounds: int, level: float) -> tuple[float, ...]:
    """One-sided level at every look, after round ``FIRST_ROUND`` to ``rounds``.

    A paired t test that rejects when p <= level at any look does so with probability ``level`` in all where
    the differences are normal with mean 0, whatever their variance: the t statistics of all looks depend on
    neither, so their joint distribution is simulated once (200,000 paths of a fixed seed, relative standard
    error 3 % at a level of 0.005). The looks' levels grow as (round / rounds)^2; Kim & DeMets 1987
    describe such families.

    Args:
        rounds: the most that will be run, >= 3.
        level: of the whole sequence, 0..1 (both excluded).
    """
    looks = np.arange(FIRST_ROUND, rounds + 1)
    weights = (looks / rounds) ** SHAPE
    smallest = np.concatenate([_smallest_p(chunk, looks, weights) for chunk in range(-(-PATHS // CHUNK))])
    scale = float(np.quantile(smallest, level, method="lower"))
    return tuple(float(scale * weight) for weight in weights)


def _smallest_p(chunk: int, looks: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The least p / weight over the looks, of ``CHUNK`` paths of standard normal differences."""
    drawn = np.random.default_rng([20_261, chunk]).standard_normal((CHUNK, looks[-1]))
    total, squares = drawn.cumsum(1)[:, looks - 1], (drawn**2).cumsum(1)[:, looks - 1]
    mean = total / looks
    variance = (squares - looks * mean**2) / (looks - 1)
    p_values = stdtr(looks - 1, -mean / np.sqrt(variance / looks))
    return np.asarray((p_values / weights).min(1))
