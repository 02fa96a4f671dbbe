"""A document as Markdown, pictures beside it."""

from collections.abc import Sequence

from cnnpool.report.columns import Column
from cnnpool.report.document import Block, Code, Heading, Items, Paragraph, Table


def render(title: str, blocks: Sequence[Block]) -> str:
    """The blocks under their title."""
    return "\n\n".join([f"# {_escape(title)}", *map(_block, blocks)]) + "\n"


def _block(block: Block) -> str:
    match block:
        case Heading(text):
            return f"## {_escape(text)}"
        case Paragraph(text):
            return _escape(text)
        case Items(items):
            return "\n".join(f"- {f'**{term}**: ' if term else ''}{_escape(text)}" for term, text in items)
        case Table(columns):
            return _table(columns)
        case Code(text):
            return f"```\n{text}\n```"
        case plot:
            return f"![{_escape(plot.caption)}]({plot.name}.svg)\n\n{_escape(plot.caption)}"


def _table(columns: Sequence[Column]) -> str:
    rows = [[column.header for column in columns], *zip(*(column.cells for column in columns), strict=True)]
    lines = [f"| {' | '.join(map(_escape, cells))} |" for cells in rows]
    rule = f"| {' | '.join(':---' if column.words else '---:' for column in columns)} |"
    return "\n".join([lines[0], rule, *lines[1:]])


def _escape(text: str) -> str:
    for mark in "\\`*_[]<>|#":
        text = text.replace(mark, f"\\{mark}")
    return " ".join(text.split())
