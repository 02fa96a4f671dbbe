"""Tables in four formats: columns of text as plain text, Markdown and LaTeX, and records as CSV."""

import csv as csv_module
import io
import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

GAP = "  "
SIGNS = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho varsigma sigma tau "
    "upsilon phi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega "
    "mu times to ne approx infty"
)
LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "−": "$-$",
    "†": r"\textdagger{}",
    "≥": r"$\ge$",
    "≤": r"$\le$",
    "–": "--",
    "<": "$<$",
    ">": "$>$",
    "|": r"\textbar{}",
    "°": r"\textdegree{}",
    "…": r"\dots{}",
    **{mark: f"\\{mark}" for mark in "&%$#_"},
    **{
        mark: f"$\\{name}$"
        for mark, name in zip("αβγδεζηθικλμνξπρςστυφχψωΓΔΘΛΞΠΣΥΦΨΩµ×→≠≈∞", SIGNS.split(), strict=True)
    },
}
"""LaTeX escapes of special characters; accented letters stay unchanged."""
LONGEST = {"header": 16, "cell": 40}  # Most characters on one line of a LaTeX table
FORMULA = ("=", "+", "-", "@")  # First characters that make a spreadsheet read a text as a formula


@dataclass(frozen=True)
class Column:
    """A header and one cell per row; ``words`` are aligned left, numbers right."""

    header: str
    cells: list[str]
    words: bool = False


def from_rows(
    headers: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Collection[str] = ()
) -> list[Column]:
    """The columns of a table given by rows; those whose header is in ``numbers`` are aligned right."""
    cells = zip(*rows, strict=True) if rows else ([] for _ in headers)
    return [
        Column(header, list(column), header not in numbers)
        for header, column in zip(headers, cells, strict=True)
    ]


def text(columns: Sequence[Column], width: int | None = None) -> str:
    """Plain text, in several tables with the same first column if it would be wider than ``width``."""
    return "\n".join(_table(part) for part in _split(columns, width))


def line(cells: Sequence[str], widths: Sequence[int], words: Collection[int] = ()) -> str:
    """One row of a plain-text table that is printed row by row; the columns at ``words`` are aligned left."""
    padded = [
        printable(cell).ljust(width) if place in words else printable(cell).rjust(width)
        for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return GAP.join(padded).rstrip() + "\n"


def markdown(columns: Sequence[Column], *, markup: bool = False) -> str:
    """A Markdown table without a newline after its last row; cells with ``markup`` are Markdown already."""
    rows = [[column.header for column in columns], *by_row(columns)]
    lines = [f"| {' | '.join(markdown_text(cell, markup=markup) for cell in cells)} |" for cells in rows]
    rule = f"| {' | '.join(':---' if column.words else '---:' for column in columns)} |"
    return "\n".join([lines[0], rule, *lines[1:]])


def markdown_text(cell: str, *, markup: bool = False) -> str:
    """``cell`` on one line with special characters escaped; with ``markup``, only the column separators."""
    for mark in "|" if markup else "\\`*_[]<>|#":
        cell = cell.replace(mark, f"\\{mark}")
    return printable(cell)


def latex(columns: Sequence[Column]) -> str:
    """A ``tabular`` environment; the preamble needs booktabs. Negative numbers get a minus, not a hyphen."""
    layout = "".join("l" if column.words else "r" for column in columns)
    rows = [[_latex(column.header, LONGEST["header"], column.words) for column in columns]]
    for cells in by_row(columns):
        pairs = zip(cells, columns, strict=True)
        rows.append([_latex(cell, LONGEST["cell"], column.words) for cell, column in pairs])
    # LaTeX reads a star or bracket at the start of a row as an option of the line break before it.
    head, *body = (re.sub(r"^(?=[*\[])", "{}", " & ".join(cells)) + " \\\\\n" for cells in rows)
    return (
        f"\\begin{{tabular}}{{{layout}}}\n\\toprule\n{head}\\midrule\n"
        f"{''.join(body)}\\bottomrule\n\\end{{tabular}}\n"
    )


def csv(records: Sequence[Mapping[str, Any]], base64: Collection[str] = ()) -> str:
    """Records as CSV, with the keys of the first; None becomes an empty cell, no text a formula.

    Columns of ``base64`` stay as they are: a formula that does anything has characters that it lacks.
    """
    if not records:
        return ""
    stream = io.StringIO()
    writer = csv_module.DictWriter(stream, list(records[0]), lineterminator="\n")
    writer.writeheader()
    for record in records:
        writer.writerow({k: value if k in base64 else _harmless(value) for k, value in record.items()})
    return stream.getvalue()


def printable(cell: str) -> str:
    """``cell`` on one line, with control characters and broken encodings escaped."""
    cell = " ".join(cell.split())
    if cell.isprintable():
        return cell
    return "".join(
        mark if mark.isprintable() else mark.encode("unicode_escape", "surrogatepass").decode()
        for mark in cell
    )


def by_row(columns: Sequence[Column]) -> list[tuple[str, ...]]:
    return list(zip(*(column.cells for column in columns), strict=True))


def _split(columns: Sequence[Column], width: int | None) -> list[list[Column]]:
    """The columns in groups that fit ``width``, each starting with the first column."""
    if not columns:
        return []
    first, *others = columns
    parts = [[first]]
    for column in others:
        taken = [*parts[-1], column]
        if width is not None and len(taken) > 2 and _width(taken) > width:
            parts.append([first, column])
        else:
            parts[-1] = taken
    return parts


def _table(columns: Sequence[Column]) -> str:
    widths = [_widest(column) for column in columns]
    words = {place for place, column in enumerate(columns) if column.words}
    head: list[Sequence[str]] = []
    if any(column.header for column in columns):
        head = [[column.header for column in columns], ["-" * width for width in widths]]
    return "".join(line(cells, widths, words) for cells in [*head, *by_row(columns)])


def _widest(column: Column) -> int:
    return max(len(printable(cell)) for cell in [column.header, *column.cells])


def _width(columns: Sequence[Column]) -> int:
    return sum(map(_widest, columns)) + len(GAP) * (len(columns) - 1)


def _latex(cell: str, longest: int, words: bool) -> str:
    # File systems may store an accent as a separate character, which pdflatex rejects.
    cell = unicodedata.normalize("NFC", printable(cell))
    shown = "".join(LATEX.get(mark, mark) for mark in re.sub(r"(?<![\w.])-(?=[\d.])", "−", cell))
    if len(cell) <= longest:
        return shown
    side = "raggedright" if words else "raggedleft"
    place = "b" if longest == LONGEST["header"] else "t"
    broken = re.sub(r"(\\_|[,/])(?=\S)", r"\1\\allowbreak ", shown).replace(r" \%", r"~\%")
    return rf"\parbox[{place}]{{{longest // 2}em}}{{\{side} {broken}\strut}}"


def _harmless(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    shown = printable(value)
    return f"'{shown}" if shown.startswith(FORMULA) else shown
