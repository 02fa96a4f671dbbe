"""A document as Markdown, pictures beside it."""

from collections.abc import Sequence

from cnnpool import tables
from cnnpool.report.document import Block, Code, Heading, Items, Paragraph, Table
from cnnpool.tables import markdown_text as _escape


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
            return tables.markdown(columns)
        case Code(text):
            return f"```\n{text}\n```"
        case plot:
            return f"![{_escape(plot.caption)}]({plot.name}.svg)\n\n{_escape(plot.caption)}"
