"""Learning curves: validation accuracy over the epochs, with an interval over the seeds."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from cnnpool.report.comparison import Comparison
from cnnpool.report.course import Course
from cnnpool.report.plots import panels
from cnnpool.report.plots.looks import BEST, Look, look, of_all, shown
from cnnpool.report.plots.looks import looks as looks_of
from cnnpool.report.plots.panels import Band


def learning(comparison: Comparison, courses: Mapping[str, Course]) -> tuple[Figure, str] | None:
    """All choices in one panel if they are few, else a panel for each with the baseline in grey."""
    labels = [row.choice.label for row in shown(comparison, BEST)]
    base, styles = comparison.baseline.choice.label, looks_of(comparison)
    painted = of_courses({label: courses[label] for label in labels}, styles, base)
    return painted and (painted[0], painted[1] + of_all(comparison, BEST))


def of_courses(
    courses: Mapping[str, Course],
    styles: Mapping[str, Look],
    base: str,
    *,
    going: Mapping[str, Course] | None = None,
    seeds: bool = False,
) -> tuple[Figure, str] | None:
    """The curves of some choices; None if no run has more than one epoch.

    Args:
        courses: by the label of the choice.
        styles: the look of each.
        base: the label in grey where each choice has a panel of its own.
        going: the courses of runs that are not finished; they are in no mean.
        seeds: a line for each run in place of mean and interval.
    """
    going = going or {}
    # One point is no curve.
    labels = [
        label
        for label in dict.fromkeys([*courses, *going])
        if any(label in some and len(some[label].epochs) > 1 for some in (courses, going))
    ]
    if not labels:
        return None
    names = {label: f"{label} ({_counted(courses.get(label), going.get(label))})" for label in labels}
    few = len(labels) <= panels.FEW
    if few:
        figure, [axes] = panels.grid(1, 7.5, 4)
        every = [axes] * len(labels)
    else:
        figure, every = panels.grid(len(labels), 2.4, 2.1)
    for axes, label in zip(every, labels, strict=True):
        if not few and base in courses and label != base:
            panels.reference(axes, courses[base].epochs, 100 * courses[base].accuracy[0])
        if label in courses:
            _finished(axes, courses[label], styles[label], names[label], seeds=seeds)
        if label in going:
            _lines(axes, going[label], replace(styles[label], dash=":", mark=""), names[label])
        if not few:
            panels.title(axes, names[label])
        axes.xaxis.set_major_locator(MaxNLocator("auto" if few else 5, integer=True))
    if few:
        # Labels of the figure would lie on its legend.
        axes.set(xlabel="epoch", ylabel="validation accuracy (%)")
        panels.legend(figure, panels.drawn(*every))
    else:
        figure.supxlabel("epoch", fontsize="medium")
        figure.supylabel("validation accuracy (%)", fontsize="medium")
    what = (
        "a line per seed" if seeds else "mean over seeds, 95 % t interval; a gap where a run lacks the epoch"
    )
    dotted = " Dotted: runs that are not finished." if going else ""
    grey = f" Grey: {base}." if base in courses and not few else ""
    return figure, f"Validation accuracy per epoch: {what}.{dotted}{grey}"


def _counted(course: Course | None, going: Course | None) -> str:
    parts = [f"n={course.runs}"] if course else []
    return ", ".join([*parts, *([f"{going.runs} running"] if going else [])])


def _finished(axes: Axes, course: Course, look: Look, name: str, *, seeds: bool) -> None:
    if seeds:
        _lines(axes, course, look, name)
    else:
        panels.with_band(axes, course.epochs, 100 * course.accuracy, look, name)


def _lines(axes: Axes, course: Course, look: Look, name: str) -> None:
    for values in course.each:
        epochs = sorted(values)
        axes.plot(
            epochs, [100 * values[e] for e in epochs], look.dash, color=look.colour, linewidth=1.1, label=name
        )


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
