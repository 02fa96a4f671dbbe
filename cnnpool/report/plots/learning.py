"""Learning curves: validation accuracy over the epochs, with an interval over the seeds."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from cnnpool.report.comparison import Comparison
from cnnpool.report.course import Course
from cnnpool.report.plots import panels
from cnnpool.report.plots.looks import Look, look, of_all, shown
from cnnpool.report.plots.looks import looks as looks_of
from cnnpool.report.plots.panels import Band


def learning(comparison: Comparison, courses: Mapping[str, Course]) -> tuple[Figure, str] | None:
    """All choices in one panel if they are few, else a panel for each with the baseline in grey."""
    base, styles = comparison.baseline.choice.label, looks_of(comparison)
    # One point is no curve.
    found = {
        row.choice.label: course
        for row in shown(comparison)
        if len((course := courses[row.choice.label]).epochs) > 1
    }
    if not found:
        return None
    caption = (
        "Validation accuracy per epoch: mean over seeds, 95 % t interval; a gap where a run lacks the epoch."
    )
    names = {label: f"{label} (n={course.runs})" for label, course in found.items()}
    if len(found) <= panels.FEW:
        series = {names[label]: (course.epochs, 100 * course.accuracy) for label, course in found.items()}
        own = [styles[label] for label in found]
        return curves(series, "epoch", "validation accuracy (%)", own), caption
    figure, every = panels.grid(len(found), 2.4, 2.1)
    for axes, (label, course) in zip(every, found.items(), strict=True):
        if base in found and label != base:
            panels.reference(axes, found[base].epochs, 100 * found[base].accuracy[0])
        panels.with_band(axes, course.epochs, 100 * course.accuracy, styles[label])
        panels.title(axes, names[label])
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    figure.supxlabel("epoch", fontsize="medium")
    figure.supylabel("validation accuracy (%)", fontsize="medium")
    grey = f" Grey: {base}." if base in found else ""
    return figure, f"{caption}{grey}{of_all(comparison)}"


def curves(
    series: Mapping[str, tuple[Sequence[int], Band]], x_label: str, y_label: str, looks: Sequence[Look] = ()
) -> Figure:
    """A line per name over whole numbers with a band, in one panel.

    Args:
        series: name -> (x, (3, x): mean, low, high).
        x_label: below.
        y_label: beside, with its unit.
        looks: of each name; by their order if there are none.
    """
    figure, [axes] = panels.grid(1, 7.5, 4)
    for place, (name, (x, band)) in enumerate(series.items()):
        panels.with_band(axes, x, band, looks[place] if looks else look(place), name)
    axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
    axes.set(xlabel=x_label, ylabel=y_label)
    panels.legend(figure, panels.drawn(axes))
    return figure
