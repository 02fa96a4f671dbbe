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
NAMES = (
    "accuracy",
    "differences",
    "routing",
    "gradient",
    "winners",
    "shift",
    "maps",
    "learning",
    "pareto",
)


def draw(comparison: Comparison, courses: Mapping[str, Course]) -> Iterator[Plot]:
    """Every figure for which the runs hold numbers; ``courses`` by the label of the choice."""
    painters: tuple[Painter, ...] = (
        dots.accuracy,
        dots.differences,
        routing,
        stages.gradient,
        maps.winners,
        stages.shift,
        maps.shifts,
        partial(learning, courses=courses),
        pareto.pareto,
    )
    for name, paint in zip(NAMES, painters, strict=True):
        if found := plot(name, partial(paint, comparison)):
            yield found
