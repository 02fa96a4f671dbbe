"""From a published data set to the data of a run: validation cut, statistics, batches, summary, warnings."""

import hashlib
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import torch

from cnnpool import tables
from cnnpool.data.augment import CHANGES, augment, mix
from cnnpool.data.base import Raw, Source, Split
from cnnpool.data.draws import seed_of, stratified
from cnnpool.data.errors import DataError
from cnnpool.data.image_source import ImageSource
from cnnpool.data.loader import EpochSampler, ImageDataset, Loader
from cnnpool.data.rows import copies

_log = logging.getLogger(__name__)

LIMIT = 1  # Distinguishes the draw of ``limit`` from that of the validation cut
EVAL_IMAGES, EVAL_SIDE = 512, 64
"""Images of a validation or test batch up to this side; larger images fill as many pixels."""
STRONG = 5  # Ratio of the largest to the smallest class from which on there is a warning
LONGEST = 16  # Most classes listed, the largest ones
_described: set[tuple[str, tuple[str, ...]]] = set()  # Those logged by this process


@dataclass(frozen=True, eq=False)
class Dataset:
    """The images of a run: ``train`` after the validation cut and ``limit``, ``val``, ``test`` as published.

    ``mean`` and ``std`` are per channel over ``train``, where white is 1. ``sha256`` identifies the published
    data, and ``limit`` if it takes effect, whatever the ``seed`` of the cut and the batches.
    """

    name: str
    classes: tuple[str, ...]
    train: Split
    val: Split
    test: Split
    mean: tuple[float, ...]
    std: tuple[float, ...]
    sha256: str
    seed: int
    source: Source
    notes: tuple[str, ...]
    skipped: Mapping[str, str]
    white: int | None = None

    @property
    def num_classes(self) -> int:
        return len(self.classes)

    @property
    def counts(self) -> dict[str, list[int]]:
        splits = {"train": self.train, "val": self.val, "test": self.test}
        return {
            name: split.labels.bincount(minlength=self.num_classes).tolist() for name, split in splits.items()
        }

    @property
    def in_channels(self) -> int:
        return self.test.shape[0]

    @property
    def size(self) -> tuple[int, int]:
        """(H, W) of every image as the network receives it."""
        return self.source.part or self.test.shape[1:]

    def train_loader(
        self, *, shard: tuple[int, int] | None = (0, 1), parts: int = 1, channels_last: bool = True
    ) -> Loader:
        """Shuffled and augmented batches; drops an incomplete last batch unless it is the only one.

        The process ``shard``, (rank, world), takes its share of each batch, in ``parts`` parts. A ValueError
        if there would be no batch, a batch cannot be divided, or an image is too small.
        """
        source, world = self.source, shard[1] if shard else 1
        if source.batch_size % (world * parts):
            raise ValueError(
                f"data.batch_size={source.batch_size} must be a multiple of fit.devices x fit.accumulate, "
                f"here {world} x {parts}"
            )
        batch_size, own = source.batch_size // world, len(self.train) // world
        if own < batch_size:
            # The only batch: all images, in equal parts.
            batch_size = own // parts * parts
        if not batch_size:
            raise ValueError(
                f"{len(self.train)} training images are too few for {world} x {parts} micro-batches"
            )
        images = self._images(self.train, channels_last)
        changes, most = {name: getattr(source, name) for name in CHANGES}, min(self.size)
        for key in ("crop", "shift"):
            if changes[key] >= most:
                raise ValueError(f"data.{key} must be at least 0 and less than {most}, got {changes[key]}")
        if any(changes.values()) or self.size != self.train.shape[1:]:
            images.augment = partial(augment, size=self.size, **changes)
        if source.mixup or source.cutmix:
            images.mix = partial(mix, num_classes=self.num_classes, mixup=source.mixup, cutmix=source.cutmix)
        order = EpochSampler(len(self.train), seed=self.seed, shuffle=True, shard=shard, multiple=batch_size)
        return Loader(images, sampler=order, batch_size=batch_size // parts)

    def plain_loader(
        self,
        split: Split,
        *,
        shard: tuple[int, int] | None = (0, 1),
        channels_last: bool = True,
        batch_size: int | None = None,
    ) -> Loader:
        """Every image of ``split`` once, in order, normalised but not augmented."""
        height, width = self.size
        fits = max(1, min(EVAL_IMAGES, EVAL_IMAGES * EVAL_SIDE**2 // (height * width)))
        size = batch_size or self.source.eval_batch_size or fits
        images = self._images(split, channels_last)
        return Loader(images, sampler=EpochSampler(len(split), shard=shard), batch_size=size)

    def _images(self, split: Split, channels_last: bool) -> ImageDataset:
        return ImageDataset(
            split, mean=self.mean, std=self.std, seed=self.seed, size=self.size, channels_last=channels_last
        )


def assemble(
    name: str,
    source: Source,
    *,
    seed: int,
    samples: int | None = None,
    alike: Mapping[str, Any] = MappingProxyType({}),
) -> Dataset:
    """Read ``source`` and split it: validation by ``seed`` unless published, then ``limit`` apart."""
    if samples is not None and isinstance(source, ImageSource):
        source = replace(source, val_size=0, limit=None)
    raw = source.read(samples, **alike) if isinstance(source, ImageSource) else source.read()
    _check(name, raw, source)
    labels = raw.train.labels
    val_size = _cut_size(raw, source)
    order = stratified(labels, seed=seed)
    # Sorted, so that the order within a split does not depend on the seed.
    val, rest = order[:val_size].sort().values, order[val_size:].sort().values
    if source.limit is not None and source.limit < len(rest):
        # A separate order: that of the validation cut has moved its images to the front.
        drawn = seed if source.limit_seed is None else source.limit_seed
        mixed = stratified(labels, seed=seed_of(drawn, LIMIT))
        rest = mixed[torch.isin(mixed, rest)][: source.limit].sort().values
    train = raw.train.take(rest)
    mean, std = statistics(train)
    if min(std) == 0:
        raise DataError(f"{name}: channel {std.index(0)} is the same in every pixel of every training image")
    return Dataset(
        name,
        raw.classes,
        train,
        raw.val if raw.val is not None and source.val_size else raw.train.take(val),
        raw.test,
        mean,
        std,
        digest(raw, source),
        seed,
        source,
        raw.notes,
        raw.skipped,
        raw.white,
    )


def digest(raw: Raw, source: Source) -> str:
    """Identity of the images that runs of ``source`` use: the data's, and ``limit`` where it takes effect."""
    if source.limit is None or source.limit >= len(raw.train) - _cut_size(raw, source):
        return raw.sha256
    text = f"{raw.sha256} limit={source.limit} limit_seed={source.limit_seed}"
    return hashlib.sha256(text.encode()).hexdigest()


def statistics(split: Split) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and population standard deviation of each channel, white being 1, from exact sums below 2^53."""
    count = len(split) * split.shape[1] * split.shape[2]
    moments = [[int(value) for value in row] for row in split.rows.sums().tolist()]
    mean = tuple(first / count / 255 for first in moments[0])
    variance = [(count * second - first**2) / count**2 for first, second in zip(*moments, strict=True)]
    return mean, tuple(v**0.5 / 255 for v in variance)


def _cut_size(raw: Raw, source: Source) -> int:
    val_size, total = source.val_size, len(raw.train)
    if raw.val is not None:
        return 0
    size = round(val_size * total) if isinstance(val_size, float) else val_size
    if val_size and not 0 < size < total:
        raise ValueError(
            f"data.val_size={val_size} of {total} training images leaves none to train or to validate on"
        )
    return size


def _check(name: str, raw: Raw, source: Source) -> None:
    if len(raw.classes) < 2:
        raise DataError(
            f"{name} has only the class {', '.join(raw.classes)}: at least two classes are needed"
        )
    for part, split in raw.splits.items():
        if not len(split):
            raise DataError(f"{name} has no {part} images")
        low, high = split.labels.aminmax()
        if low < 0 or high >= len(raw.classes):
            raise DataError(f"{name}: {part} labels go from {low} to {high}, not 0 to {len(raw.classes) - 1}")
        if raw.train.shape != split.shape:
            raise DataError(f"{name}: train images are {raw.train.shape}, {part} images {split.shape}")
    channels = raw.train.shape[0]
    for key in ("auto_augment", "color_jitter"):
        if (value := getattr(source, key)) and channels not in (1, 3):
            reason = f"changes images of 1 or 3 channels, and these have {channels}: leave it out"
            raise ValueError(f"data.{key}={value} {reason}")


def tell(dataset: Dataset) -> None:
    """Log ``lines`` and ``warnings``; for a data set logged before, only the first line."""
    first, *rest = lines(dataset)
    key = (dataset.sha256, dataset.notes)
    for line in [first] if key in _described else [first, *rest]:
        _log.info("%s", line)
    _described.add(key)
    for line in warnings(dataset):
        _log.warning("%s", line)


def lines(dataset: Dataset) -> Iterator[str]:
    """Images of each split, and how many an epoch sees; if there are notes, these and each class."""
    train, val, test = (len(split) for split in (dataset.train, dataset.val, dataset.test))
    height, width = dataset.size
    size = dataset.source.batch_size
    seen = train // size * size or train
    of = f" ({seen} an epoch, in batches of {size})" if seen < train else ""
    yield f"{dataset.name}: {train} training{of}, {val} validation, {test} test images of {height}x{width}"
    if dataset.notes:
        yield from (f"  {note}" for note in dataset.notes)
        yield from (f"  {line}" for line in tables.text(_table(dataset)).splitlines())


def warnings(dataset: Dataset) -> Iterator[str]:
    """Sentences on missing or much larger classes, and on duplicated images."""
    names, counts = [tables.printable(name) for name in dataset.classes], dataset.counts
    for part, sizes in counts.items():
        missing = [name for name, size in zip(names, sizes, strict=True) if not size]
        if sum(sizes) and missing:
            yield f"{dataset.name}: no {part} image of {', '.join(missing)}"
    train = counts["train"]
    least, most = min(train), max(train)
    if least and most > STRONG * least:
        yield (
            f"{dataset.name}: the classes are unbalanced, {most:,} training images of "
            f"{names[train.index(most)]} but {least:,} of {names[train.index(least)]}: the test gives "
            "the balanced accuracy, and that of each class, too"
        )
    if count := copies(dataset.test.rows, dataset.train.rows):
        yield (
            f"{dataset.name}: {count:,} of the {len(dataset.test):,} test images are also training images, "
            "so the test says less about new images: remove them from one of the two"
        )


def _table(dataset: Dataset) -> list[tables.Column]:
    counts = dataset.counts
    order = sorted(range(dataset.num_classes), key=lambda place: (-counts["train"][place], place))
    places = order[:LONGEST]
    more = [] if len(order) <= LONGEST else [f"and {len(order) - LONGEST} more"]
    columns = [tables.Column("class", [dataset.classes[place] for place in places] + more, words=True)]
    for part, sizes in counts.items():
        columns.append(tables.Column(part, [f"{sizes[place]:,}" for place in places] + [""] * len(more)))
    return columns
