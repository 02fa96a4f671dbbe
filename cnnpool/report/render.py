"""A comparison as a report, tables as CSV and LaTeX, text for the terminal, and records from Python."""

import json
import os
import re
import shlex
import textwrap
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from cnnpool import tables
from cnnpool.json_text import finite
from cnnpool.report import columns, document, page
from cnnpool.report.comparison import Comparison
from cnnpool.report.comparison import compare as _compare
from cnnpool.report.foreign import UNPAIRED, Asked, read
from cnnpool.report.pairwise import in_short
from cnnpool.report.plots import Plot
from cnnpool.report.runs import COMMAND, REPORT, is_report, keys_of
from cnnpool.system.atomic import write_bytes

MOST_NOTES = 3
WIDTH = 160  # Characters per line of a table from Python
COLOURS = {"better": "\x1b[32m", "higher": "\x1b[32m", "worse": "\x1b[31m", "lower": "\x1b[31m"}
FITTED = r"""\resizebox*{!}{\ifdim\totalheight>\textheight\textheight\else\totalheight\fi}{%
\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"""
ALPHABET = (
    "% and \\usepackage[T1]{fontenc}; letters that it lacks need lualatex or xelatex, and a font with them\n"
)


def write(comparison: Comparison, folder: Path, argv: Sequence[str], plots: Sequence[Plot]) -> None:
    """Write report.md, report.html, tables, the numbers of every run, and ``plots`` as PNG and SVG."""
    files = {
        REPORT: _json(comparison, argv),
        **pages(comparison, plots, argv),
        "table.csv": tables.csv(columns.records(comparison)),
        "runs.csv": tables.csv(columns.runs(comparison)),
        "table.tex": latex(comparison),
    }
    if answers := columns.correct(comparison):
        files["correct.csv"] = tables.csv(answers, base64=["bits"])
    put(files, plots, folder)


def pages(comparison: Comparison, plots: Sequence[Plot], argv: Sequence[str]) -> dict[str, str]:
    contents = page.contents(comparison, page.figures(plots), command=shlex.join([*COMMAND, *argv]))
    return page.pages("report", "compare.jinja", **contents)


def latex(comparison: Comparison) -> str:
    """The tables of the report as ``tabular`` environments no larger than a page, verdicts in few words."""
    mains = []
    for one in comparison.each:
        *numbers, verdicts = columns.main_columns(one)
        mains.append([*numbers, replace(verdicts, cells=list(map(in_short, verdicts.cells)))])
    body = "\n\\bigskip\n\n".join(
        f"\\noindent{FITTED}\n{tables.latex(one)}}}}}\n"
        for one in [*mains, *columns.measure_tables(comparison)]
    )
    letters = "" if body.isascii() else ALPHABET
    return f"% needs \\usepackage{{booktabs,graphicx}}\n{letters}{body}"


def text(comparison: Comparison, *, width: int, colour: bool, whole: bool = False) -> str:
    """The comparison in lines of ``width`` characters; ``whole``: with other measures and every note."""
    shown = "".join(f"{_filled(one, width)}\n" for one in document.headline(comparison))
    for one in comparison.each:
        shown += f"\n{tables.text(columns.main_columns(one), width)}\n"
        shown += "".join(f"{_filled(line, width)}\n" for line in document.remarks(one))
    if whole:
        shown += "".join(f"\n{tables.text(one, width)}" for one in columns.measure_tables(comparison))
    if comparison.notes:
        first = comparison.notes if whole else comparison.notes[:MOST_NOTES]
        rest = len(comparison.notes) - len(first)
        shown += "\nnotes\n" + "".join(f"  {tables.printable(note)}\n" for note in first)
        shown += f"  and {rest} more: --all, or the report\n" if rest else ""
    if (more := len(comparison.measures) - len(comparison.also)) and not whole:
        shown += f"\n{more} more measure{'s' * (more > 1)}: --all, or the report\n"
    if not colour:
        return shown
    verdict = re.compile(rf"(?<={tables.GAP})({'|'.join(COLOURS)})$", re.MULTILINE)
    return verdict.sub(lambda found: f"{COLOURS[found[0]]}{found[0]}\x1b[0m", shown)


def _filled(sentence: str, width: int) -> str:
    return textwrap.fill(
        sentence, width, break_long_words=False, break_on_hyphens=False, subsequent_indent="  "
    )


def refuse_foreign(folder: Path) -> None:
    """Raise unless ``folder`` is missing, empty, or holds a report of ``cnnpool compare``."""
    try:
        with suppress(FileNotFoundError):
            names = sorted(os.listdir(folder))
            if names and not is_report(folder):
                more = f" and {len(names) - 1} more" if len(names) > 1 else ""
                raise ValueError(
                    f"--out {folder} holds files that are not a report of cnnpool ({names[0]}{more}): "
                    "choose a new or empty folder with --out"
                )
    except OSError as error:
        raise _unwritable(folder, error) from error


def put(files: Mapping[str, str], plots: Sequence[Plot], folder: Path) -> None:
    """Write ``files``, name -> content, and both files of each plot, each completely or not at all."""
    contents = {name: text.encode("utf-8", "backslashreplace") for name, text in files.items()}
    for plot in plots:
        contents |= {f"{plot.name}.png": plot.png, f"{plot.name}.svg": plot.svg}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            write_bytes(folder / name, content, flush=False)
    except OSError as error:
        raise _unwritable(folder, error) from error


def _unwritable(folder: Path, error: OSError) -> ValueError:
    return ValueError(
        f"{folder} cannot be written: {error.strerror}; name another folder by compare --out or choose.out"
    )


def _json(comparison: Comparison, argv: Sequence[str]) -> str:
    content = {
        "schema": 1,
        "command": [*COMMAND, *argv],
        "metric": comparison.metric.key,
        "by": comparison.by,
        "baseline": comparison.baseline.choice.label,
        "choices": columns.records(comparison),
        "notes": comparison.notes,
        "runs": [
            {"folder": str(run.folder), "state": run.state, "reason": run.reason} for run in comparison.runs
        ],
    }
    return json.dumps(finite(content), indent=1, ensure_ascii=False) + "\n"


class Table(list[dict[str, Any]]):
    """One record per choice and metric, as in ``table.csv``; prints as the text of ``cnnpool compare``.

    A notebook shows the report's page in its place.
    """

    def __init__(self, comparison: Comparison):
        super().__init__(columns.records(comparison))
        self.comparison = comparison

    def __repr__(self) -> str:
        return text(self.comparison, width=WIDTH, colour=False)

    def _repr_html_(self) -> str:
        return page.notebook(self.comparison)


def compare(
    data: Any,
    metric: str | Sequence[str] = "",
    *,
    by: str | Sequence[str] = "",
    seed: str = "",
    runs: str = "",
    where: Sequence[str] = (),
    baseline: str | float | None = None,
    allow: Sequence[str] = (),
    best: Literal["", "max", "min"] = "",
    last: int | None = None,
    decimal: str = ".",
    margin: str | float | None = None,
) -> Table:
    """Compare runs of cnnpool, or those of other programs, as ``cnnpool compare`` does.

    Returns one flat dict per choice and metric, ready for ``pandas.DataFrame``. A ValueError of a few lines
    says which arguments are invalid, or which runs cannot be compared.

    Args:
        data: the path of a folder of runs or logs, or of a CSV file with a row a run, or several paths; or a
            table with a row a run, as a frame of pandas or polars, a mapping of columns or a list of dicts.
        metric: one, or several by commas or in a list; empty for ``test.accuracy``. Runs of other programs
            need it named.
        by: keys, by commas or in a list, that define a choice: of other programs columns or parameters.
        seed: of other programs, the column or parameter with the number of a run, >= 0; ``"none"``, of any
            runs: no pairs.
        runs: the paths of other programs' runs, such as ``"{group}/seed_{seed}"``; its parts are keys.
        where: conditions ``KEY=VALUE`` that a run must meet.
        baseline: the choice with which the others are compared, by its label or a value in it.
        allow: keys that may differ within a choice.
        best: for logs, the better direction; without ``last``, use the best value of each run.
        last: for logs, the mean of this many last points, >= 1; the last one without ``best``.
        decimal: the decimal sign of CSV files.
        margin: largest difference that does not matter, > 0, or a share of the baseline's errors as in "10%".
    """
    metrics, keys, allowed = keys_of(metric), keys_of(by), keys_of(allow)
    where = [where] if isinstance(where, str) else where
    every = read(data, Asked(metrics, keys, seed, runs, where, decimal, best, last))
    found = partial(_compare, every, by=keys, where=where, metric=metrics, against=baseline, allow=allowed)
    return Table(found(margin=margin, independent=seed == UNPAIRED))
