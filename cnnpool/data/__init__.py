"""Data sets as tensors in memory, and their batches."""

from typing import Any

from cnnpool import registry
from cnnpool.data.base import Raw, Source, Split, from_pixels
from cnnpool.data.dataset import Dataset, assemble, digest, tell
from cnnpool.data.errors import DataError
from cnnpool.data.huggingface import HuggingFace
from cnnpool.data.image_folder import ImageFolder
from cnnpool.data.loader import EpochSampler, ImageDataset, Loader
from cnnpool.data.published import CIFAR10, CIFAR100, MNIST, Digits, FashionMNIST
from cnnpool.data.torchvision import Torchvision

DATASETS: dict[str, type[Source]] = {
    "cifar10": CIFAR10,
    "cifar100": CIFAR100,
    "digits": Digits,
    "fashion_mnist": FashionMNIST,
    "huggingface": HuggingFace,
    "image_folder": ImageFolder,
    "mnist": MNIST,
    "torchvision": Torchvision,
}


def build(name: str, *, seed: int = 0, **options: Any) -> Dataset:
    """Build the data set called ``name`` (a stem of ``conf/data``), cut by ``seed``, and log what it holds.

    A ValueError for an unknown name, option or value; a DataError if files are missing or damaged.
    """
    dataset = assemble(name, registry.construct(DATASETS, "datasets", name, **options), seed=seed)
    tell(dataset)
    return dataset


def identity(name: str, **options: Any) -> str:
    """The ``sha256`` that :func:`build` would give the data set for any seed; raises like it."""
    source = registry.construct(DATASETS, "datasets", name, **options)
    return digest(source.read(), source)


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
    "identity",
]
