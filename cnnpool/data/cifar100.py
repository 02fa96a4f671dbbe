"""CIFAR-100, in CIFAR-10's file format."""

from dataclasses import dataclass
from typing import ClassVar

from cnnpool.data.cifar10 import CIFAR10


@dataclass(frozen=True, kw_only=True)
class CIFAR100(CIFAR10):
    """Photographs of a hundred kinds of things (the fine labels), 50,000 and 10,000 (Krizhevsky 2009).

    Reads ``<root>/cifar-100-python``, as CIFAR-10 does.
    """

    title: ClassVar[str] = "CIFAR100"
    archive: ClassVar[str] = "cifar-100-python.tar.gz"
    archive_md5: ClassVar[str] = "eb9058c3a382ffc7106e4002c42a8d85"
    folder: ClassVar[str] = "cifar-100-python"
    labels: ClassVar[str] = "fine_labels"
    names: ClassVar[str] = "fine_label_names"
    train: ClassVar[dict[str, str]] = {"train": "16019d7e3df5f24257cddd939b257f8d"}
    test: ClassVar[dict[str, str]] = {"test": "f0ef6b0ae62326f3e7ffdfab6717acfc"}
    meta: ClassVar[dict[str, str]] = {"meta": "7973b15100ade9c7d40fb424638fde48"}
