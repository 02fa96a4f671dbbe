"""The rivals of training: bare PyTorch, and data as torchvision hands it out."""

import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cnnpool import model, pool, readout
from cnnpool.pool import MaxPool2d

T = TypeVar("T")


def in_turn(speeds: dict[str, Callable[[], T]], repeat: int) -> dict[str, list[T]]:
    """The values of each of ``speeds``, ``repeat`` times, one after the other and back again."""
    said: dict[str, list[T]] = {name: [] for name in speeds}
    for turn in range(-1, repeat):
        for name in list(speeds)[:: 1 if turn % 2 else -1]:
            speed = speeds[name]()
            # The first turn warms up: it compiles kernels, reads files and grows the heap.
            if turn >= 0:
                said[name].append(speed)
    return said


def bare(network: nn.Module, batches: Iterable, optimizer: torch.optim.Optimizer, *, half: bool) -> float:
    """Images per second of the least loop that trains: batch, logits, loss, backward, step.

    Args:
        half: autocast to bfloat16.
    """
    network.train()
    count, start = 0, time.perf_counter()
    for images, labels in batches:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            loss = F.cross_entropy(network(images), labels, label_smoothing=0.1)
        loss.backward()
        optimizer.step()
        count += len(labels)
    return count / (time.perf_counter() - start)


def as_torchvision_has_it(root: Path, batch_size: int, steps: int) -> Iterator[tuple[Tensor, Tensor]]:
    """``steps`` batches of MNIST: torchvision's data set, ToTensor and Normalize, torch's DataLoader."""
    # Loaded in this process: on two cores, worker processes are slower.
    images = mnist(root)
    loader = torch.utils.data.DataLoader(images, batch_size=batch_size, shuffle=True, drop_last=True)
    return islice(iter(loader), steps)


def mnist(root: Path) -> torch.utils.data.Dataset:
    """MNIST by torchvision, as its examples use it; archives in ``root`` are unpacked there."""
    from torchvision import datasets, transforms

    transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.1307,), (0.3081,))])
    return datasets.MNIST(str(root), train=True, download=True, transform=transform)


def flat(name: str, operator: str = "max", **options: Any) -> model.Cnn:
    """A network of ours for MNIST, with an operator of ours and one linear layer after it."""
    return model.build(
        name,
        1,
        (28, 28),
        10,
        pool=lambda stage, channels: pool.build(operator, channels),
        readout=lambda channels, size: readout.build("flatten", channels, size, hidden=0),
        **options,
    )


def with_torch_pools(network: model.Cnn) -> model.Cnn:
    """The same network with torch's own pooling."""
    for place, layer in enumerate(network.features):
        if isinstance(layer, MaxPool2d):
            network.features[place] = nn.MaxPool2d(2)
    return network
