"""The base class of data sets: images in memory, and the options that split and batch them."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, ClassVar

import numpy as np
import torch
from annotated_types import doc
from torch import Tensor

from cnnpool.bounds import Count, CountOrZero, ShareBelowOne
from cnnpool.registry import check_fields

ValSize = Annotated[
    CountOrZero | ShareBelowOne, doc("a whole number of images, or a fraction of them below 1")
]


class DataError(ValueError):
    """Files that are missing, damaged or not what they claim to be; the message names them and the remedy."""


class IncompleteError(DataError):
    """A published file that is missing or damaged, which fetching it again may mend."""


@dataclass(frozen=True, eq=False)
class Split:
    """Images and their classes.

    Args:
        images: uint8, (N, C, H, W), kept in channels_last memory format (the bytes lie as N, H, W, C).
        labels: int64, (N,), each the index of a class.

    Raises:
        ValueError: if types or counts do not fit.
    """

    images: Tensor
    labels: Tensor

    def __post_init__(self) -> None:
        if self.images.ndim != 4 or self.images.dtype != torch.uint8:
            raise ValueError(
                f"images must be uint8 (N, C, H, W), got {self.images.dtype} {tuple(self.images.shape)}"
            )
        if self.labels.dtype != torch.int64 or self.labels.shape != self.images.shape[:1]:
            raise ValueError(
                f"{len(self.images)} images need as many int64 labels, "
                f"got {self.labels.dtype} {tuple(self.labels.shape)}"
            )
        object.__setattr__(self, "images", self.images.contiguous(memory_format=torch.channels_last))

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def pixels(self) -> Tensor:
        """The images as they lie in memory: a contiguous view, (N, H, W, C)."""
        return self.images.permute(0, 2, 3, 1).contiguous()

    def to(self, device: torch.device) -> "Split":
        """The same images and labels on ``device``."""
        return Split(self.images.to(device), self.labels.to(device))

    def take(self, index: Tensor) -> "Split":
        """The images at ``index``, in that order, as a copy."""
        return from_pixels(self.pixels.index_select(0, index), self.labels.index_select(0, index))


def from_pixels(pixels: Tensor | np.ndarray, labels: Tensor | np.ndarray) -> Split:
    """A split from images that lie as (N, H, W, C)."""
    return Split(torch.as_tensor(pixels).permute(0, 3, 1, 2), torch.as_tensor(labels).long())


@dataclass(frozen=True, eq=False)
class Raw:
    """A data set as published: its classes, its training images and its official test images.

    Args:
        classes: their names; a label is an index into them.
        train, test: the images.
        val: validation images, where they are published apart from the training images.
        notes: what a user should know of how the images were read, a sentence each.
        skipped: files that were left out since they cannot be read -> why.
    """

    classes: tuple[str, ...]
    train: Split
    test: Split
    val: Split | None = None
    notes: tuple[str, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def sha256(self) -> str:
        """Identity of the data: a digest of every split's shape, pixels (N, H, W, C) and labels."""
        digest = hashlib.sha256()
        for split in (self.test, self.train, *([self.val] if self.val is not None else [])):
            digest.update(repr(tuple(split.pixels.shape)).encode())
            digest.update(split.pixels.numpy().data)
            digest.update(split.labels.numpy().astype("<i8", copy=False).data)
        return digest.hexdigest()


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where a data set lies and how it is cut and batched; ``read`` brings it into memory.

    A subclass is an entry of ``DATASETS``: its fields are the keys of the data set's YAML. An installed
    package adds its own by an entry point of the group ``cnnpool.datasets``.

    Args:
        root: folder of the data; ``~`` is the home folder.
        download: fetch what is missing.
        batch_size: images per training batch, >= 1.
        eval_batch_size: images per validation or test batch, >= 1.
        val_size: training images put aside for validation: a number of images, or a fraction below 1; 0 for
            none.
        limit: train on at most this many images (stratified, the same for every seed but for what the
            validation cut takes); null for all. The test images and the validation cut stay whole.
        crop: random crop out of the image with this many reflected pixels added on every side (Jordan 2024).
        shift: random translation by up to this many pixels, black where nothing is left: the random crop of
            a zero-padded image (He 2016, who pad by 4).
        flip: mirror left and right with probability 1/2.

    Raises:
        ValueError: if a number is out of range.
    """

    root: str = "data"
    download: bool = True
    batch_size: Count = 128
    eval_batch_size: Count = 512
    val_size: ValSize = 5000
    limit: Count | None = None
    crop: CountOrZero = 0
    shift: CountOrZero = 0
    flip: bool = False

    by_class: ClassVar[bool] = True
    """Whether a run reports the accuracy on each class, which only clutters the tables of well-known data."""

    def __post_init__(self) -> None:
        check_fields(self, "data")

    def read(self) -> Raw:
        """The data set as published.

        Raises:
            DataError: if files are missing, damaged or inconsistent.
        """
        raise NotImplementedError
