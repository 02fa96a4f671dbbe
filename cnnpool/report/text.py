"""Tables for the terminal: as wide as it is, further columns below, nothing cut."""

import textwrap
from collections.abc import Sequence

from cnnpool.report.columns import Column, main_columns, measure_columns, ranking
from cnnpool.report.comparison import Comparison

GAP = "  "
MOST_NOTES = 12
COLOURS = {"better": "\x1b[32m", "higher": "\x1b[32m", "worse": "\x1b[31m", "lower": "\x1b[31m"}


def render(comparison: Comparison, *, width: int, colour: bool) -> str:
    """The comparison as plain text of lines of at most ``width`` characters, if every single column fits.

    Args:
        comparison: what to show.
        width: of the terminal, in characters.
        colour: verdicts in green and red.
    """
    parts = [*wrapped(main_columns(comparison), width), *wrapped(measure_columns(comparison), width)]
    text = "\n".join(parts) + f"\n{textwrap.fill(ranking(comparison), width, break_long_words=False)}\n"
    if comparison.notes:
        shown = comparison.notes[:MOST_NOTES]
        rest = len(comparison.notes) - len(shown)
        text += "\nnotes\n" + "".join(f"  {note}\n" for note in shown)
        text += f"  and {rest} more, all of them in the report\n" if rest else ""
    return _coloured(text) if colour else text


def wrapped(columns: Sequence[Column], width: int) -> list[str]:
    """One table of all columns or, where that is too wide, several, each led by the first column."""
    tables, taken = [], list(columns[:1])
    for column in columns[1:]:
        if len(taken) > 1 and _width([*taken, column]) > width:
            tables.append(table(taken))
            taken = [columns[0]]
        taken.append(column)
    return [*tables, table(taken)] if len(taken) > 1 else tables


def table(columns: Sequence[Column]) -> str:
    """Columns side by side under their headers and a rule."""
    lines = []
    for cells in zip(
        *([column.header, "-" * _widest(column), *column.cells] for column in columns), strict=True
    ):
        padded = [
            cell.ljust(_widest(column)) if column.words else cell.rjust(_widest(column))
            for cell, column in zip(cells, columns, strict=True)
        ]
        lines.append(GAP.join(padded).rstrip())
    return "\n".join(lines) + "\n"


def _widest(column: Column) -> int:
    return max(map(len, [column.header, *column.cells]))


def _width(columns: Sequence[Column]) -> int:
    return sum(map(_widest, columns)) + len(GAP) * (len(columns) - 1)


def _coloured(text: str) -> str:
    lines = []
    for line in text.split("\n"):
        word = line.rpartition(GAP)[2]
        lines.append(line.removesuffix(word) + f"{COLOURS[word]}{word}\x1b[0m" if word in COLOURS else line)
    return "\n".join(lines)
