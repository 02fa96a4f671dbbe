"""One mark per choice: the metric of its seeds with mean and interval, and trade-offs with other goals."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cnnpool.report import statistics
from cnnpool.report.comparison import Comparison
from cnnpool.report.measure import Measure
from cnnpool.report.plots import panels
from cnnpool.report.plots.panels import Style, of_all, shown, style_of, styles_of
from cnnpool.report.statistics import Summary

ROW = 0.42  # Height of a row, in inches


def accuracy(comparison: Comparison) -> tuple[Figure, str] | None:
    metric, styles, rows = comparison.metric, styles_of(comparison), shown(comparison)
    series = {
        f"{row.choice.label} (n={row.summary.n})": [metric.shown(value) for value in row.finite.values()]
        for row in rows
    }
    if not any(series.values()):
        return None
    word = "run" if comparison.understood else "seed"
    caption = f"{metric.title} per choice: a dot per {word}, the mean and its 95 % interval."
    limits = (metric.shown(metric.within(-np.inf)), metric.shown(metric.within(np.inf)))
    own = [styles[row.choice.label] for row in rows]
    ends = [(metric.shown(row.summary.low), metric.shown(row.summary.high)) for row in rows]
    return dots(series, metric.header, own, ends, limits=limits), caption + of_all(comparison)


def differences(comparison: Comparison) -> tuple[Figure, str] | None:
    """The metric of every seed, less that of the baseline."""
    metric, label, styles = comparison.metric, comparison.baseline.choice.label, styles_of(comparison)
    rows = [(row, row.versus) for row in shown(comparison) if row.versus is not None]
    series = {
        f"{row.choice.label} (n={versus.summary.n})": [metric.shown(d) for d in versus.differences]
        for row, versus in rows
    }
    if not any(series.values()):
        return None
    unit = {"points": " (percentage points)", "": ""}.get(metric.step_unit, f" ({metric.unit})")
    pairs = "paired by seed: a dot per seed" if comparison.paired else "not paired: a dot per run"
    caption = f"{metric.title} less that of {label}, {pairs}, the mean, its 95 % interval."
    axis = f"{metric.title}, difference to {label}{unit}"
    own = [styles[row.choice.label] for row, _ in rows]
    ends = [(metric.shown(one.summary.low), metric.shown(one.summary.high)) for _, one in rows]
    return dots(series, axis, own, ends, zero=True), caption + of_all(comparison)


def dots(
    series: Mapping[str, Sequence[float]],
    label: str,
    styles: Sequence[Style] = (),
    intervals: Sequence[tuple[float, float]] = (),
    *,
    zero: bool = False,
    limits: tuple[float, float] = (-np.inf, np.inf),
) -> Figure:
    """One row per name: its values as dots, their mean as a mark with the 95 % interval, of t by default."""
    figure = Figure(figsize=(7.5, 1.2 + ROW * len(series)))
    axes = figure.subplots()
    if zero:
        axes.axvline(0, color=matplotlib.rcParams["lines.color"], linewidth=1)
    for place, values in enumerate(series.values()):
        one = styles[place] if styles else style_of(place)
        look: dict[str, Any] = {"color": one.colour, "alpha": 0.5, "markersize": 4.5, "markeredgewidth": 0}
        # Spread by order of seed, not at random: the same runs give the same figure.
        offsets = np.linspace(-0.07, 0.07, len(values)) if len(values) > 1 else np.zeros(len(values))
        axes.plot(values, place + 0.18 + offsets, one.mark, **look)
        s = statistics.summarise(values)
        low, high = np.clip(intervals[place] if intervals else (s.low, s.high), *limits)
        # Rounding may place equal values outside their own interval.
        half = [[max(s.mean - low, 0)], [max(high - s.mean, 0)]] if s.n > 1 else None
        axes.errorbar(
            s.mean, place - 0.12, xerr=half, fmt=one.mark, color=one.colour, markersize=7, capsize=4, lw=2
        )
    name_rows(axes, list(series))
    panels.within(axes.set_xlim, axes.get_xlim(), limits)
    panels.plain_ticks(axes)
    axes.set_xlabel(label)
    return figure


def name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Label every row with its name, the first at the top."""
    axes.set_yticks(range(len(names)), [panels.wrapped(name) for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(False, axis="y")


def pareto(comparison: Comparison) -> tuple[Figure, str] | None:
    """The metric against each other goal, hollow if dominated; times of a busy machine are not a goal."""
    metric, styles = comparison.metric, styles_of(comparison)
    wanted = [one for one in comparison.measures if one.quantity.headline and one.sense]
    # The first quantity of each section.
    first = {one.key.partition(".")[0]: one for one in reversed(wanted) if not one.quantity.is_cost}
    goals = list(first.values())[::-1]
    costs = [one for one in wanted if one.quantity.is_cost]
    goals += [one for one in costs if not (one.quantity.timed and comparison.loaded)]
    rows = [row for row in comparison.rows if row.summary.n and all(row.others[one.key].n for one in goals)]
    if not goals or len(rows) < 2 or metric.sense == 0:
        return None
    means = [
        [metric.sense * row.summary.mean, *(one.sense * row.others[one.key].mean for one in goals)]
        for row in rows
    ]
    beaten = dict(zip((row.choice.label for row in rows), dominated(np.array(means)), strict=True))
    figure, every = panels.grid(len(goals), 3.4, 3.4, share=False)
    for axes, goal in zip(every, goals, strict=True):
        for row in shown(comparison):
            label, n = row.choice.label, row.summary.n
            if label in beaten:
                points = _point(goal, row.others[goal.key]), _point(metric, row.summary)
                _mark(axes, *points, styles[label], f"{label} (n={n})", hollow=bool(beaten[label]))
        axes.set_xlabel(f"{goal.header}\n({'more' if goal.sense > 0 else 'less'} is better)")
        axes.margins(0.12)
        for move, have, one in (
            (axes.set_xlim, axes.get_xlim(), goal),
            (axes.set_ylim, axes.get_ylim(), metric),
        ):
            panels.within(move, have, (one.shown(one.within(-np.inf)), one.shown(one.within(np.inf))))
        panels.plain_ticks(axes, 5)
        if goal.quantity.form == "count":
            axes.xaxis.set_major_formatter(partial(_formatted, goal))
    every[0].set_ylabel(metric.header)
    panels.legend(figure, panels.drawn(*every))
    names = ", ".join(one.title for one in (metric, *goals))
    caption = (
        "Trade-offs: means over seeds and 95 % t intervals. Filled: no other choice is at least as good in "
        f"all of {names} and better in one, going by the means.{of_all(comparison)}"
    )
    return figure, caption


def dominated(goals: np.ndarray) -> np.ndarray:
    """For each row of (labels, goals), higher is better: is another no worse in all and better in one?"""
    as_good = np.all(goals[None] >= goals[:, None], axis=2)
    better = np.any(goals[None] > goals[:, None], axis=2)
    return np.asarray(np.any(as_good & better, axis=1))


def _formatted(one: Measure, value: float, _: object) -> str:
    return one.format(value)


Point = tuple[float, list[list[float]] | None]  # A mean, and the distances to both ends of its interval


def _point(one: Measure, s: Summary) -> Point:
    mean, low, high = (one.shown(one.within(x)) for x in (s.mean, s.low, s.high))
    return mean, [[mean - low], [high - mean]] if s.n > 1 else None


def _mark(axes: Axes, x: Point, y: Point, style: Style, label: str, *, hollow: bool) -> None:
    look: dict[str, Any] = {"capsize": 3, "markersize": 8, "linewidth": 1, "markeredgewidth": 1.5}
    look["markerfacecolor"] = matplotlib.rcParams["axes.facecolor"] if hollow else style.colour
    axes.errorbar(x[0], y[0], y[1], x[1], fmt=style.mark, color=style.colour, label=label, **look)
