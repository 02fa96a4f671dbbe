"""Training loops to compare ours with: bare PyTorch, and data as torchvision hands it out."""

import time
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def bare(model: nn.Module, batches: Iterable, optimizer: torch.optim.Optimizer, *, half: bool) -> float:
    """Images per second of the least loop that trains: batch, logits, loss, backward, step.

    Args:
        half: autocast to bfloat16.
    """
    model.train()
    count, start = 0, time.perf_counter()
    for images, labels in batches:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            loss = F.cross_entropy(model(images), labels, label_smoothing=0.1)
        loss.backward()
        optimizer.step()
        count += len(labels)
    return count / (time.perf_counter() - start)


def as_torchvision_has_it(root: Path, batch_size: int, steps: int) -> Iterator[tuple[Tensor, Tensor]]:
    """``steps`` batches of MNIST: torchvision's data set, ToTensor and Normalize, torch's DataLoader."""
    # In this process: on two cores, worker processes are slower still.
    images = mnist(root, train=True)
    loader = torch.utils.data.DataLoader(images, batch_size=batch_size, shuffle=True, drop_last=True)
    return islice(iter(loader), steps)


def mnist(root: Path, *, train: bool) -> torch.utils.data.Dataset:
    """MNIST by torchvision, as its examples have it; what lies in ``root`` packed only is unpacked there."""
    from torchvision import datasets, transforms

    transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.1307,), (0.3081,))])
    return datasets.MNIST(str(root), train=train, download=True, transform=transform)
