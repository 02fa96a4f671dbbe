"""The reasons why training on MNIST is fast: from PyTorch's example to ours, one change after the other."""

import statistics
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import torch

from cnnpool import data
from cnnpool.bench.measure import ratio
from cnnpool.fit import optimizers
from cnnpool.recipe import Recipe
from cnnpool.system.hardware import fast_precision
from scripts.benchmarks.figures import row
from scripts.benchmarks.loops import ExampleNet, as_torchvision_has_it, bare, flat, in_turn, with_torch_pools

NETWORKS = {
    "example": ExampleNet,
    "torch": lambda: with_torch_pools(flat("sprint", pad_ends=False)),
    "compiled": lambda: flat("sprint", pad_ends=False),
}
IMAGES = 12_800
"""That are shown to be timed."""


class Way(NamedTuple):
    """A way to train.

    Args:
        network: the example's, or ours, whose pooling is torch's own or compiled.
        memory: images from memory, not by torchvision's data set and torch's DataLoader.
        fast: channels last, in bfloat16 where the processor has it.
        ours: batches of 256 and Muon, not of 64 and Adadelta.
    """

    network: str
    memory: bool = False
    fast: bool = False
    ours: bool = False


WAYS = {
    "PyTorch's example": Way("example"),
    "its images from memory": Way("example", memory=True),
    "and channels last, bfloat16": Way("example", memory=True, fast=True),
    "and our network": Way("torch", memory=True, fast=True),
    "and our batch and optimiser": Way("torch", memory=True, fast=True, ours=True),
    "and our max pooling": Way("compiled", memory=True, fast=True, ours=True),
}


def rows(root: Path, repeat: int) -> Iterator[dict[str, Any]]:
    """Images per second of every way, beside those of the way before it, by the same bare loop."""
    speeds = {title: (lambda way=way: _speed(way, root)) for title, way in WAYS.items()}
    said = list(in_turn(speeds, repeat).items())
    for (before, slow), (title, fast) in pairwise(said):
        figures = statistics.median(fast), statistics.median(slow), before, ratio(fast, slow)
        yield row(f"images/s: {title}", "1/s", *figures)


def _speed(way: Way, root: Path) -> float:
    torch.manual_seed(0)
    net = NETWORKS[way.network]()
    net.to(memory_format=torch.channels_last if way.fast else torch.contiguous_format)
    size = 256 if way.ours else 64
    batches = _batches(root, size) if way.memory else as_torchvision_has_it(root, size, IMAGES // size)
    recipe = Recipe(optimizer="muon", lr=0.1)
    optimizer = (
        optimizers.build(recipe, net.parameters())
        if way.ours
        else torch.optim.Adadelta(net.parameters(), lr=1.0)
    )
    return bare(net, batches, optimizer, half=way.fast and fast_precision() == "bf16-mixed")


def _batches(root: Path, size: int) -> data.Loader:
    whole = data.build("mnist", root=str(root), batch_size=size, val_size=0, shift=1, limit=IMAGES)
    return whole.train_loader()
