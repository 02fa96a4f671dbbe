"""Colour, mark and dash of every choice, the same in all figures of a report; and which choices they show."""

from collections.abc import Mapping
from dataclasses import dataclass

from cnnpool.report.comparison import Comparison
from cnnpool.report.row import Row

# The first seven by Okabe and Ito 2008, yellow left out: it vanishes on white. Each of the others is the
# farthest from all before it in OKLab, as seen with and without protanopia and deuteranopia.
COLOURS = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#780F4B",
    "#0000FF", "#3C2D96", "#784B00", "#9669FF", "#875A78", "#D200B4", "#C31E4B", "#FF4B69",
    "#2D694B", "#FF78D2", "#781E00", "#5A00D2", "#4B4B78", "#4B5AE1", "#87B496", "#7896FF",
)  # fmt: skip
MARKS = "osD^vPX*<>"
DASHES = ("-", "--", "-.", ":")
MOST = 12
"""Choices that a figure with a panel or an entry of the legend for each can hold."""


@dataclass(frozen=True)
class Look:
    """How a choice is drawn."""

    colour: str
    mark: str
    dash: str


def look(index: int) -> Look:
    """The look at ``index``: no two of the first 24 share a colour, no two of the first 48 are alike."""
    lap = index // len(COLOURS)
    mark = MARKS[(index + lap) % len(MARKS)]
    return Look(COLOURS[index % len(COLOURS)], mark, DASHES[(index // 7 + lap) % len(DASHES)])


def shown(comparison: Comparison) -> list[Row]:
    """The baseline and the best of the others by the metric's mean, in the comparison's order.

    All choices if there are no more than ``MOST``; neither sense better, the first of them.
    """
    first, *others = comparison.rows
    sense = comparison.metric.sense
    if sense:
        known = [row for row in others if row.summary.n]
        others = sorted(known, key=lambda row: -sense * row.summary.mean)
    best = {row.choice.label for row in [first, *others[: MOST - 1]]}
    few = len(comparison.rows) <= MOST
    return [row for row in comparison.rows if few or row.choice.label in best]


def looks(comparison: Comparison) -> Mapping[str, Look]:
    """Label -> look, those that all figures show before the others."""
    first = [row.choice.label for row in shown(comparison)]
    labels = dict.fromkeys([*first, *(row.choice.label for row in comparison.rows)])
    return {label: look(index) for index, label in enumerate(labels)}


def of_all(comparison: Comparison) -> str:
    """Says in a caption which choices a figure shows; empty if these are all."""
    rows = shown(comparison)
    if len(rows) == len(comparison.rows):
        return ""
    base, kind = comparison.baseline.choice.label, "best" if comparison.metric.sense else "first"
    return f" Shown: {base} and the {len(rows) - 1} {kind} of the {len(comparison.rows) - 1} others."
