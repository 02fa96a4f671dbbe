"""Tables for a paper: LaTeX with booktabs."""

from collections.abc import Sequence

from cnnpool.report.columns import Column, main_columns, measure_tables
from cnnpool.report.comparison import Comparison

MARKS = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "–": "--",
    "<": "$<$",
    ">": "$>$",
} | {mark: f"\\{mark}" for mark in "&%$#_"}


def render(comparison: Comparison) -> str:
    """The tables of the report as ``tabular`` environments; the preamble needs booktabs."""
    tables = [main_columns(comparison), *measure_tables(comparison)]
    return "% needs \\usepackage{booktabs}\n" + "\n".join(_tabular(columns) for columns in tables if columns)


def _tabular(columns: Sequence[Column]) -> str:
    layout = "".join("l" if column.words else "r" for column in columns)
    rows = "".join(_row(cells) for cells in zip(*(column.cells for column in columns), strict=True))
    head = _row([column.header for column in columns])
    return (
        f"\\begin{{tabular}}{{{layout}}}\n\\toprule\n{head}\\midrule\n{rows}\\bottomrule\n\\end{{tabular}}\n"
    )


def _row(cells: Sequence[str]) -> str:
    return " & ".join("".join(MARKS.get(mark, mark) for mark in cell) for cell in cells) + " \\\\\n"
