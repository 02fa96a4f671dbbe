"""The report's figures: ``draw`` returns each as PNG and SVG."""

from collections.abc import Callable, Iterator
from functools import partial

from matplotlib.figure import Figure

from cnnpool.report.comparison import Comparison
from cnnpool.report.plots import choices, stages
from cnnpool.report.plots.learning_curve import learning
from cnnpool.report.plots.panels import Plot, plot

__all__ = ["GROUPS", "LEARNING", "PAINTERS", "Plot", "draw", "plot"]

LEARNING = "learning"
PAINTERS: dict[str, Callable[[Comparison], tuple[Figure, str] | None]] = {
    "differences": choices.differences,
    "accuracy": choices.accuracy,
    LEARNING: learning,
    "routing": stages.routing,
    "gradient": stages.gradient,
    "shift": stages.shift,
    "pareto": choices.pareto,
    "headlines": stages.headlines,
}
GROUPS = (
    ("values", "Values and learning", ("differences", "accuracy", LEARNING)),
    ("stages", "Gradient and shift", ("routing", "gradient", "shift")),
    ("tradeoffs", "Trade-offs", ("pareto", "headlines")),
)
"""Name, title and figures of each section of the page."""


def draw(comparison: Comparison) -> Iterator[Plot]:
    """Every figure for which the runs have numbers."""
    for name, paint in PAINTERS.items():
        if found := plot(name, partial(paint, comparison)):
            yield found
