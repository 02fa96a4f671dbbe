"""A view as plain data for the page: words, tables, numbers, controls."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cnnpool.report.columns import image_columns, main_columns, measure_tables, pair_columns, ranking, records
from cnnpool.report.comparable import SILENT, text_at
from cnnpool.report.comparison import Comparison
from cnnpool.report.document import OVER_IMAGES, defined, glossary, method, provenance, summary, title
from cnnpool.report.measure import Measure, known_keys
from cnnpool.report.plots.stages import stages_of
from cnnpool.report.plots.styles import COLOURS, ON_DARK, style_of
from cnnpool.report.row import Row
from cnnpool.report.runs import Run
from cnnpool.run_folder.results import NAMED
from cnnpool.tables import Column
from cnnpool.tensorboard.jobs import below, cells
from cnnpool.tensorboard.view import View

MOST_VALUES = 24
"""Of a setting that are offered to filter by."""


def pieces(view: View, root: Path) -> dict[str, Any]:
    """Everything that the page shows of a view but its figures.

    Args:
        view: what to show.
        root: the log folder, below which the runs are named.
    """
    comparison = view.compared.comparison
    found: dict[str, Any] = {
        "refusal": view.compared.refusal,
        "differing": view.compared.differing,
        "settings": _settings([run for run in view.runs if run.found]),
        "colours": _colours(view.palette),
    }
    return found | (_compared(comparison, root) if comparison else {})


def _compared(comparison: Comparison, root: Path) -> dict[str, Any]:
    metric = comparison.metric
    return {
        "title": title(comparison),
        "summary": summary(comparison),
        "ranking": ranking(comparison),
        "notes": comparison.notes,
        "by": comparison.by,
        "metric": {"key": metric.key, "title": metric.title, "header": metric.header, "sense": metric.sense},
        "metrics": _metrics(comparison),
        "baseline": comparison.baseline.choice.label,
        "choices": [_choice(comparison, row, root) for row in comparison.rows],
        "tables": _tables(comparison),
        "stages": stages_in(comparison),
        "glossary": glossary(comparison),
        "method": method(comparison),
        "provenance": provenance(comparison),
        "records": records(comparison),
    }


def _choice(comparison: Comparison, row: Row, root: Path) -> dict[str, Any]:
    """Numbers in the unit that they are shown in, None where there is none."""
    metric, versus = comparison.metric, row.versus
    own = [metric.shown(metric.within(x)) for x in (row.summary.mean, row.summary.low, row.summary.high)]
    apart = [versus.summary.mean, versus.summary.low, versus.summary.high] if versus else []
    return {
        "label": row.choice.label,
        "mean": _numbers(own),
        "difference": _numbers([metric.shown(x) for x in apart]),
        "runs": [
            {
                "seed": seed,
                "folder": below(run.folder, root),
                "value": metric.format(row.values[seed]) if seed in row.values else "–",
                "at": _numbers([metric.shown(row.values.get(seed, math.nan))])[0],
            }
            for seed, run in row.choice.runs.items()
        ],
    }


def _tables(comparison: Comparison) -> list[dict[str, Any]]:
    """The report's tables, each with a title, an explanation, and one for every column."""
    words = dict(method(comparison))
    metric = _definition(comparison.metric)
    helps = ["", "Seeds with a number.", metric, words["Intervals"], words["Differences"]]
    helps += [words["Differences"], words["Words"]]
    found = [_table("main", "", main_columns(comparison), helps)]
    # The tables of the others hold their measures in this order: those of cost come last.
    order = sorted(comparison.measures, key=lambda one: one.key.startswith("cost."))
    definitions = iter([_definition(one) for one in order])
    for columns in measure_tables(comparison):
        own = ["", *(next(definitions) for _ in columns[1:])]
        found.append(_table("measures", "What else was measured", columns, own))
    if len(comparison.rows) > 1:
        title = f"Against {comparison.baseline.choice.label}"
        pairs = pair_columns(comparison)
        found.append(_table("pairs", title, pairs, ["", *[words["Differences"]] * (len(pairs) - 1)]))
    if images := image_columns(comparison):
        found.append(_table("images", "With other test images", images, ["", *[OVER_IMAGES] * 4]))
    return found


def _definition(measure: Measure) -> str:
    """The definition of ``measure``; empty if it has none."""
    return next((definition for _, definition in defined([measure.quantity])), "")


def _table(kind: str, title: str, columns: Sequence[Column], helps: Sequence[str]) -> dict[str, Any]:
    helped = zip(cells(columns), helps, strict=True)
    return {"kind": kind, "title": title, "columns": [one | {"help": text} for one, text in helped]}


def _metrics(comparison: Comparison) -> list[dict[str, str]]:
    """The measures that every comparison shows, then every other number of the runs, each with its name."""
    main = ["test.accuracy", comparison.metric.key, *(one.key for one in comparison.measures)]
    keys = dict.fromkeys([*main, *known_keys(comparison.compared, comparison.quantities)])
    return [
        {"key": key, "title": comparison.measure(key).header, "kind": "shown" if key in main else "other"}
        for key in keys
    ]


def stages_in(comparison: Comparison) -> list[str]:
    """The stages of which the runs hold numbers, in the order of the network."""
    found = [*stages_of(comparison, "gradient"), *stages_of(comparison, "invariance", "stages")]
    return list(dict.fromkeys(found))


def _settings(done: Sequence[Run]) -> list[dict[str, Any]]:
    """Rooms, and other settings in which the runs differ: to group and to filter by."""
    every = dict.fromkeys(key for run in done for key in run.settings)
    keys = [*NAMED, "seed", *(key for key in every if key not in SILENT and not key.endswith(".name"))]
    found = []
    for key in keys:
        values = dict.fromkeys(text_at(run, key) for run in done)
        if key in NAMED or len(values) > 1:
            found.append({"key": key, "values": list(values)[:MOST_VALUES], "groups": key != "seed"})
    return found


def _colours(palette: Sequence[str]) -> dict[str, dict[str, str]]:
    found = {}
    for place, label in enumerate(palette):
        one = style_of(place)
        colour = int(one.colour.removeprefix("C"))
        found[label] = {"light": COLOURS[colour], "dark": ON_DARK[colour], "mark": one.mark}
    return found


def _numbers(values: Sequence[float]) -> list[float | None]:
    return [value if math.isfinite(value) else None for value in values]
