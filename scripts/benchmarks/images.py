"""The suite of image folders: ours beside torchvision's ImageFolder and torch's DataLoader, in turn."""

import io
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.nn import functional as F

from cnnpool import data
from scripts.benchmarks.figures import Wanted, in_turn, row

PHOTO = (375, 500)
"""(H, W) of ImageNet's most common photographs."""
DISTINCT = 32


@dataclass(frozen=True)
class Case:
    """A network, and the images that it gets: ``size`` pixels, cut out anywhere of ``resize``."""

    title: str
    arch: str
    """Of torchvision; empty for a linear layer on the mean colour, which never keeps images waiting."""
    size: int = 224
    resize: int = 256
    batch_size: int = 32
    second: float = 1
    """The least ratio that is wanted in the second epoch; in the first it is 1."""


CASES = (Case("no network to speak of", "", second=2), Case("mobilenet_v3_small", "mobilenet_v3_small"))


class Measured(NamedTuple):
    """Images per second of two epochs, the first from the first look at the folder on.

    ``waiting`` is the share of the second in which the network waited for images, 0..1.
    """

    first: float
    second: float
    waiting: float


def rows(images: int, repeat: int) -> Iterator[dict[str, Any]]:
    """Every row of the suite, for so many photographs, at least a batch."""
    logging.disable(logging.INFO)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write_photos(root, images, 2, [photo(seed) for seed in range(DISTINCT)])
        for case in CASES:
            calls: dict[str, Callable[[], Measured]] = {
                "memory": partial(two_epochs, case, partial(ours, case, root, stream=False)),
                "disk": partial(two_epochs, case, partial(ours, case, root, stream=True)),
                "rival": partial(two_epochs, case, partial(torchvisions, case, root)),
            }
            yield from _rows(case, in_turn(calls, repeat))


def _rows(case: Case, found: dict[str, list[Measured]]) -> Iterator[dict[str, Any]]:
    rival = found.pop("rival")
    kinds = {
        "first": ("first epoch, images/s", "1/s", Wanted(1)),
        "second": ("second epoch, images/s", "1/s", Wanted(case.second)),
        "waiting": ("share of waiting", "", None),
    }
    for place, measured in found.items():
        for key, (title, unit, wanted) in kinds.items():
            figures = ([getattr(one, key) for one in turns] for turns in (measured, rival))
            title = f"{case.title}, {title}: from {place}"
            yield row(title, unit, *figures, "ImageFolder and DataLoader", wanted)


def write_photos(root: Path, train: int, test: int, photos: Sequence[bytes], classes: int = 2) -> None:
    """Files of ``train/`` and ``test/``: ``photos``, and further names of them, decoded like files."""
    for part, files in (("train", train), ("test", test)):
        distinct = []
        for i in range(files):
            path = root / part / f"class{i % classes}" / f"{i}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            if i < len(photos):
                path.write_bytes(photos[i])
                distinct.append(path)
            else:
                path.hardlink_to(distinct[i % len(photos)])


def photo(seed: int, size: tuple[int, int] = PHOTO, scales: Sequence[int] = (4, 16, 64, 256)) -> bytes:
    """A JPEG file with structure at ``scales``, by default at each as photographs have it: about 90 kB."""
    generator = np.random.default_rng(seed)
    height, width = size
    pixels = np.zeros((height, width, 3))
    for side in scales:
        noise = Image.fromarray(generator.integers(0, 256, (side, side, 3), dtype=np.uint8))
        pixels += np.asarray(noise.resize((width, height), Image.Resampling.BICUBIC), float) / side**0.5
    pixels -= pixels.min()
    file = io.BytesIO()
    Image.fromarray((255 * pixels / pixels.max()).astype(np.uint8)).save(file, "JPEG", quality=90)
    return file.getvalue()


def ours(case: Case, root: Path, *, stream: bool) -> Callable[[int], Iterable]:
    """Batches of an epoch, by its number, of a folder whose images were not decoded before."""
    shutil.rmtree(root / ".cnnpool-cache", ignore_errors=True)
    images = {"root": str(root), "size": case.size, "resize": case.resize, "flip": True, "val_size": 0}
    dataset = data.build("image_folder", batch_size=case.batch_size, stream=stream, **images)
    batches = dataset.train_loader()

    def epoch(number: int) -> Iterable:
        batches.sampler.set_epoch(number)
        return batches

    return epoch


def torchvisions(case: Case, root: Path) -> Callable[[int], Iterable]:
    """The same as torchvision's and torch's documentation do it: a worker process for each core."""
    from torchvision import datasets, transforms

    transform = transforms.Compose(
        [
            transforms.Resize(case.resize),
            transforms.CenterCrop(case.resize),
            transforms.RandomCrop(case.size),
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
            transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
        ]
    )
    files, workers = datasets.ImageFolder(str(root / "train"), transform), os.cpu_count() or 1
    loader = torch.utils.data.DataLoader(
        files, case.batch_size, True, drop_last=True, num_workers=workers, persistent_workers=True
    )
    return lambda number: loader


def two_epochs(case: Case, begin: Callable[[], Callable[[int], Iterable]]) -> Measured:
    """Train on what ``begin`` reads, and take the times."""
    network = _network(case)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
    start = time.perf_counter()
    epoch = begin()
    count, _ = trained(network, optimizer, epoch(0))
    first = count / (time.perf_counter() - start)
    start = time.perf_counter()
    count, waited = trained(network, optimizer, epoch(1))
    seconds = time.perf_counter() - start
    return Measured(first, count / seconds, waited / seconds)


def trained(network: nn.Module, optimizer: torch.optim.Optimizer, batches: Iterable) -> tuple[int, float]:
    """Train for an epoch: the images, and the seconds in which none were at hand."""
    count, waited = 0, 0.0
    source = iter(batches)
    while True:
        asked = time.perf_counter()
        batch = next(source, None)
        waited += time.perf_counter() - asked
        if batch is None:
            return count, waited
        images, labels = batch
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(network(images.to(memory_format=torch.channels_last)), labels).backward()
        optimizer.step()
        count += len(labels)


def _network(case: Case) -> nn.Module:
    from torchvision import models

    torch.manual_seed(0)
    if not case.arch:
        return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2)).train()
    network: nn.Module = models.get_model(case.arch, weights=None, num_classes=2)
    return network.to(memory_format=torch.channels_last).train()
