"""A data set in a few lines at the start of a run, and what speaks against its accuracy."""

import logging
from collections.abc import Iterator

from cnnpool import tables
from cnnpool.data.dataset import Dataset
from cnnpool.data.rows import copies

_log = logging.getLogger(__name__)

LEFT_OUT = 0.1
"""Share of the training images that no batch of an epoch has room for, from which on it is said."""
STRONG = 5
"""Times as many training images as the smallest class has, from which on the largest is warned of."""
LONGEST = 16
"""Classes up to which all are listed; of more, the largest and the smallest."""


_described: set[tuple[str, tuple[str, ...]]] = set()
"""Data sets that this process has described: the jobs of a sweep mostly share theirs."""


def tell(dataset: Dataset) -> None:
    """Log what ``lines`` and ``warnings`` say, of one data set all lines but the first only once."""
    first, *rest = lines(dataset)
    key = (dataset.sha256, dataset.notes)
    for line in [first] if key in _described else [first, *rest]:
        _log.info("%s", line)
    _described.add(key)
    for line in warnings(dataset):
        _log.warning("%s", line)


def lines(dataset: Dataset) -> Iterator[str]:
    """Images of each split, and of those what batches leave out; if there are notes, these and each class."""
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
    """Sentences on classes that are alone, missing or much larger than another, and on copied images."""
    names, counts = dataset.classes, dataset.counts
    if len(names) == 1:
        yield f"{dataset.name}: there is one class only, so any network is right about every image"
    for part, sizes in counts.items():
        missing = [name for name, size in zip(names, sizes, strict=True) if not size]
        if sum(sizes) and missing:
            yield f"{dataset.name}: no {part} image of {', '.join(map(tables.printable, missing))}"
    least, most = ((size, names[place]) for size, place in _ends(counts["train"]))
    if least[0] and most[0] > STRONG * least[0]:
        yield (
            f"{dataset.name}: the classes are unbalanced, {most[0]:,} training images of "
            f"{tables.printable(most[1])} but {least[0]:,} of {tables.printable(least[1])}: see the balanced "
            "accuracy and that of each class beside the accuracy"
        )
    if count := copies(dataset.test.rows, dataset.train.rows):
        yield (
            f"{dataset.name}: {count:,} of the {len(dataset.test):,} test images are training images too, so "
            "the test says less about new images: take them out of one of both"
        )


def _ends(sizes: list[int]) -> list[tuple[int, int]]:
    """(size, place) of the smallest class and of the largest."""
    placed = [(size, place) for place, size in enumerate(sizes)]
    return [min(placed), max(placed, key=lambda one: (one[0], -one[1]))]


def _table(dataset: Dataset) -> list[tables.Column]:
    counts = dataset.counts
    places = sorted(range(dataset.num_classes), key=lambda place: (-counts["train"][place], place))
    shown: list[int | None] = [*sorted(places)]
    if len(places) > LONGEST:
        half = LONGEST // 2
        shown = [*places[:half], None, *places[-half:]]
    headers = {
        "class": dataset.classes,
        **{part: [f"{n:,}" for n in sizes] for part, sizes in counts.items()},
    }
    return [
        tables.Column(
            header, ["..." if place is None else cells[place] for place in shown], words=header == "class"
        )
        for header, cells in headers.items()
    ]
