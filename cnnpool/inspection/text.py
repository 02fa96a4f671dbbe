"""An inspection as text for the terminal: one model, or two with their differences."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from cnnpool import tables
from cnnpool.probe import TRAINING
from cnnpool.quantity import Quantity, find, from_records, numbers
from cnnpool.run_folder.results import Results

NONE = "–"
NARROWEST = 60
SHOWN = 8
"""Default number of rows of a comparison, two of which are times."""
ACCURACY, LOSS = TRAINING[:2]
MERGED: dict[str, Callable[[list[float]], float]] = {"mean": fmean, "sum": math.fsum, "max": max, "min": min}

Reading = dict[str, float | None]
"""Dotted key -> number."""
Row = tuple[str, ...]
Pair = tuple[Quantity, str, float | None, float | None]
"""Quantity, its title with its unit, and its values before and after."""


def report(results: Results, width: int) -> str:
    """One inspection: the model and images, tables of its stages, and the whole model."""
    quantities = from_records(results.quantities)
    read = dict(numbers(results.measured))
    whole = [
        (one.title_of(key), _marked(_with_unit(one, read[key]), results))
        for key, one in _of_whole(quantities, read)
    ]
    stages = (
        tables.text(_stages(results, quantities, read), max(width, NARROWEST))
        if results.stages
        else "no downsampling module, so no stages to measure\n"
    )
    return _joined(_pairs(_head(results)), stages, _pairs([*whole, *_notes(results.measured)]))


def side_by_side(before: Results, after: Results, width: int, *, whole: bool = False) -> str:
    """Numbers before and after a swap with the difference, after minus before; ``whole``: at every stage."""
    names = (before.pool["name"], after.choice)
    operators = [
        (stage, *(found.stages.get(stage, {}).get("name", NONE) for found in (before, after)))
        for stage in {**before.stages, **after.stages}
    ]
    first, every = _headlines(before, after), list(_every(before, after))
    mark = _marked("model", after)
    same = 100 * (after.examined or {})["same_answers"]
    answers = ("same answer as before (%)", mark, "100.00", f"{same:.2f}", f"{same - 100:+.2f}")
    times = [
        (f"{way} (ms/image)", mark, f"{old:.4g}", f"{new:.4g}", f"{new / old:.2f} times")
        for way, (old, new) in (after.examined or {}).get("ms_per_image", {}).items()
    ]
    short = [(title, mark, *_cells(one, old, new)) for one, title, old, new in first]
    table = tables.from_rows(
        ("measure", "where", *names, "difference"),
        [answers, *(every if whole else short), *times],
        numbers=(*names, "difference"),
    )
    return _joined(
        _sentences(first, after),
        tables.text(table, max(width, NARROWEST)),
        _pairs([row for row in _head(after) if row[0] != "accuracy"]),
        tables.text(tables.from_rows(("stage", *names), operators)) if operators else "",
        "" if whole else f"{len(every)} numbers in all, stage by stage: --all, or results.json\n",
        _pairs(_notes(after.measured)),
    )


def _headlines(before: Results, after: Results) -> list[Pair]:
    """The numbers shown in comparisons, stages combined, cost last; if there are many, those that differ."""
    old, new = (dict(numbers(found.measured)) for found in (before, after))
    found: list[Pair] = []
    for one in [ACCURACY, *from_records({**before.quantities, **after.quantities})]:
        if one is ACCURACY or one.shown == "compare":
            title, first = _merged(one, list(before.stages), old)
            others, second = _merged(one, list(after.stages), new)
            if first is not None or second is not None:
                found.append((one, _unit_added(title if first is not None else others, one), first, second))
    if len(found) > SHOWN:
        found = [pair for pair in found if pair[2] != pair[3]]
    costs = [pair for pair in found if pair[0].is_cost]
    return [pair for pair in found if not pair[0].is_cost][: SHOWN - 3 - len(costs)] + costs


def _merged(one: Quantity, stages: Sequence[str], read: Reading) -> tuple[str, float | None]:
    """Title and value of a quantity of the whole model, or of its stages combined."""
    if not one.by_stage:
        key = next((key for key in read if one.values(key) is not None), one.key)
        return one.title_of(key), read.get(key)
    title, values = _by_stage(one, stages, read)
    known = [value for value in values if value is not None]
    return f"{title}, {one.stages} of stages", MERGED[one.stages](known) if known else None


def _sentences(first: Sequence[Pair], after: Results) -> str:
    """How much of the function is left after a swap, and the first numbers that rise and fall with it.

    None is called better: a network that was not trained with an operator says little of it.
    """
    examined, higher, lower = after.examined or {}, list[str](), list[str]()
    for one, title, old, new in first:
        if old is not None and new is not None and old != new:
            (higher if new > old else lower).append(title.removesuffix(f" ({one.shown_unit})"))
    weights = "has random weights" if examined.get("untrained") else f"was not trained with {after.choice}"
    return (
        f"the same answer as before on {100 * examined['same_answers']:.1f} % of images; "
        f"this network {weights}: compare after training\n"
        f"higher with {after.choice}: {', '.join(higher) or 'nothing'}\n"
        f"lower with {after.choice}: {', '.join(lower) or 'nothing'}\n"
    )


def _every(before: Results, after: Results) -> Iterator[Row]:
    """One row per number: title, where, before, after, difference."""
    quantities = from_records({**before.quantities, **after.quantities})
    old, new = (dict(numbers(found.measured)) for found in (before, after))
    whole = _marked("model", after)
    for one in (ACCURACY, LOSS):
        if one.key in old and one.key in new:
            yield _unit_added(one.title, one), whole, *_cells(one, old[one.key], new[one.key])
    stages = list({**before.stages, **after.stages})
    for one in quantities:
        if one.by_stage and one.shown != "file":
            title, values = _by_stage(one, stages, old)
            others = _by_stage(one, stages, new)[1]
            title = _unit_added(title, one)
            for stage, first, second in zip(stages, values, others, strict=True):
                if first is not None or second is not None:
                    yield title, _marked(stage, after), *_cells(one, first, second)
                    title = ""
    for key, one in _of_whole(quantities, {**old, **new}):
        yield _unit_added(one.title_of(key), one), whole, *_cells(one, old.get(key), new.get(key))


def _unit_added(title: str, one: Quantity) -> str:
    return f"{title} ({one.shown_unit})" if one.shown_unit else title


def _cells(one: Quantity, first: float | None, second: float | None) -> Row:
    difference = NONE if first is None or second is None else one.format(second - first, sign=True)
    return _cell(one, first), _cell(one, second), difference


def _head(results: Results) -> list[tuple[str, str]]:
    examined = results.examined or {}
    rows = [("model", examined["model"]), ("weights", examined["weights"]), ("data", examined["images"])]
    rows += [(key, examined[key]) for key in ("caution", "swapped", "labels") if examined.get(key)]
    if examined.get("functional"):
        rows.append(("not by stage", f"{examined['functional']}: torch.nn.functional, no modules"))
    if test := results.measured.get("test"):
        score = f"{100 * test['accuracy']:.1f} %, loss {test['loss']:.4f} (n={test['samples']})"
        rows.append(("accuracy", _marked(score, results)))
    return rows


def _stages(results: Results, quantities: Sequence[Quantity], read: Reading) -> list[tables.Column]:
    """One row per stage, one column per quantity."""
    stages = list(results.stages)
    names = [results.stages[stage]["name"] for stage in stages]
    marks = [_marked(stage, results) for stage in stages]
    columns = [tables.Column("stage", marks, words=True), tables.Column("operator", names, words=True)]
    rules = [results.measured.get("gradient", {}).get(stage, {}).get("ties") for stage in stages]
    if any(rules):
        columns.append(tables.Column("ties", [rule or NONE for rule in rules], words=True))
    for one in quantities:
        if one.by_stage and one.shown != "file":
            title, values = _by_stage(one, stages, read)
            columns.append(tables.Column(_unit_added(title, one), [_cell(one, value) for value in values]))
    return columns


def _by_stage(one: Quantity, stages: Sequence[str], read: Reading) -> tuple[str, list[float | None]]:
    """The title and the value at every stage of ``one``, at the smallest measured distance."""
    own = [values for key in read if (values := one.values(key)) is not None]
    distances = sorted({int(values["px"]) for values in own if values.get("px", "").isdecimal()})
    others = {"px": str(distances[0])} if distances else {}
    found = [read.get(one.filled({**others, "stage": stage})) for stage in stages]
    return one.title_of(one.filled({**others, "stage": "*"})).rpartition(", ")[0], found


def _of_whole(quantities: Sequence[Quantity], read: Reading) -> list[tuple[str, Quantity]]:
    """Key and quantity of every shown number of the whole model, except its test."""
    found = [(key, find(quantities, key)) for key in read if not key.startswith("test.")]
    return [(key, one) for key, one in found if one and not one.by_stage and one.shown != "file"]


def _with_unit(one: Quantity, value: float | None) -> str:
    gap = "" if one.form == "count" and one.unit else " "
    return f"{_cell(one, value)}{gap}{one.shown_unit}".rstrip()


def _notes(measured: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The omitted measures, and the number of images of each probe."""
    skipped = measured.get("invariance", {}).get("skipped", {})
    found = [(f"not measured: {name}", reason) for name, reason in skipped.items()]
    counts = ", ".join(f"{name} {n}" for name in measured if (n := _samples(measured[name])))
    return [*found, ("images", counts)] if counts else found


def _samples(section: Mapping[str, Any]) -> str:
    if "samples" not in section:
        section = next((one for one in section.values() if isinstance(one, Mapping)), {})
    return "/".join(
        str(section[key]) for key in ("samples", "shift_samples", "stage_samples") if key in section
    )


def _cell(one: Quantity, value: float | None) -> str:
    return NONE if value is None else one.format(value)


def _pairs(rows: Sequence[tuple[str, str]]) -> str:
    return tables.text(tables.from_rows(("", ""), rows))


def _joined(*blocks: str) -> str:
    return "\n".join(block for block in blocks if block)


def _marked(text: str, results: Results) -> str:
    """``text``, marked "untrained" or "partly untrained" if the examined weights are."""
    mark = (results.examined or {}).get("untrained")
    return f"{text} ({mark})" if mark else text
