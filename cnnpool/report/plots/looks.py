"""Colour, mark and dash of every choice, the same in all figures of a report; and which choices they show.

Figures name a colour by its place, "C3": their theme decides what it is, see ``cnnpool.report.plots.plot``.
"""

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
# The same for dark pages: at each place the nearest to the colour above that is seen on #303030 and keeps
# apart from the others, with and without these deficits.
ON_DARK = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#FFFFFF", "#B64879",
    "#0061FF", "#7955DA", "#91613C", "#9D79FF", "#6D6D91", "#D200B4", "#DA2448", "#FF4B69",
    "#6DB691", "#FF78D2", "#FF916D", "#6D85DA", "#AAC2F2", "#DADAFF", "#9DCEAA", "#FFB6CE",
)  # fmt: skip
MARKS = "osD^vPX*<>"
DASHES = ("-", "--", "-.", ":")
MOST = 12
"""Choices that a figure with a line or an entry of the legend for each can hold."""
BEST = 6
"""Of more than ``MOST`` choices, those that have a panel each: nobody compares more."""


@dataclass(frozen=True)
class Look:
    """How a choice is drawn."""

    colour: str
    mark: str
    dash: str


def look(index: int) -> Look:
    """The look at ``index``: no two of the first 24 share a colour, no two of the first 240 are alike."""
    lap = index // len(COLOURS)
    # A lap is 24, so that three marks more make it 27: each lap gives a colour a mark that it had not.
    mark = MARKS[(index + 3 * lap) % len(MARKS)]
    return Look(f"C{index % len(COLOURS)}", mark, DASHES[(index // 7 + lap) % len(DASHES)])


def shown(comparison: Comparison, most: int = MOST) -> list[Row]:
    """The baseline and the best of the others by the metric's mean, in the comparison's order.

    All choices if there are no more than ``MOST``, else ``most``; neither sense better, the first of them.
    """
    first, *others = comparison.rows
    sense = comparison.metric.sense
    if sense:
        known = [row for row in others if row.summary.n]
        others = sorted(known, key=lambda row: -sense * row.summary.mean)
    best = {row.choice.label for row in [first, *others[: most - 1]]}
    few = len(comparison.rows) <= MOST
    return [row for row in comparison.rows if few or row.choice.label in best]


def looks(comparison: Comparison) -> Mapping[str, Look]:
    """Label -> look: in the order of the comparison's palette, then those that all figures show."""
    first = [*comparison.palette, *(row.choice.label for row in shown(comparison))]
    labels = dict.fromkeys([*first, *(row.choice.label for row in comparison.rows)])
    return {label: look(index) for index, label in enumerate(labels)}


def of_all(comparison: Comparison, most: int = MOST) -> str:
    """Says in a caption which choices a figure of ``shown`` shows; empty if these are all."""
    rows = shown(comparison, most)
    if len(rows) == len(comparison.rows):
        return ""
    base, kind = comparison.baseline.choice.label, "best" if comparison.metric.sense else "first"
    others = len(comparison.rows) - 1
    return f" Shown: {base} and the {len(rows) - 1} {kind} of the {others} others; tables hold all."
