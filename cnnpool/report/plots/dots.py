"""A line per choice: its seeds as dots, or its stages as marks, with mean and interval."""

from collections.abc import Mapping, Sequence

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cnnpool.report import statistics
from cnnpool.report.comparison import Comparison
from cnnpool.report.plots.looks import Look, look, of_all, shown
from cnnpool.report.plots.looks import looks as looks_of
from cnnpool.report.plots.panels import plain_ticks, wrapped

ROW = 0.42
"""Inches."""


def accuracy(comparison: Comparison) -> tuple[Figure, str] | None:
    """The metric of every seed."""
    metric, styles, rows = comparison.metric, looks_of(comparison), shown(comparison)
    series = {
        f"{row.choice.label} (n={row.summary.n})": [metric.shown(value) for value in row.finite.values()]
        for row in rows
    }
    if not any(series.values()):
        return None
    caption = f"{metric.title} per choice: a dot per seed, the mean and its 95 % t interval."
    caption += of_all(comparison)
    limits = (metric.shown(metric.within(-np.inf)), metric.shown(metric.within(np.inf)))
    own = [styles[row.choice.label] for row in rows]
    return dots(series, metric.header, own, limits=limits), caption


def differences(comparison: Comparison) -> tuple[Figure, str] | None:
    """The metric of every seed less that of the baseline."""
    metric, label, styles = comparison.metric, comparison.baseline.choice.label, looks_of(comparison)
    rows = [(row, row.versus) for row in shown(comparison) if row.versus is not None]
    series = {
        f"{row.choice.label} (n={versus.summary.n})": [metric.shown(d) for d in versus.differences]
        for row, versus in rows
    }
    if not any(series.values()):
        return None
    unit = {"points": " (percentage points)", "": ""}.get(metric.step_unit, f" ({metric.unit})")
    caption = (
        f"{metric.title} less that of {label}, paired by seed: a dot per seed, the mean, its 95 % t interval."
        f"{of_all(comparison)}"
    )
    axis = f"{metric.title}, difference to {label}{unit}"
    return dots(series, axis, [styles[row.choice.label] for row, _ in rows], zero=True), caption


def dots(
    series: Mapping[str, Sequence[float]],
    label: str,
    looks: Sequence[Look] = (),
    *,
    zero: bool = False,
    limits: tuple[float, float] = (-np.inf, np.inf),
) -> Figure:
    """A line per name: its values as dots, their mean as a mark with the 95 % t interval.

    Args:
        series: name -> values, which may be none.
        label: of the horizontal axis, with its unit.
        looks: of each name; by their order if there are none.
        zero: draw the line of no difference.
        limits: the smallest and largest possible value: no interval goes beyond.
    """
    figure = Figure(figsize=(7.5, 1.2 + ROW * len(series)))
    axes = figure.subplots()
    if zero:
        axes.axvline(0, color=matplotlib.rcParams["lines.color"], linewidth=1)
    for place, values in enumerate(series.values()):
        one = looks[place] if looks else look(place)
        # Spread by order of seed, not at random: the same runs give the same picture.
        offsets = np.linspace(-0.14, 0.14, len(values)) if len(values) > 1 else np.zeros(len(values))
        axes.plot(
            values,
            place + 0.18 + offsets / 2,
            one.mark,
            color=one.colour,
            alpha=0.5,
            markersize=4.5,
            markeredgewidth=0,
        )
        s = statistics.summarise(values)
        low, high = np.clip([s.low, s.high], *limits)
        half = [[s.mean - low], [high - s.mean]] if s.n > 1 else None
        axes.errorbar(
            s.mean, place - 0.12, xerr=half, fmt=one.mark, color=one.colour, markersize=7, capsize=4, lw=2
        )
    name_rows(axes, list(series))
    plain_ticks(axes)
    axes.set_xlabel(label)
    return figure


def name_rows(axes: Axes, names: Sequence[str]) -> None:
    """A name before every line, the first at the top."""
    axes.set_yticks(range(len(names)), [wrapped(name) for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(False, axis="y")
