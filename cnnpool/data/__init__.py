"""Data sets as tensors in memory, and their batches."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from cnnpool import registry
from cnnpool.data.base import Raw, Source, Split, from_pixels
from cnnpool.data.dataset import Dataset, assemble, digest, tell
from cnnpool.data.errors import DataError
from cnnpool.data.huggingface import HuggingFace
from cnnpool.data.image_folder import ImageFolder
from cnnpool.data.image_table import ImageTable
from cnnpool.data.loader import EpochSampler, ImageDataset, Loader
from cnnpool.data.published import CIFAR10, CIFAR100, MNIST, Digits, FashionMNIST
from cnnpool.data.torchvision import Torchvision

Images = tuple[Tensor, Tensor]
DATASETS: dict[str, type[Source]] = {
    "cifar10": CIFAR10,
    "cifar100": CIFAR100,
    "digits": Digits,
    "fashion_mnist": FashionMNIST,
    "huggingface": HuggingFace,
    "image_folder": ImageFolder,
    "image_table": ImageTable,
    "mnist": MNIST,
    "torchvision": Torchvision,
}


def build(
    name: str,
    *,
    seed: int = 0,
    samples: int | None = None,
    alike: Mapping[str, Any] = MappingProxyType({}),
    **options: Any,
) -> Dataset:
    """Build the data set called ``name``, cut by ``seed``, and log what it holds.

    With ``samples``, of files listed by class no more training and test images are decoded; ``alike`` are
    ``size`` and ``white`` of a model's images.

    A ValueError for an unknown name, option or value; a DataError if files are missing or damaged.
    """
    source = registry.construct(DATASETS, "datasets", name, **options)
    dataset = assemble(name, source, seed=seed, samples=samples, alike=alike)
    tell(dataset)
    return dataset


def identity(name: str, **options: Any) -> str:
    """The ``sha256`` that :func:`build` would give the data set for any seed; raises like it."""
    source = registry.construct(DATASETS, "datasets", name, **options)
    return digest(source.read(), source)


def from_tensors(
    train: Images, test: Images, val: Images | None = None, *, classes: Sequence[str] = ()
) -> type[Source]:
    """A data set of a script's own images, for ``cnnpool.train(data=...)`` and ``cnnpool.datamodule``.

    Args:
        train, test, val: images, uint8 (N, C, H, W), and their classes, integers (N,); without ``val`` the
            option ``val_size`` cuts a tenth off the training images.
        classes: names of the classes; by default their numbers.

    Raises:
        ValueError: if there are none, they are not uint8 (N, C, H, W), or labels do not fit them.
    """
    parts = {"train": train, "test": test} | ({"val": val} if val else {})
    splits: dict[str, Any] = {name: _split(name, *part) for name, part in parts.items()}
    names = tuple(classes) or tuple(map(str, range(int(train[1].max()) + 1)))

    class Tensors(Source):
        def read(self) -> Raw:
            return Raw(names, **splits)

    return Tensors


def _split(name: str, images: Any, labels: Any) -> Split:
    """A copy of the images and classes: a script may go on to change its tensors."""
    if not (isinstance(images, Tensor) and isinstance(labels, Tensor)):
        kinds = f"{type(images).__name__} and {type(labels).__name__}"
        raise ValueError(f"{name} must be two tensors, got {kinds}: convert them by torch.as_tensor")
    if labels.is_floating_point() or labels.is_complex():
        raise ValueError(f"{name}: the classes must be integers, got {labels.dtype}: convert them by long()")
    if not len(images):
        raise ValueError(f"{name} has no images: give at least one")
    own = images.clone(memory_format=torch.channels_last) if images.ndim == 4 else images
    return Split(own, labels.to(torch.int64, copy=True))


__all__ = [
    "DATASETS",
    "DataError",
    "Dataset",
    "EpochSampler",
    "ImageDataset",
    "Loader",
    "Raw",
    "Source",
    "Split",
    "build",
    "from_pixels",
    "from_tensors",
    "identity",
]
