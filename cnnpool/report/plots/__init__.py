"""The report's figures: ``draw`` returns each as PNG and SVG."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from matplotlib.figure import Figure

from cnnpool.report.comparison import Comparison
from cnnpool.report.plots import choices, stages
from cnnpool.report.plots.learning_curve import History, learning
from cnnpool.report.plots.panels import Plot, plot

__all__ = ["GROUPS", "LEARNING", "NAMES", "PAINTERS", "Plot", "draw", "plot"]

Painter = Callable[[Comparison], tuple[Figure, str] | None]
PAINTERS: dict[str, Painter] = {
    "differences": choices.differences,
    "accuracy": choices.accuracy,
    "routing": stages.routing,
    "gradient": stages.gradient,
    "shift": stages.shift,
    "headlines": stages.headlines,
    "pareto": choices.pareto,
}
LEARNING = "learning"
GROUPS = (
    ("values", "Values and learning", ("differences", "accuracy", LEARNING)),
    ("stages", "Gradient and shift", ("routing", "gradient", "shift")),
    ("tradeoffs", "Trade-offs", ("pareto", "headlines")),
)
"""Name, title and figures of each section of the page."""
NAMES = tuple(name for _, _, names in GROUPS for name in names)


def draw(comparison: Comparison, histories: Mapping[str, History]) -> Iterator[Plot]:
    """Every figure for which the runs have numbers; ``histories`` by the label of the choice."""
    painters = PAINTERS | {LEARNING: partial(learning, histories=histories)}
    for name in NAMES:
        if found := plot(name, partial(painters[name], comparison)):
            yield found
