"""Tables, passages and files of the pages of ``docs``, for all scripts that write them."""

from collections.abc import Sequence
from pathlib import Path

from cnnpool import tables

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[str] = ()) -> str:
    """Markdown of cells that are Markdown themselves; columns of ``numbers`` stand to the right."""
    return tables.markdown(tables.from_rows(headers, rows, numbers=numbers), markup=True)


def filled(text: str, name: str, passage: str) -> str:
    """A page's ``text`` with the passage of that name."""
    start, end = (f"<!-- {name}: {word} -->" for word in ("begin", "end"))
    before, rest = text.split(start)
    return f"{before}{start}\n\n{passage}\n\n{end}{rest.split(end)[1]}"


def write(name: str, text: str) -> None:
    """Write a page below ``docs``, or beside it, and say so."""
    path = DOCS / name
    path.write_text(text, "utf-8")
    print(f"wrote {path}")
