"""results.json: the record of a finished run, written once, checked at every reading."""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Ge, Lt

from cnnpool.json_text import finite, parse, validated
from cnnpool.run_folder.identity import as_json, identity_settings
from cnnpool.run_folder.layout import BEST, CHECKPOINTS, LAST, RESULTS, temp_prefix
from cnnpool.run_folder.reading import read_checked
from cnnpool.system.atomic import write_text

if TYPE_CHECKING:
    import numpy as np

SCHEMA = 1
CHECKSUM = "content_sha256"  # Of the file without this line; ``checksum`` of earlier versions is not compared
END = "\n}"
NAMED = ("pool", "readout", "model", "data")
SETTINGS = (*NAMED, "stages", "asked", "fit")
SPLITS = ("train", "val", "test")
Settings = dict[str, Any]
Count = Annotated[int, Ge(0)]


@dataclass(frozen=True, kw_only=True, repr=False)
class Results:
    """The results of a finished run; printed, its name, its accuracies and what else it holds.

    Args:
        pool, readout, model, data: the chosen names with their options.
        seed: of weights, order and augmentation.
        run, choice: the run's name, its folder below the output root, and the name shared by all seeds.
        stages: the operator of every stage with its options.
        overrides: the command line.
        asked: all settings that determine the result, by which a later call recognises the run.
        deterministic: whether torch refused operations that do not repeat bit for bit.
        data_sha256: identity of the images and labels.
        measured: section -> its numbers: train, val and test, each with accuracy (0..1) and loss, and one
            section for each probe.
        quantities: the probes' descriptions of their numbers, by key.
        correct: which test images were classified correctly, as written by :func:`packed`.
        images: names of the classes, images per class in every split, and unreadable files.
        examined: the data that an existing model was measured on, if nothing was trained.
        environment: versions, commit, device and threads.
        finished: time of the end, in UTC.
    """

    pool: Settings
    readout: Settings
    model: Settings
    data: Settings
    seed: Annotated[int, Ge(0), Lt(2**32)]
    run: str = ""
    choice: str = ""
    stages: dict[str, Settings] = field(default_factory=dict)
    overrides: list[str] = field(default_factory=list)
    asked: Settings = field(default_factory=dict)
    deterministic: bool | None = None
    data_sha256: str | None = None
    fit: Settings = field(default_factory=dict)
    precision: str | None = None
    epochs: Count | None = None
    steps: Count | None = None
    measured: dict[str, dict[str, Any]] = field(default_factory=dict)
    quantities: dict[str, Any] = field(default_factory=dict)
    correct: dict[str, Any] | None = None
    images: dict[str, Any] | None = None
    examined: dict[str, Any] | None = None
    environment: dict[str, Any] = field(default_factory=dict)
    finished: str | None = None

    def __repr__(self) -> str:
        scores = ((split, self.measured.get(split, {}).get("accuracy")) for split in SPLITS)
        words = [f"{split} accuracy {100 * value:.2f} %" for split, value in scores if value is not None]
        facts, sections = ", ".join([self.run or "a run", *words]), ", ".join(self.measured)
        return f"<Results of {facts}; measured: {sections}>"

    @property
    def train(self) -> SimpleNamespace:
        """Scores of the last epoch's training images, as augmented: ``accuracy``, 0..1, and ``loss``."""
        return SimpleNamespace(**self.measured.get("train", {}))

    @property
    def val(self) -> SimpleNamespace:
        """Scores of the validation images, by which to choose settings; empty if their epoch had none."""
        return SimpleNamespace(**self.measured.get("val", {}))

    @property
    def test(self) -> SimpleNamespace:
        """Scores of the test images: ``accuracy``, ``loss``, ``class_accuracy``."""
        return SimpleNamespace(**self.measured.get("test", {}))

    @property
    def accuracy(self) -> float | None:
        """Test accuracy, 0..1."""
        return self.measured.get("test", {}).get("accuracy")

    @property
    def images_of(self) -> str:
        """The name of the data; for the user's own images, with the name of their folder."""
        name, folder = str(self.data["name"]), Path(str(self.data.get("root") or "")).name
        return f"{name} {folder}" if name in ("image_folder", "image_table") and folder else name


FACTS = {one.name for one in fields(Results)} - {"measured"}
SCORES = {"accuracy": (0.0, 1.0), "loss": (0.0, 1e308)}


def write(folder: Path, results: Results) -> Path:
    """Write ``results`` into ``folder`` atomically; an OSError names the file."""
    path = folder / RESULTS
    body = _text(to_json(results))
    write_text(path, body.removesuffix(END) + _end(_sha256(body)), prefix=temp_prefix(folder))
    return path


def read(folder: Path) -> Results | None:
    """The results in ``folder``; None if there are none, a DamagedError if no run wrote that."""
    return read_checked(folder / RESULTS, _from_bytes)


def weights(folder: Path) -> Path:
    """The checkpoint of the weights that the results in ``folder`` are of, by ``fit.test``."""
    found = read(folder)
    is_best = found is not None and found.fit.get("test") == "best"
    return folder / CHECKPOINTS / (BEST if is_best else LAST)


def to_json(results: Results) -> dict[str, Any]:
    """The content of the file without the checksum; a ValueError if a section has the name of a field."""
    taken = sorted(results.measured.keys() & {*FACTS, "schema", CHECKSUM, "measured"})
    if taken:
        raise ValueError(f"a probe cannot have the section {taken[0]!r}, which is a fact of every run")
    content: dict[str, Any] = {"schema": SCHEMA}
    for one in fields(Results):
        value = getattr(results, one.name)
        if one.name == "measured":
            content |= finite(value)
        elif value is not None:
            content[one.name] = as_json(value) if one.name in SETTINGS else value
    return content


def from_json(content: Any) -> Results:
    """The results in ``content``, read from a file; a ValueError says what is wrong with it."""
    if not isinstance(content, dict):
        raise ValueError("not a JSON object")
    if content.get("schema") != SCHEMA:
        raise ValueError(f"schema {content.get('schema')!r} where this version reads {SCHEMA}")
    known = {name: value for name, value in content.items() if name in FACTS}
    # Fields written only by another version are not sections.
    sections = {k: v for k, v in content.items() if k not in FACTS and isinstance(v, dict)}
    found = validated(Results, {**known, "measured": sections})
    operators = {name: getattr(found, name) for name in NAMED} | found.stages
    for name, one in operators.items():
        if not isinstance(one.get("name"), str):
            raise ValueError(f"{name} has no name")
    for split in SPLITS:
        for name, (low, high) in SCORES.items():
            value = found.measured.get(split, {}).get(name, low)
            if type(value) not in (int, float) or not low <= value <= high:
                raise ValueError(f"{split}.{name} is {value!r}, not a number of {low:g} to {high:g}")
    if found.correct is not None:
        unpacked(found.correct)
    return found


def from_settings(settings: Any, overrides: Any) -> Results | None:
    """The choices and settings of a run at its start, without numbers; None if these are no such settings."""
    try:
        # Before version 0.3 only what was asked of the stages: an operator of its own, not the run's.
        asked = {
            stage: node for stage, node in (settings.get("stage") or {}).items() if node["name"] != "inherit"
        }
        own = {name: settings[name] for name in (*NAMED, "seed", "fit")}
        own |= {"stages": settings.get("stages") or asked, "asked": identity_settings(settings)}
        return from_json({"schema": SCHEMA, **own, "overrides": overrides or []})
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def at_chance(accuracy: float, counts: Sequence[int]) -> bool:
    """Whether always predicting the commonest class would have reached ``accuracy``, 0..1, of a test.

    The accuracy may be up to two standard errors (binomial) above the share of the commonest class. False if
    all images have one class.
    """
    total, most = sum(counts), max(counts)
    share = most / total
    return most != total and accuracy <= share + 2 * (share * (1 - share) / total) ** 0.5


def packed(correct: "np.ndarray") -> dict[str, Any]:
    """The record of ``correct``, (N,) booleans in the test set's order: N, and N bits in base64."""
    # Slow to import.
    import numpy as np

    bits = np.packbits(correct.astype(bool)).tobytes()
    return {"images": len(correct), "bits": base64.b64encode(bits).decode("ascii")}


def unpacked(record: Mapping[str, Any]) -> "np.ndarray":
    """The argument of :func:`packed`, from its record; a ValueError if the record is invalid."""
    import numpy as np

    try:
        images, bits = record["images"], base64.b64decode(record["bits"], validate=True)
        found = np.unpackbits(np.frombuffer(bits, np.uint8))
        if len(bits) != -(-images // 8) or found[images:].any():
            raise ValueError(f"{8 * len(bits)} bits for {images} images")
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"correct is not a record of images: {error}") from None
    return found[:images].astype(bool)


def _from_bytes(written: bytes) -> Results:
    content = parse(written)
    found = from_json(content)
    if CHECKSUM in content:
        digest = content.pop(CHECKSUM)
        body = written.decode().removesuffix(_end(digest)) + END
        # Someone may have laid the file out anew; to write it again takes as long as all the rest here.
        if _sha256(body) != digest != _sha256(_text(content)):
            raise ValueError("it was altered after it was written: its checksum differs")
    return found


def _text(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=2, allow_nan=False)


def _end(digest: str) -> str:
    return f',\n  "{CHECKSUM}": "{digest}"{END}\n'


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
