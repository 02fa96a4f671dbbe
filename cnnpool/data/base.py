"""The base class of data sets: images with their classes, and options for splitting and batching."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, ClassVar

import numpy as np
import torch
from annotated_types import Gt, Le, doc
from torch import Tensor

from cnnpool.bounds import AtLeastZero, Count, CountOrZero, Seed, Share, ShareBelowOne
from cnnpool.data.auto_augment import Policy
from cnnpool.data.rows import InMemory, Rows
from cnnpool.registry import check_fields

ValSize = Annotated[
    CountOrZero | ShareBelowOne, doc("a whole number of images, or a fraction of them below 1")
]
PositiveShare = Annotated[float, Gt(0), Le(1)]


class Split:
    """Images, uint8 (N, C, H, W) in channels_last or rows to read them from, and classes, int64 (N,)."""

    def __init__(self, images: Tensor | Rows, labels: Tensor):
        if isinstance(images, Rows):
            rows = images
        elif images.ndim != 4 or images.dtype != torch.uint8:
            raise ValueError(f"images must be uint8 (N, C, H, W), got {images.dtype} {tuple(images.shape)}")
        else:
            rows = InMemory(images.permute(0, 2, 3, 1).contiguous())
        if labels.dtype != torch.int64 or labels.shape != (len(rows),):
            raise ValueError(
                f"{len(rows)} images need as many int64 labels, got {labels.dtype} {tuple(labels.shape)}"
            )
        self.rows, self.labels = rows, labels

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(C, H, W) of every image."""
        height, width, channels = self.rows.shape
        return channels, height, width

    @property
    def images(self) -> Tensor:
        """All images, (N, C, H, W); reads those that are not in memory."""
        return self.pixels.permute(0, 3, 1, 2)

    @property
    def pixels(self) -> Tensor:
        """All images as stored, (N, H, W, C), contiguous."""
        return self.rows.whole()

    def to(self, device: torch.device) -> "Split":
        return Split(InMemory(self.pixels.to(device)), self.labels.to(device))

    def take(self, index: Tensor) -> "Split":
        """The images at ``index``, in that order; a copy if they are in memory."""
        return Split(self.rows.take(index), self.labels.index_select(0, index))


def from_pixels(pixels: Tensor | np.ndarray, labels: Tensor | np.ndarray) -> Split:
    return Split(torch.as_tensor(pixels).permute(0, 3, 1, 2), torch.as_tensor(labels).long())


@dataclass(frozen=True, eq=False)
class Raw:
    """A data set as published; labels are indices of ``classes``, ``val`` is None unless published apart.

    ``notes`` are sentences on how the images were read, ``skipped`` unreadable files -> reason,
    ``known_sha256`` the identity if that is known without reading all pixels, ``white`` the value that
    became 255 in grey images of more than 8 bits, and ``stamps`` those of the files, as pixels are stored.
    """

    classes: tuple[str, ...]
    train: Split
    test: Split
    val: Split | None = None
    notes: tuple[str, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)
    known_sha256: str | None = None
    white: int | None = None
    stamps: bytes = b""

    @property
    def splits(self) -> dict[str, Split]:
        """Part -> its images, in the order of the digest."""
        splits = {"test": self.test, "train": self.train}
        return splits | ({"val": self.val} if self.val is not None else {})

    @property
    def in_memory(self) -> bool:
        return all(split.rows.in_memory for split in self.splits.values())

    @cached_property
    def sha256(self) -> str:
        """Identity of the data: a digest of every split's shape, pixels (N, H, W, C) and labels."""
        if self.known_sha256 is not None:
            return self.known_sha256
        digest = hashlib.sha256()
        for split in self.splits.values():
            digest.update(repr((len(split), *split.rows.shape)).encode())
            for chunk in split.rows.chunks():
                digest.update(chunk.numpy().data)
            digest.update(split.labels.numpy().astype("<i8", copy=False).data)
        return digest.hexdigest()


@dataclass(frozen=True, kw_only=True)
class Source:
    """Location of a data set, and how it is split and batched; the fields are the keys of its YAML.

    Args:
        root: folder of the data; ``~`` is the home folder.
        download: download missing files.
        batch_size: images per training batch, >= 1; an epoch leaves out a last batch that is not full, other
            images each time, unless it is the only one.
        eval_batch_size: images per validation or test batch, >= 1; null for 512, or for fewer larger images
            with at most the pixels of 512 images of 64 x 64 (41 at 224 x 224).
        val_size: training images held out for validation: a number of images, or a fraction below 1; 0 for
            none.
        limit: train on at most this many images, nearly in proportion to the classes and drawn anew for every
            seed; null for all. The test images and the validation cut are not reduced.
        limit_seed: draws the images of ``limit`` instead of the run's seed, so that all seeds train on the
            same images, except those in their validation cut; null for the run's seed.
        crop: random crop out of the image with this many reflected pixels added on every side (Jordan 2024).
        shift: random translation by up to this many pixels, filled with black: the random crop of
            a zero-padded image (He 2016, who pad by 4).
        flip: mirror left and right with probability 1/2.
        random_resized_crop: [smallest, largest] share of the area of a random crop that is resized to the
            full size (Szegedy 2015); null for none.
        auto_augment: RandAugment or TrivialAugment with torchvision's defaults; null for none.
        color_jitter: largest relative change of brightness, contrast and saturation; 0 for none.
        mixup: alpha of Mixup (Zhang 2018), which blends the images of a batch and their labels; 0 for none.
        cutmix: alpha of CutMix (Yun 2019), which pastes a rectangle of another image; 0 for none. With
            ``mixup``, each batch is mixed by one of them.
    """

    root: str = "data"
    download: bool = True
    batch_size: Count = 128
    eval_batch_size: Count | None = None
    val_size: ValSize = 0.1
    limit: Count | None = None
    limit_seed: Seed | None = None
    crop: CountOrZero = 0
    shift: CountOrZero = 0
    flip: bool = False
    random_resized_crop: tuple[PositiveShare, PositiveShare] | None = None
    auto_augment: Policy | None = None
    color_jitter: Share = 0.0
    mixup: AtLeastZero = 0.0
    cutmix: AtLeastZero = 0.0

    @property
    def part(self) -> tuple[int, int] | None:
        """(H, W) of the crop that a network sees; None for the whole image."""
        return None

    checks_options: ClassVar[bool] = True  # In its constructor
    by_class: ClassVar[bool] = True  # Whether a run reports accuracy by class, which clutters tables

    def __post_init__(self) -> None:
        check_fields(self, "data")
        scale = self.random_resized_crop
        if scale is not None and scale[0] > scale[1]:
            raise ValueError(
                f"data.random_resized_crop must be [smallest, largest] share of the area, got {list(scale)}"
            )

    def read(self) -> Raw:
        """The data set as published; a DataError if files are missing, damaged or inconsistent."""
        raise NotImplementedError
