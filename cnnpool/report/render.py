"""A document as HTML and Markdown, and a comparison as LaTeX and as text for the terminal."""

import base64
import re
import textwrap
from collections.abc import Sequence
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from cnnpool import tables
from cnnpool.report.columns import main_columns, measure_columns, measure_tables, ranking
from cnnpool.report.comparison import Comparison
from cnnpool.report.document import Block

MOST_NOTES = 12
COLOURS = {"better": "\x1b[32m", "higher": "\x1b[32m", "worse": "\x1b[31m", "lower": "\x1b[31m"}


def html(title: str, blocks: Sequence[Block]) -> str:
    """One page with style and pictures inside, which fetches nothing and can be sent as it is."""
    return _rendered("report.html", title, blocks)


def markdown(title: str, blocks: Sequence[Block]) -> str:
    """The blocks under their title, pictures in files beside the page."""
    return _rendered("report.md", title, blocks)


def latex(comparison: Comparison) -> str:
    """The tables of the report as ``tabular`` environments; the preamble needs booktabs."""
    shown = [main_columns(comparison), *measure_tables(comparison)]
    return "% needs \\usepackage{booktabs}\n" + "\n".join(map(tables.latex, filter(None, shown)))


def text(comparison: Comparison, *, width: int, colour: bool) -> str:
    """The comparison as plain text of lines of at most ``width`` characters, if every single column fits.

    Args:
        comparison: what to show.
        width: of the terminal, in characters.
        colour: verdicts in green and red.
    """
    parts = [tables.text(main_columns(comparison), width), tables.text(measure_columns(comparison), width)]
    shown = "\n".join(part for part in parts if part)
    shown += f"\n{textwrap.fill(ranking(comparison), width, break_long_words=False)}\n"
    if comparison.notes:
        first = comparison.notes[:MOST_NOTES]
        rest = len(comparison.notes) - len(first)
        shown += "\nnotes\n" + "".join(f"  {note}\n" for note in first)
        shown += f"  and {rest} more, all of them in the report\n" if rest else ""
    return _coloured(shown) if colour else shown


def _rendered(template: str, title: str, blocks: Sequence[Block]) -> str:
    named = [(type(block).__name__, block) for block in blocks]
    text = _environment().get_template(template).render(title=title, blocks=named)
    # Names of folders need not be UTF-8.
    return text.encode("utf-8", "backslashreplace").decode()


@cache
def _environment() -> Environment:
    found = Environment(
        loader=PackageLoader("cnnpool.report"),
        autoescape=lambda name: (name or "").endswith(".html"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    filters: dict[str, Any] = {
        "base64": lambda content: base64.b64encode(content).decode(),
        "escaped": tables.markdown_text,
        "fence": _fence,
        "printable": tables.printable,
        "table": tables.markdown,
    }
    found.filters |= filters
    return found


def _fence(text: str) -> str:
    """Longer than any row of backticks in ``text``, so that none ends its block."""
    return "`" * max([3, *(len(marks) + 1 for marks in re.findall("`+", text))])


def _coloured(text: str) -> str:
    lines = []
    for line in text.split("\n"):
        word = line.rpartition(tables.GAP)[2]
        lines.append(line.removesuffix(word) + f"{COLOURS[word]}{word}\x1b[0m" if word in COLOURS else line)
    return "\n".join(lines)
