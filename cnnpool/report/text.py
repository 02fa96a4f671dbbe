"""A comparison for the terminal: as wide as it is, further columns below, nothing cut."""

import textwrap

from cnnpool import tables
from cnnpool.report.columns import main_columns, measure_columns, ranking
from cnnpool.report.comparison import Comparison

MOST_NOTES = 12
COLOURS = {"better": "\x1b[32m", "higher": "\x1b[32m", "worse": "\x1b[31m", "lower": "\x1b[31m"}


def render(comparison: Comparison, *, width: int, colour: bool) -> str:
    """The comparison as plain text of lines of at most ``width`` characters, if every single column fits.

    Args:
        comparison: what to show.
        width: of the terminal, in characters.
        colour: verdicts in green and red.
    """
    parts = [tables.text(main_columns(comparison), width), tables.text(measure_columns(comparison), width)]
    text = "\n".join(part for part in parts if part)
    text += f"\n{textwrap.fill(ranking(comparison), width, break_long_words=False)}\n"
    if comparison.notes:
        shown = comparison.notes[:MOST_NOTES]
        rest = len(comparison.notes) - len(shown)
        text += "\nnotes\n" + "".join(f"  {note}\n" for note in shown)
        text += f"  and {rest} more, all of them in the report\n" if rest else ""
    return _coloured(text) if colour else text


def _coloured(text: str) -> str:
    lines = []
    for line in text.split("\n"):
        word = line.rpartition(tables.GAP)[2]
        lines.append(line.removesuffix(word) + f"{COLOURS[word]}{word}\x1b[0m" if word in COLOURS else line)
    return "\n".join(lines)
