"""MNIST, Fashion-MNIST, CIFAR-10 and CIFAR-100 as torchvision downloads and reads them, whole in memory."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from cnnpool.bounds import CountOrZero
from cnnpool.data import obtain
from cnnpool.data.base import Raw, Source, Split, from_pixels
from cnnpool.data.errors import DataError


@dataclass(frozen=True, kw_only=True)
class Published(Source):
    """A data set that torchvision holds in memory; its files lie in ``root`` as torchvision lays them out.

    Published archives that lie there are unpacked if their MD5 sums are right, which needs no network.
    """

    by_class: ClassVar[bool] = False
    title: ClassVar[str]
    """Name of the class in ``torchvision.datasets``."""
    folder: ClassVar[str]
    """Where its files lie, below the root."""
    classes: ClassVar[tuple[str, ...]] = ()
    """Their names; empty for torchvision's."""
    sha256: ClassVar[str | None] = None
    """Of the whole, see ``Raw.sha256``; None if it is not known, or torchvision checks all files."""

    def read(self) -> Raw:
        """The data set, unpacked or downloaded first if files are missing or damaged.

        Raises:
            DataError: if files are missing or damaged and may not be downloaded.
            DownloadError: if they could not be downloaded.
        """
        root = Path(self.root).expanduser()
        return obtain.obtained(
            self.title,
            root,
            root / self.folder,
            partial(self._raw, root),
            partial(self._steps, root),
            download=self.download,
            largest=obtain.LARGEST,
        )

    def _raw(self, root: Path) -> Raw:
        with warnings.catch_warnings():
            # NumPy 2.4 warns of the flags in old pickles of arrays, as CIFAR's files are.
            warnings.simplefilter("ignore", np.exceptions.VisibleDeprecationWarning)
            train, test = (self._construct(root, train=train) for train in (True, False))
        raw = Raw(self.classes or tuple(train.classes), _split(train), _split(test))
        if self.sha256 not in (None, raw.sha256):
            raise DataError(f"its images are not those of {self.title}")
        return raw

    def _steps(self, root: Path) -> list[Callable[[], Any]]:
        """Unpack the archives that are there and whole; let torchvision download the others."""
        from torchvision import datasets

        steps: list[Callable[[], Any]] = []
        for path, md5 in self._archives(root):
            if datasets.utils.check_integrity(path, md5):
                steps.append(partial(datasets.utils.extract_archive, str(path)))
            elif path.exists() and not self.download:
                raise DataError(f"{path} is damaged (its MD5 sum is not as published): {obtain.FETCH}")
        return [*steps, partial(self._construct, root, download=True)] if self.download else steps

    def _archives(self, root: Path) -> list[tuple[Path, str]]:
        """Every archive as published, and its MD5 sum."""
        kind = self._kind()
        if hasattr(kind, "resources"):
            return [(root / self.folder / name, md5) for name, md5 in kind.resources]
        return [(root / kind.filename, kind.tgz_md5)]

    def _construct(self, root: Path, **options: bool) -> Any:
        return self._kind()(root, **options)

    def _kind(self) -> Any:
        from torchvision import datasets

        return getattr(datasets, self.title)


def _split(part: Any) -> Split:
    pixels = torch.as_tensor(part.data)
    # Grey images come without an axis of channels.
    return from_pixels(pixels if pixels.ndim == 4 else pixels[..., None], torch.as_tensor(part.targets))


@dataclass(frozen=True, kw_only=True)
class MNIST(Published):
    """Handwritten digits, 60,000 and 10,000 grey images of 28x28 (LeCun 1998)."""

    title: ClassVar[str] = "MNIST"
    folder: ClassVar[str] = "MNIST/raw"
    classes: ClassVar[tuple[str, ...]] = tuple("0123456789")
    # torchvision checks the packed files only.
    sha256: ClassVar[str | None] = "1d5a506bc00bbf716fd224d8d2716b27d1fa803e112a9d0ba956e7169da03d72"


@dataclass(frozen=True, kw_only=True)
class FashionMNIST(Published):
    """Pieces of clothing, 60,000 and 10,000 grey images of 28x28 (Xiao 2017, arXiv:1708.07747)."""

    title: ClassVar[str] = "FashionMNIST"
    folder: ClassVar[str] = "FashionMNIST/raw"
    classes: ClassVar[tuple[str, ...]] = (
        *("t_shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag"),
        "ankle_boot",
    )


@dataclass(frozen=True, kw_only=True)
class CIFAR10(Published):
    """Photographs of ten kinds of things, 50,000 and 10,000 colour images of 32x32 (Krizhevsky 2009)."""

    crop: CountOrZero = 4
    flip: bool = True

    title: ClassVar[str] = "CIFAR10"
    folder: ClassVar[str] = "cifar-10-batches-py"


@dataclass(frozen=True, kw_only=True)
class CIFAR100(CIFAR10):
    """Photographs of a hundred kinds of things (the fine labels), 50,000 and 10,000 (Krizhevsky 2009)."""

    title: ClassVar[str] = "CIFAR100"
    folder: ClassVar[str] = "cifar-100-python"
