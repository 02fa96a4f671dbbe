"""Random numbers that depend on nothing but the words they are asked for with, and orders drawn from them."""

import hashlib

import torch
from torch import Tensor


def generator(*words: int) -> torch.Generator:
    """A generator of its own for e.g. (seed, epoch, step); torch's global generator is left alone."""
    digest = hashlib.sha256(repr(words).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "little"))


def stratified(labels: Tensor, *, seed: int) -> Tensor:
    """A random order of the images, (N,), in which every prefix holds each class in proportion.

    An image's place is its random rank within its class over the class's size, so that the first n images
    hold n * N_c / N of class c to within about one image.
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
    """The images of a data set in two parts, each sorted: (the rest, ``share`` of each class).

    Of every class with at least two images one or more go into each part, those of a single image stay in
    the first.
    """
    taken = []
    for label in labels.unique():
        own = (labels == label).nonzero()[:, 0]
        count = min(max(1, round(share * len(own))), len(own) - 1)
        taken.append(own[torch.randperm(len(own), generator=generator(seed, int(label)))[:count]])
    second = torch.cat(taken).sort().values if taken else labels[:0]
    first = torch.ones(len(labels), dtype=torch.bool)
    first[second] = False
    return first.nonzero()[:, 0], second
