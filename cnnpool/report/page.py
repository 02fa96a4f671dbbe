"""The parts of a page on a comparison, in one form for files, TensorBoard's tab, studies and notebooks."""

import base64
import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from cnnpool import tables
from cnnpool.report import columns, document
from cnnpool.report.comparison import Comparison
from cnnpool.report.pairwise import MARGIN, least
from cnnpool.report.plots import GROUPS, Plot
from cnnpool.report.plots.panels import css, for_page, styles_of
from cnnpool.system.progress import duration
from cnnpool.tables import Column

EDGE = 0.06  # Space beside the marks of a row, as a share of the drawing's width


@dataclass(frozen=True)
class Drawn:
    """A column of intervals on one scale: of each row its mean, low and high, or nothing, and single values.

    The scale holds all of them, and 0 with ``zero``.
    """

    title: str
    rows: Sequence[Sequence[float]]
    dots: Sequence[Sequence[float]] = ()
    zero: bool = False

    @cached_property
    def ends(self) -> tuple[float, float]:
        known = [x for row in (*self.rows, *self.dots) for x in row if math.isfinite(x)] + [0.0] * self.zero
        low, high = min(known, default=0.0), max(known, default=0.0)
        return (low, high) if high > low else (low - 0.5, high + 0.5)

    def at(self, value: float) -> float:
        """The place of ``value`` as a share of the drawing's width."""
        low, high = self.ends
        return round(EDGE + (1 - 2 * EDGE) * (value - low) / (high - low), 4)


@dataclass(frozen=True)
class Sheet:
    """A table: text in ``columns``, and what only HTML shows of columns and rows, each list as long as these.

    ``drawn`` has intervals by the place of the column before them; ``runs`` of a row are (seed, value,
    folder), ``charts`` the address of their curves, and ``faint`` rows are out.
    """

    columns: Sequence[Column]
    drawn: Mapping[int, Drawn] = field(default_factory=dict)
    colours: Sequence[str] = ()
    runs: Sequence[Sequence[tuple[str, str, str]]] = ()
    charts: Sequence[str] = ()
    faint: Sequence[bool] = ()


def contents(
    comparison: Comparison,
    groups: Sequence[tuple[str, str, Sequence[Plot]]] = (),
    *,
    command: str = "",
    root: Path | None = None,
    seeds: bool = False,
    charts: Sequence[str] = (),
) -> dict[str, Any]:
    """The values of compare.jinja; folders are named below ``root``, and ``seeds`` has a dot for each."""
    colours, margin = _colours(comparison), str(comparison.margin or MARGIN * (not comparison.understood))
    words = {one.header: document.definition(one) for one in comparison.measures}
    return {
        "title": document.title(comparison),
        "comparison": comparison,
        "groups": groups,
        "command": command,
        "headline": document.headline(comparison),
        "remarks": list(map(document.remarks, comparison.each)),
        "glossary": document.glossary(comparison),
        "provenance": document.provenance(comparison),
        "mains": [_main(one, root, seeds=seeds, charts=charts) for one in comparison.each],
        "measures": [
            (Sheet(table, colours=colours), ["", *(words[column.header] for column in table[1:])])
            for table in columns.measure_tables(comparison)
        ],
        "pairs": [
            (document.against(one), Sheet(columns.pair_columns(one), colours=colours[1:]))
            for one in comparison.each
            if len(one.rows) > 1
        ],
        "margin": margin + " of the baseline's errors" * margin.endswith("%"),
        "least": least(comparison.paired),
    }


def figures(plots: Sequence[Plot]) -> list[tuple[str, str, list[Plot]]]:
    """The groups that have any of ``plots``: name, title, and their figures in order."""
    drawn = {plot.name: plot for plot in plots}
    own = [(name, title, [drawn[one] for one in names if one in drawn]) for name, title, names in GROUPS]
    return [group for group in own if group[2]]


def _colours(comparison: Comparison) -> list[str]:
    styles = styles_of(comparison)
    return [css(styles[row.choice.label]) for row in comparison.rows]


def _main(comparison: Comparison, root: Path | None, *, seeds: bool, charts: Sequence[str]) -> Sheet:
    metric, rows = comparison.metric, comparison.rows
    each = [[metric.shown(value) for value in row.finite.values()] for row in rows]
    values = [metric.on_axis(*row.summary.interval) for row in rows]
    steps = [list(map(metric.shown, row.versus.summary.interval)) if row.versus else [] for row in rows]
    title = f"mean and interval of {metric.header}"
    plots = {2: Drawn(title, values, each if seeds else ())}
    if len(rows) > 1:
        plots[4] = Drawn("difference and interval", steps, zero=True)
    return Sheet(
        columns.main_columns(comparison),
        plots,
        _colours(comparison),
        [
            [
                (
                    str(seed) * row.choice.numbered,
                    metric.format(row.values.get(seed, math.nan)),
                    _below(run.folder, root),
                )
                for seed, run in row.choice.runs.items()
            ]
            for row in rows
        ],
        charts,
    )


def _below(folder: Path, root: Path | None) -> str:
    return folder.relative_to(root).as_posix() if root else str(folder)


def pages(stem: str, template: str, **values: Any) -> dict[str, str]:
    """Markdown, with pictures in files beside it, and HTML with all embedded."""
    found = {}
    for kind in ("md", "html"):
        page = str(blocks_of(kind).page(values["title"], filled(template, kind, **values)))
        # Folder names need not be UTF-8.
        found[f"{stem}.{kind}"] = page.encode("utf-8", "backslashreplace").decode()
    return found


def notebook(comparison: Comparison) -> str:
    """The part of a page that a notebook shows: everything but the figures."""
    return str(blocks_of("html").part(filled("compare.jinja", **contents(comparison))))


def filled(template: str, kind: str = "html", **values: Any) -> str:
    """A template with its ``values``, which calls the blocks of a ``kind`` by the name of ``show``."""
    return environment(kind).get_template(template).render(show=blocks_of(kind), **values)


def blocks_of(kind: str) -> Any:
    return environment(kind).get_template(f"blocks.{kind}").module


@cache
def environment(kind: str) -> Environment:
    found = Environment(
        loader=PackageLoader("cnnpool.report"),
        autoescape=kind == "html",
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    filters: dict[str, Any] = {
        "embedded": lambda svg: base64.b64encode(for_page(svg)).decode(),
        "escaped": tables.markdown_text,
        # Longer than any run of backticks in the text, so that none closes the block.
        "fence": lambda text: "`" * max([3, *(len(marks) + 1 for marks in re.findall("`+", text))]),
        "flat": lambda text: type(text)(" ".join(text.split())),
        # Equal texts share a name, so that several tables and pages can share a definition.
        "named": lambda text: f"word-{hashlib.sha256(text.encode()).hexdigest()[:12]}",
        "printable": tables.printable,
        "rows": tables.by_row,
        "span": duration,
        "table": tables.markdown,
        "definition": document.definition,
        "terms": lambda texts: [("", text) for text in texts],
    }
    found.filters |= filters
    found.globals["style"] = (files(__package__) / "templates" / "page.css").read_text(encoding="utf-8")
    return found
