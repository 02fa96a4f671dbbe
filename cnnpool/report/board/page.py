"""Text and charts of the comparison's pages in TensorBoard."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from cnnpool.report import glossary, markdown
from cnnpool.report.columns import main_columns, measure_tables, ranking
from cnnpool.report.comparison import Comparison
from cnnpool.report.document import Block, Heading, Items, Paragraph, Table
from cnnpool.run_folder.pages import pages
from cnnpool.tables import Column

WIDEST = 4
"""Columns of a table; TensorBoard breaks words rather than let one be wider than its window."""


def layout(tags: Iterable[str]) -> dict[str, list[str]]:
    """Title of a page of custom scalars -> its scalars, each drawn as the choices' means with a band."""
    return {f"{title}, with intervals": charts for title, charts in pages(tags).items()}


def summary(comparison: Comparison) -> str:
    """The comparison's tables, ranking and notes as Markdown."""
    by = ", ".join(comparison.by)
    blocks: list[Block] = [*_narrow(main_columns(comparison)), Paragraph(ranking(comparison))]
    if tables := measure_tables(comparison):
        blocks += [Heading("What else was measured, means over seeds")]
        blocks += [part for table in tables for part in _narrow(table)]
    if comparison.notes:
        blocks += [Heading("Warnings"), Items([("", note) for note in comparison.notes])]
    blocks += [Heading("Glossary"), Items(glossary.entries(comparison))]
    return markdown.render(f"{comparison.metric.title} by {by}", blocks)


def _narrow(columns: list[Column]) -> Iterator[Table]:
    """The columns in tables of few, each led by the first; numbers stay in one line."""
    first, *others = (
        one if one.words else replace(one, cells=[cell.replace(" ", "&nbsp;") for cell in one.cells])
        for one in columns
    )
    for start in range(0, len(others), WIDEST - 1):
        yield Table([first, *others[start : start + WIDEST - 1]])
