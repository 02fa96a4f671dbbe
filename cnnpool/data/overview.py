"""A summary of a data set at the start of a run, and warnings about its accuracy."""

import logging
from collections.abc import Iterator

from cnnpool import tables
from cnnpool.data.dataset import Dataset
from cnnpool.data.rows import copies

_log = logging.getLogger(__name__)

LEFT_OUT = 0.1  # Share of the training images left out of an epoch's batches that is reported
STRONG = 5  # Ratio of the largest to the smallest class from which on there is a warning
LONGEST = 16  # Most classes listed, the largest ones
_described: set[tuple[str, tuple[str, ...]]] = set()  # Those logged by this process


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
    """Images of each split, and how many the batches leave out; if there are notes, these and each class."""
    train, val, test = (len(split) for split in (dataset.train, dataset.val, dataset.test))
    height, width = dataset.size
    yield f"{dataset.name}: {train} training, {val} validation, {test} test images of {height}x{width}"
    size = dataset.source.batch_size
    left_out = train % size if train >= size else 0
    if left_out > LEFT_OUT * train:
        yield (
            f"  {left_out} of the {train} training images are left out of an epoch, others each time: all "
            f"batches are full, and data.batch_size={size} does not divide them"
        )
    if dataset.notes:
        yield from (f"  {note}" for note in dataset.notes)
        yield from (f"  {line}" for line in tables.text(_table(dataset)).splitlines())


def warnings(dataset: Dataset) -> Iterator[str]:
    """Sentences on single, missing or much larger classes, and on duplicated images."""
    names, counts = [tables.printable(name) for name in dataset.classes], dataset.counts
    if len(names) == 1:
        yield f"{dataset.name}: there is one class only, so any network classifies every image correctly"
    for part, sizes in counts.items():
        missing = [name for name, size in zip(names, sizes, strict=True) if not size]
        if sum(sizes) and missing:
            yield f"{dataset.name}: no {part} image of {', '.join(missing)}"
    train = counts["train"]
    least, most = min(train), max(train)
    if least and most > STRONG * least:
        yield (
            f"{dataset.name}: the classes are unbalanced, {most:,} training images of "
            f"{names[train.index(most)]} but {least:,} of {names[train.index(least)]}: see the balanced "
            "accuracy and that of each class beside the accuracy"
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
