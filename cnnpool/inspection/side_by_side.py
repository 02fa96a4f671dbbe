"""A model as it is and swapped, side by side with their difference, as text for the terminal."""

from collections.abc import Iterator

from cnnpool import tables
from cnnpool.inspection.text import (
    NARROWEST,
    NONE,
    Reading,
    by_stage,
    cell,
    head,
    marked,
    notes,
    of_whole,
    pairs,
)
from cnnpool.quantity import Quantity, from_records, numbers
from cnnpool.run_folder.results import Results

ACCURACY = Quantity("test.accuracy", "test accuracy", "", form="fraction")
LOSS = Quantity("test.loss", "test loss", "", form="ratio")


def side_by_side(before: Results, after: Results, width: int) -> str:
    """Every number before and after with the difference, after minus before; fractions in per cent.

    Args:
        before: of the model as it is.
        after: of the same model swapped.
        width: of the terminal, in characters.
    """
    names = (before.pool["name"], after.choice)
    stages = list(dict.fromkeys([*before.stages, *after.stages]))
    rows = [
        tuple(found.stages.get(stage, {}).get("name", NONE) for found in (before, after)) for stage in stages
    ]
    operators = [(stage, *row) for stage, row in zip(stages, rows, strict=True)]
    table = tables.from_rows(
        ("measure", "where", *names, "difference"), list(_rows(before, after)), numbers=names
    )
    table[-1] = tables.Column(table[-1].header, table[-1].cells)
    blocks = [
        pairs([row for row in head(after) if row[0] != "accuracy"]),
        tables.text(tables.from_rows(("stage", *names), operators)) if stages else "",
        tables.text(table, max(width, NARROWEST)),
        pairs(notes(after.measured)),
    ]
    return "\n".join(block for block in blocks if block)


def _rows(before: Results, after: Results) -> Iterator[tuple[str, ...]]:
    quantities = from_records({**before.quantities, **after.quantities})
    old, new = (dict(numbers(found.measured)) for found in (before, after))
    whole = marked("model", after.examined)
    for one in (ACCURACY, LOSS):
        if one.key in old and one.key in new:
            yield _row(one, one.title, whole, old[one.key], new[one.key])
    stages = list(dict.fromkeys([*before.stages, *after.stages]))
    for one in quantities:
        if one.by_stage and one.shown != "file":
            title, values = by_stage(one, stages, old)
            others = by_stage(one, stages, new)[1]
            for stage, first, second in zip(stages, values, others, strict=True):
                if first is not None or second is not None:
                    yield _row(one, title, marked(stage, after.examined), first, second)
                    title = ""
    both: Reading = {**old, **new}
    for key, one in of_whole(quantities, both):
        yield _row(one, one.title_of(key), whole, old.get(key), new.get(key))


def _row(one: Quantity, title: str, where: str, first: float | None, second: float | None) -> tuple[str, ...]:
    unit = f" ({one.shown_unit})" if title and one.shown_unit else ""
    difference = NONE if first is None or second is None else one.format(second - first, sign=True)
    return f"{title}{unit}", where, cell(one, first), cell(one, second), difference
