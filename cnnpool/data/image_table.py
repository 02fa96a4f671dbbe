"""The user's own images with their classes in a table: a CSV with a row an image."""

import csv
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

from cnnpool.data.decode import MADE_BY, UNREAD
from cnnpool.data.errors import ONE_CLASS, DataError
from cnnpool.data.image_source import NAMES, ImageSource, Origin, composed, plain, stamp, stamps_of
from cnnpool.data.images import Pictures

COLUMNS = {
    "image": ("file", "filename", "file_name", "path", "image", "img"),
    "label": ("class", "label", "target", "category"),
}
"""The usual names of the columns."""


class Row(NamedTuple):
    """A line of the table; ``part`` is train, val or test."""

    line: int
    file: str
    label: str
    part: str


@dataclass(frozen=True, kw_only=True)
class ImageTable(ImageSource):
    """Images whose files and classes a CSV lists, with names of columns in its first line.

    Without test rows, the validation images are the test images; without both, ``test_size`` of each class.

    Args:
        channels: 3 for colour, 1 for grey.
        table: the CSV, in UTF-8; commas, semicolons or tabs between columns. Relative to ``root``.
        image: column of the files, relative to the table's folder; null for file, filename, path or image.
        label: column of the classes; null for class, label, target or category.
        split: column of the parts, train, val or test; null for no such column.
    """

    channels: Literal[1, 3] = 3
    table: str = "labels.csv"
    image: str | None = None
    label: str | None = None
    split: str | None = None

    def origin(self) -> Origin:
        table = self.folder / self.table
        rows = sorted(self._rows(table), key=lambda row: (list(NAMES).index(row.part), row.label, row.file))
        _check(table, rows)
        classes = tuple(dict.fromkeys(row.label for row in rows if row.part == "train"))
        items = [(row.file, classes.index(row.label)) for row in rows]
        counts = {part: count for part in NAMES if (count := sum(row.part == part for row in rows))}
        if "test" not in counts and "val" in counts:
            counts["test"] = counts.pop("val")
        listed = [f"{row.part} {row.label}" for row in rows]
        stamps = stamps_of(self.folder, (path for path, _ in items))
        return Origin(
            self.cache / plain(self.table),
            stamp(f"1 {MADE_BY} {self.max_megapixels} {listed}", stamps),
            partial(Pictures, items, counts, classes),
            "test" in counts,
            [f"{len(classes)} classes of {len(items):,} images in {table}"],
            stamps,
        )

    def _rows(self, table: Path) -> Iterator[Row]:
        line = 1
        try:
            with table.open(newline="", encoding="utf-8-sig") as file:
                head = file.readline()
                file.seek(0)
                delimiter = max(",;\t", key=head.count)
                lines = csv.DictReader(file, delimiter=delimiter, skipinitialspace=True, strict=True)
                options = ["image", "label"] + ["split"] * (self.split is not None)
                columns = [self._column(table, option, lines.fieldnames or ()) for option in options]
                line = lines.line_num + 1
                for values in lines:
                    line = lines.line_num + 1
                    if any(values.pop(None, ())):
                        raise DataError(
                            f"{table} line {lines.line_num} has more values than columns: put one that "
                            f"contains {delimiter!r} in quotes"
                        )
                    yield _row(table, lines.line_num, values, columns)
        except csv.Error as error:
            raise DataError(
                f"{table} line {line} is no line of a CSV ({error}): correct its quotes"
            ) from error
        except UnicodeDecodeError as error:
            raise DataError(f"{table} is no table of text in UTF-8 ({error}): save it as CSV") from error
        except OSError as error:
            raise DataError(
                f"cannot read {table} ({error.strerror}): name a CSV below data.root by data.table=labels.csv"
            ) from error

    def _column(self, table: Path, option: str, columns: Sequence[str]) -> str:
        asked = getattr(self, option)
        likely = [asked] if asked is not None else [*COLUMNS[option]]
        found = [column for column in columns if column == asked]
        found = found or [column for column in columns if column.lower() in likely]
        if len(found) != 1:
            known = ", ".join(found or columns)
            raise ValueError(
                f"data.{option} must name a column of {table}, got {asked}: choose from {known}"
                + (f"; {ONE_CLASS}" if option == "label" else "")
            )
        return found[0]


def _row(table: Path, line: int, values: Mapping[str, str | None], columns: Sequence[str]) -> Row:
    """The line with these ``values`` in the ``columns`` of image, class and, if there is one, part."""
    place = f"{table} line {line}"
    file, name, *parts = ((values[column] or "").strip() for column in columns)
    for column, value in zip(columns, (file, name), strict=False):
        if not value:
            raise DataError(f"{place} has no {column}: fill or remove it")
    if any(mark in name for mark in "|;"):
        raise DataError(f"{place}: {columns[1]} is {name!r}, several classes: {ONE_CLASS}")
    path = os.path.normpath(table.parent / file)
    if not os.path.isfile(path):
        raise DataError(
            f"{place}: {columns[0]} is {file!r}, and {path} is no file: correct or remove the line"
        )
    if (suffix := os.path.splitext(path)[1].lower()) in UNREAD:
        raise DataError(f"{place}: {file!r} is no picture that is read ({suffix}): save it as JPEG or PNG")
    said = parts[0] if parts else "train"
    part = next((part for part, names in NAMES.items() if said.lower() in names), "")
    if not part:
        raise DataError(f"{place}: {columns[2]} is {said!r}, not train, val or test: correct it")
    return Row(line, path, composed(name), part)


def _check(table: Path, rows: Sequence[Row]) -> None:
    """A DataError for a file in two lines, or a class without training images."""
    first: dict[str, Row] = {}
    known = {row.label for row in rows if row.part == "train"}
    for row in sorted(rows):
        other = first.setdefault(row.file, row)
        if other is not row:
            raise DataError(
                f"{table} lines {other.line} and {row.line} are both {row.file}, {other.label} and "
                f"{row.label}: keep one; {ONE_CLASS}"
            )
        if row.label not in known:
            raise DataError(
                f"{table} line {row.line}: {row.label!r} has no training image: add some, or remove the line"
            )
    if not rows:
        raise DataError(f"{table} lists no image: add a line for each")
