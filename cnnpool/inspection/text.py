"""An inspection as text for the terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

from cnnpool import tables
from cnnpool.quantity import Quantity, find, from_records, numbers
from cnnpool.run_folder.results import Results

NONE = "–"
NARROWEST = 60

Reading = dict[str, float | None]
"""Dotted key -> number."""


def report(results: Results, width: int) -> str:
    """The results of one inspection: what was measured, tables of its stages, and the whole model.

    Args:
        results: of the inspection.
        width: of the terminal, in characters.
    """
    quantities = from_records(results.quantities)
    read = dict(numbers(results.measured))
    blocks = [pairs(head(results))]
    if results.stages:
        blocks.append(tables.text(_stages(results, quantities, read), max(width, NARROWEST)))
    else:
        blocks.append("no downsampling module: nothing to say of stages\n")
    blocks.append(pairs([*_whole(results, quantities, read), *notes(results.measured)]))
    return "\n".join(block for block in blocks if block)


def head(results: Results) -> list[tuple[str, str]]:
    """Model, weights, images, and the accuracy where there is one."""
    examined = results.examined or {}
    rows = [("model", examined["model"]), ("weights", examined["weights"]), ("data", examined["images"])]
    rows += [(key, examined[key]) for key in ("swapped", "labels") if examined.get(key)]
    if examined.get("functional"):
        rows.append(("not by stage", f"{examined['functional']}: torch.nn.functional, no modules"))
    if test := results.measured.get("test"):
        score = f"{100 * test['accuracy']:.1f} %, loss {test['loss']:.4f} (n={test['samples']})"
        rows.append(("accuracy", marked(score, results.examined)))
    return rows


def _stages(results: Results, quantities: Sequence[Quantity], read: Reading) -> list[tables.Column]:
    """A row for each stage, a column for each of its quantities, at the smallest distance measured."""
    stages = list(results.stages)
    names = [results.stages[stage]["name"] for stage in stages]
    marks = [marked(stage, results.examined) for stage in stages]
    columns = [tables.Column("stage", marks, words=True), tables.Column("operator", names, words=True)]
    rules = [results.measured.get("gradient", {}).get(stage, {}).get("ties") for stage in stages]
    if any(rules):
        columns.append(tables.Column("ties", [rule or NONE for rule in rules], words=True))
    for one in quantities:
        if one.by_stage and one.shown != "file":
            title, values = by_stage(one, stages, read)
            unit = f" ({one.shown_unit})" if one.shown_unit else ""
            columns.append(tables.Column(f"{title}{unit}", [cell(one, value) for value in values]))
    return columns


def by_stage(one: Quantity, stages: Sequence[str], read: Reading) -> tuple[str, list[float | None]]:
    """The title and the value at every stage of ``one``, at the smallest distance it was measured at."""
    own = {key: values for key in read if (values := one.values(key)) is not None}
    distances = sorted({int(values["px"]) for values in own.values() if values.get("px", "").isdecimal()})
    others = {"px": str(distances[0])} if distances else {}
    found = [read.get(one.filled({**others, "stage": stage})) for stage in stages]
    return one.title_of(one.filled({**others, "stage": "*"})).rpartition(", ")[0], found


def _whole(results: Results, quantities: Sequence[Quantity], read: Reading) -> list[tuple[str, str]]:
    """Title and number of everything that is of the whole model."""
    return [
        (one.title_of(key), marked(with_unit(one, read[key]), results.examined))
        for key, one in of_whole(quantities, read)
    ]


def of_whole(quantities: Sequence[Quantity], read: Reading) -> list[tuple[str, Quantity]]:
    """Key and quantity of every number that is shown and is of the whole model, but for its test."""
    found = [(key, find(quantities, key)) for key in read if not key.startswith("test.")]
    return [(key, one) for key, one in found if one and not one.by_stage and one.shown != "file"]


def with_unit(one: Quantity, value: float | None) -> str:
    """``value`` with its unit: ``12.50 %``."""
    gap = "" if one.form == "count" and one.unit else " "
    return f"{cell(one, value)}{gap}{one.shown_unit}".rstrip()


def notes(measured: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The measures that were left out, and the number of images of each probe."""
    skipped = measured.get("invariance", {}).get("skipped", {})
    found = [(f"not measured: {name}", reason) for name, reason in skipped.items()]
    counts = ", ".join(f"{name} {n}" for name in measured if (n := _samples(measured[name])))
    return [*found, ("images", counts)] if counts else found


def _samples(section: Any) -> str:
    if not isinstance(section, Mapping):
        return ""
    if "samples" not in section:
        section = next((one for one in section.values() if isinstance(one, Mapping)), {})
    values = [section[key] for key in ("samples", "shift_samples", "stage_samples") if key in section]
    return "/".join(map(str, values))


def cell(one: Quantity, value: float | None) -> str:
    """``value`` without its unit."""
    return NONE if value is None else one.format(value)


def pairs(rows: Sequence[tuple[str, str]]) -> str:
    """Rows of a name and what is said of it."""
    return tables.text(tables.from_rows(("", ""), rows))


def marked(text: str, examined: Mapping[str, Any] | None) -> str:
    """``text``, with the words "untrained" or "partly untrained" where the examined weights are."""
    mark = (examined or {}).get("untrained")
    return f"{text} ({mark})" if mark else text
