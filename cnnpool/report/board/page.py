"""Text and charts of the comparison's pages in TensorBoard."""

from collections.abc import Iterable

from cnnpool.report import glossary, markdown
from cnnpool.report.columns import main_columns, measure_tables, ranking
from cnnpool.report.comparison import Comparison
from cnnpool.report.document import Block, Heading, Items, Paragraph, Table

PAGES = {
    "accuracy and loss": ("val", "test", "train", "epoch"),
    "gradient routing": ("gradient",),
    "shift invariance": ("invariance",),
    "cost": ("cost",),
}


def layout(tags: Iterable[str]) -> dict[str, list[str]]:
    """Title of a page of custom scalars -> its scalars, a chart each with a line per choice.

    Tags finer than section/quantity/stage have no chart: there are dozens.
    """
    shown = sorted(tag for tag in tags if tag.count("/") < 3)
    pages = {}
    for title, sections in PAGES.items():
        charts = [tag for section in sections for tag in shown if tag.startswith(f"{section}/")]
        if charts:
            # TensorBoard draws a page's charts from the last to the first.
            pages[f"choices: {title}"] = charts[::-1]
    return pages


def summary(comparison: Comparison) -> str:
    """The comparison's tables, ranking and notes as Markdown."""
    by = ", ".join(comparison.by)
    blocks: list[Block] = [Table(main_columns(comparison)), Paragraph(ranking(comparison))]
    if tables := measure_tables(comparison):
        blocks += [Heading("What else was measured, means over seeds"), *map(Table, tables)]
    blocks += [Heading("Glossary"), Items(glossary.entries(comparison))]
    if comparison.notes:
        blocks += [Heading("Warnings"), Items([("", note) for note in comparison.notes])]
    return markdown.render(f"{comparison.metric.title} by {by}", blocks)
