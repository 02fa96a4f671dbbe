"""The report's figures: ``draw`` returns each as PNG and SVG."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from matplotlib.figure import Figure

from cnnpool.report.comparison import Comparison
from cnnpool.report.course import Course
from cnnpool.report.plots import dots, maps, pareto, stages
from cnnpool.report.plots.learning import learning
from cnnpool.report.plots.plot import Plot, plot
from cnnpool.report.plots.routing import routing

__all__ = ["NAMES", "Plot", "draw", "plot"]

Painter = Callable[[Comparison], tuple[Figure, str] | None]
PAINTERS: dict[str, Painter] = {
    "accuracy": dots.accuracy,
    "differences": dots.differences,
    "routing": routing,
    "gradient": stages.gradient,
    "winners": maps.winners,
    "shift": stages.shift,
    "maps": maps.shifts,
    "pareto": pareto.pareto,
}
NAMES = (*list(PAINTERS)[:-1], "learning", "pareto")


def draw(comparison: Comparison, courses: Mapping[str, Course]) -> Iterator[Plot]:
    """Every figure for which the runs hold numbers; ``courses`` by the label of the choice."""
    painters = PAINTERS | {"learning": partial(learning, courses=courses)}
    for name in NAMES:
        if found := plot(name, partial(painters[name], comparison)):
            yield found
