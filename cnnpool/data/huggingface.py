"""Data sets of the Hugging Face hub, and local files that the library ``datasets`` reads."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

from torch.utils.data import ConcatDataset

from cnnpool.data.decode import MADE_BY, Picture
from cnnpool.data.errors import ONE_CLASS, DataError
from cnnpool.data.image_source import NAMES, ImageSource, Origin, composed, plain, stamp, stamps_of
from cnnpool.data.images import Pictures
from cnnpool.registry import did_you_mean

IMAGES = ("image", "img")
LABELS = ("label", "labels", "target", "class")  # Usual names of columns whose type says nothing


@dataclass(frozen=True, kw_only=True)
class HuggingFace(ImageSource):
    """A data set of the Hugging Face hub, or local files, read by the package ``datasets``.

    Requires ``pip install 'cnnpool[huggingface]'``. The library downloads to its own cache (``HF_HOME``).

    Args:
        path: name on the hub, such as ``ylecun/mnist``; or a folder of images or Parquet files; or a file.
        config: configuration of a data set that has several.
        revision: branch, tag or commit on the hub; null for the newest.
        image: column of the images; null for the only one.
        label: column of the classes: names or numbers; null for the only one.
        train, val, test: the library's splits to use; null for those with the usual names. Without a test
            split, the validation images are the test images; without both, ``test_size`` of each class.
    """

    path: str
    config: str | None = None
    revision: str | None = None
    image: str | None = None
    label: str | None = None
    train: str | None = None
    val: str | None = None
    test: str | None = None

    def origin(self) -> Origin:
        parts = self._parts(self._load())
        image, label = _columns(parts["train"].features, self.image, self.label)
        files = [file["filename"] for part in parts.values() for file in part.cache_files]
        words = (MADE_BY, self.max_megapixels, self.path, self.config, image, label, *parts)
        counts = ", ".join(f"{one.split} ({len(one):,})" for one in parts.values())
        return Origin(
            self.cache / f"huggingface-{plain(self.path.strip('/.'))}",
            stamp(f"2 {words}", stamps_of(Path(os.sep), files)),
            partial(_listed, parts, image, label, self.path),
            "test" in parts,
            [f"{self.path} by datasets: {counts}; images in {image}, classes in {label}"],
        )

    def _load(self) -> Any:
        try:
            import datasets
        except ImportError:
            raise DataError("data=huggingface needs datasets: pip install 'cnnpool[huggingface]'") from None
        path, files = os.path.expanduser(self.path), None
        if os.path.isfile(path):
            path, files = "parquet", path
        try:
            return datasets.load_dataset(
                path,
                self.config,
                data_files=files,
                revision=self.revision,
                # With files, by which the decoded images know of changes.
                keep_in_memory=False,
                download_config=datasets.DownloadConfig(local_files_only=not self.download),
            )
        except Exception as error:
            # The library may raise any exception, depending on the kind of files.
            said = " ".join(str(error).split())[:300] or type(error).__name__
            raise DataError(
                f"data.path={self.path} cannot be read by datasets ({said}): give a name on the hub, "
                "a folder or a Parquet file"
            ) from error

    def _parts(self, found: Mapping[str, Any]) -> dict[str, Any]:
        """Part -> its split, in the order train, val, test; validation images replace missing test images."""
        asked = {part: name for part in NAMES if (name := getattr(self, part)) is not None}
        for part, name in asked.items():
            if name not in found:
                raise ValueError(f"data.{part} must be a split, got {name!r}; {did_you_mean(name, found)}")
        free = found.keys() - asked.values()
        if len(found) == 1 and not asked:
            return {"train": next(iter(found.values()))}
        parts = {}
        for part, usual in NAMES.items():
            if name := asked.get(part) or next((one for one in usual if one in free), ""):
                parts[part] = found[name]
        if "train" not in parts:
            raise DataError(
                f"{self.path} has no split called train, but {', '.join(found)}: choose one by data.train"
            )
        if "test" not in parts and "val" in parts:
            parts["test"] = parts.pop("val")
        return parts


class Column:
    """(image, label) of every row of a ``part``, with images encoded; ``numbers`` maps labels to numbers."""

    def __init__(self, part: str, rows: Any, image: str, label: str, numbers: Mapping[Any, int]):
        self.part, self.rows, self.image, self.label, self.numbers = part, rows, image, label, numbers
        self.lock = Lock()

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[Picture, int]:
        with self.lock:
            row = self.rows[index]
        picture: Picture | None = row[self.image]["bytes"]
        if picture is None and self.rows.builder_name == "imagefolder":
            picture = row[self.image]["path"]
        if picture is None:
            # A row may name any file of this machine.
            raise DataError(
                f"row {index} of the split {self.rows.split} holds no image, but the name of a file"
            )
        if row[self.label] not in self.numbers:
            raise DataError(
                f"row {index} of the split {self.rows.split} has no label: fill or remove it, or choose "
                f"another split by data.{self.part}, or the column of the classes by data.label"
            )
        return picture, self.numbers[row[self.label]]


def _columns(features: Mapping[str, Any], image: str | None, label: str | None) -> tuple[str, str]:
    """The columns of images and classes; a ValueError names the option that must choose one of several."""
    from datasets import ClassLabel, Image, Value

    found = []
    for option, asked, kind, usual in (("image", image, Image, IMAGES), ("label", label, ClassLabel, LABELS)):
        likely = [name for name, one in features.items() if isinstance(one, kind)]
        likely = likely or [name for name in usual if name in features]
        if asked is not None:
            likely = [asked] if asked in features else []
        if len(likely) != 1:
            choices = ", ".join(likely or features)
            raise ValueError(f"data.{option} must name a column, got {asked}: choose from {choices}")
        found += likely
    if not isinstance(features[found[1]], ClassLabel | Value):
        raise ValueError(f"data.label must be a column of names or numbers, got {found[1]!r}; {ONE_CLASS}")
    return found[0], found[1]


def _listed(parts: Mapping[str, Any], image: str, label: str, title: str) -> Pictures:
    from datasets import ClassLabel, Image

    kind = parts["train"].features[label]
    if isinstance(kind, ClassLabel):
        values, texts = list(range(len(kind.names))), kind.names
    else:
        values = sorted({value for part in parts.values() for value in part.unique(label)} - {None})
        texts = [str(value) for value in values]
    names = list(dict.fromkeys(map(composed, texts)))
    places = {name: number for number, name in enumerate(names)}
    numbers = {value: places[composed(text)] for value, text in zip(values, texts, strict=True)}
    columns = []
    for name, part in parts.items():
        rows = part.select_columns([image, label]).cast_column(image, Image(decode=False))
        columns.append(Column(name, rows, image, label, numbers))
    counts = dict(zip(parts, map(len, columns), strict=True))
    return Pictures(ConcatDataset(columns), counts, names, title)  # type: ignore[arg-type]
