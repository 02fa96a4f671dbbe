"""The parts of a page on a comparison, in one form for files, TensorBoard's tab, studies and notebooks."""

import base64
import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from cnnpool import tables
from cnnpool.report import columns, document
from cnnpool.report.comparison import Comparison
from cnnpool.report.measure import Measure
from cnnpool.report.plots import GROUPS, Plot
from cnnpool.report.plots.panels import css, for_page, styles_of
from cnnpool.system.progress import duration
from cnnpool.tables import Column

EDGE = 0.06  # Space beside the marks of a row, as a share of the drawing's width


@dataclass(frozen=True)
class Mark:
    """One row's mean, ends of its interval and single values, as shares of the scale; None for NaN."""

    mean: float | None
    low: float | None
    high: float | None
    dots: Sequence[float] = ()


@dataclass(frozen=True)
class Drawn:
    """A column of intervals on one scale from the first to the second of ``ends``, with 0 at ``zero``."""

    title: str
    ends: tuple[str, str]
    marks: Sequence[Mark | None]
    zero: float | None = None


@dataclass(frozen=True)
class Sheet:
    """A table: text in ``columns``, and what only HTML shows of columns and rows, each list as long as these.

    ``terms`` define columns, ``drawn`` has intervals by the place of the column before them; ``runs`` of a
    row are (seed, value, folder), ``charts`` the address of their curves, and ``faint`` rows are out.
    """

    columns: Sequence[Column]
    terms: Sequence[str] = ()
    drawn: Mapping[int, Drawn] = field(default_factory=dict)
    colours: Sequence[str] = ()
    runs: Sequence[Sequence[tuple[str, str, str]]] = ()
    charts: Sequence[str] = ()
    faint: Sequence[bool] = ()


def drawn(
    title: str,
    rows: Sequence[Sequence[float]],
    dots: Sequence[Sequence[float]] = (),
    *,
    zero: bool = False,
) -> Drawn:
    """Rows of mean, low and high, or empty, and single values of each row, on a scale that holds them all."""
    known = [x for row in (*rows, *dots) for x in row if math.isfinite(x)] + [0.0] * zero
    low, high = min(known, default=0.0), max(known, default=0.0)
    low, high = (low, high) if high > low else (low - 0.5, high + 0.5)

    def share(value: float) -> float | None:
        at = EDGE + (1 - 2 * EDGE) * (value - low) / (high - low)
        return round(at, 4) if math.isfinite(value) else None

    of_rows = dots or [()] * len(rows)
    marks: list[Mark | None] = []
    for row, own in zip(rows, of_rows, strict=True):
        single = [at for value in own if (at := share(value)) is not None]
        ends = [share(value) for value in row or [math.nan] * 3]
        marks.append(Mark(ends[0], ends[1], ends[2], single) if row else None)
    return Drawn(title, (f"{low:.3g}", f"{high:.3g}"), marks, share(0.0) if zero else None)


def blocks(comparison: Comparison, root: Path | None = None, *, seeds: bool = False) -> dict[str, Any]:
    """All that the template shows of a comparison but its figures; folders below ``root``, with ``seeds``."""
    return document.contents(comparison) | {
        "mains": [_main(one, root, seeds=seeds) for one in comparison.each],
        "pairs": _pairs(comparison),
        "measures": _measures(comparison),
        "baseline": comparison.baseline.choice.label,
    }


def figures(plots: Sequence[Plot]) -> list[tuple[str, str, list[Plot]]]:
    """The groups that have any of ``plots``: name, title, and their figures in order."""
    drawn = {plot.name: plot for plot in plots}
    own = [(name, title, [drawn[one] for one in names if one in drawn]) for name, title, names in GROUPS]
    return [group for group in own if group[2]]


def _colours(comparison: Comparison) -> list[str]:
    styles = styles_of(comparison)
    return [css(styles[row.choice.label]) for row in comparison.rows]


def _main(comparison: Comparison, root: Path | None, *, seeds: bool) -> Sheet:
    metric, rows = comparison.metric, comparison.rows
    words = dict(document.method(comparison))
    each = [[metric.shown(value) for value in row.finite.values()] for row in rows]
    ends = [[metric.within(x) for x in (s.mean, s.low, s.high)] for s in (row.summary for row in rows)]
    values = [list(map(metric.shown, row)) for row in ends]
    against = [row.versus and row.versus.summary for row in rows]
    steps = [[metric.shown(x) for x in (s.mean, s.low, s.high)] if s else [] for s in against]
    title = f"mean and interval of {metric.header}"
    plots = {2: drawn(title, values, each if seeds else ())}
    if len(rows) > 1:
        plots[4] = drawn("difference and interval", steps, zero=True)
    return Sheet(
        columns.main_columns(comparison),
        ["", "Seeds with a number.", document.definition(metric), words["Intervals"]]
        + [words["Differences"]] * 2
        + [words["Words"]],
        plots,
        _colours(comparison),
        [
            [
                (str(seed), metric.format(row.values.get(seed, math.nan)), _below(run.folder, root))
                for seed, run in row.choice.runs.items()
            ]
            for row in rows
        ],
    )


def _below(folder: Path, root: Path | None) -> str:
    return folder.relative_to(root).as_posix() if root else str(folder)


def _measures(comparison: Comparison) -> list[Sheet]:
    own: dict[str, Measure] = {one.header: one for one in comparison.measures}
    found = []
    for table in columns.measure_tables(comparison):
        terms = ["", *(document.definition(own[column.header]) for column in table[1:])]
        found.append(Sheet(table, terms, colours=_colours(comparison)))
    return found


def _pairs(comparison: Comparison) -> Sheet | None:
    table = columns.pair_columns(comparison)
    if not table:
        return None
    words = dict(document.method(comparison))["Differences"]
    return Sheet(table, ["", *[words] * (len(table) - 1)], colours=_colours(comparison)[1:])


def rendered(stem: str, template: str, **values: Any) -> dict[str, str]:
    """Markdown, with pictures in files beside it, and HTML with all embedded, by macros called ``show``."""
    found = {}
    for kind in ("md", "html"):
        show: Any = blocks_of(kind)
        body = environment(kind).get_template(template).render(show=show, **values)
        # Folder names need not be UTF-8.
        page = str(show.page(values["title"], body)).encode("utf-8", "backslashreplace")
        found[f"{stem}.{kind}"] = page.decode()
    return found


def notebook(comparison: Comparison) -> str:
    """The part of a page that a notebook shows: everything but the figures."""
    show = blocks_of("html")
    values = blocks(comparison) | {"groups": [], "command": ""}
    return str(show.part(environment("html").get_template("compare.jinja").render(show=show, **values)))


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
        "terms": lambda texts: [("", text) for text in texts],
    }
    found.filters |= filters
    found.globals["style"] = (files(__package__) / "templates" / "page.css").read_text(encoding="utf-8")
    return found
