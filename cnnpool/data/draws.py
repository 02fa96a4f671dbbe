"""Random numbers that depend only on the integers they are requested with, and orders drawn from them."""

import hashlib

import numpy as np
import torch
from torch import Tensor

GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2^64 divided by the golden ratio: the step of SplitMix64


def generator(*words: int) -> torch.Generator:
    """A separate generator for e.g. (seed, epoch, step); torch's global generator is not used."""
    return torch.Generator().manual_seed(seed_of(*words))


def seed_of(*words: int) -> int:
    digest = hashlib.sha256(repr(words).encode()).digest()
    return int.from_bytes(digest[:8], "little")


class Draws:
    """Random numbers for the images of a batch: those of each image depend on (seed, epoch, index) alone.

    SplitMix64 (Steele 2014, doi:10.1145/2660193.2660195) with a stream per image. torch and numpy have
    seeded generators, but none that draws for many seeds at once.
    """

    def __init__(self, seed: int, epoch: int, index: Tensor):
        with np.errstate(over="ignore"):
            self._state = _scrambled(
                index.numpy().astype(np.uint64) * GOLDEN + np.uint64(seed_of(seed, epoch))
            )
        self._drawn = 0

    def rand(self, *shape: int) -> Tensor:
        """The next numbers of each image, uniform in [0, 1): (B, *shape) of float64."""
        count = int(np.prod(shape))
        places = np.arange(self._drawn + 1, self._drawn + count + 1, dtype=np.uint64)
        self._drawn += count
        with np.errstate(over="ignore"):
            bits = _scrambled(self._state[:, None] + places * GOLDEN)
        return torch.from_numpy((bits >> np.uint64(11)).astype(np.float64) * 2.0**-53).view(-1, *shape)

    def randint(self, low: int, high: int, *shape: int) -> Tensor:
        """The next integers of each image, uniform in [low, high): (B, *shape) of int64."""
        return (self.rand(*shape) * (high - low)).long() + low


def _scrambled(z: np.ndarray) -> np.ndarray:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)))


def stratified(labels: Tensor, *, seed: int) -> Tensor:
    """A random order, (N,), whose prefixes have each class nearly in proportion.

    The images of a class are evenly spaced in it; small classes of one size enter at the same place, so that
    a prefix that ends before has none of them.
    """
    order = torch.randperm(len(labels), generator=generator(seed))
    shuffled = labels[order]
    by_class = shuffled.argsort(stable=True)
    counts = labels.bincount()
    first = counts.cumsum(0) - counts
    rank = torch.empty_like(labels)
    rank[by_class] = torch.arange(len(labels)) - first[shuffled[by_class]]
    place = (rank.double() + 0.5) / counts[shuffled]
    return order[place.argsort(stable=True)]


def cut(labels: Tensor, share: float, *, seed: int) -> tuple[Tensor, Tensor]:
    """Two sorted parts: (the rest, ``share`` of each class), both with each class of at least two images."""
    taken = []
    for label in labels.unique():
        own = (labels == label).nonzero()[:, 0]
        count = min(max(1, round(share * len(own))), len(own) - 1)
        taken.append(own[torch.randperm(len(own), generator=generator(seed, int(label)))[:count]])
    second = torch.cat(taken).sort().values if taken else labels[:0]
    first = torch.ones(len(labels), dtype=torch.bool)
    first[second] = False
    return first.nonzero()[:, 0], second
