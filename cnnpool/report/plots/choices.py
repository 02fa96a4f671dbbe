"""One mark per choice: the metric of its seeds with mean and interval, and trade-offs with other goals."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cnnpool.report.comparison import Comparison
from cnnpool.report.measure import Measure
from cnnpool.report.pairwise import SHOWN, Row
from cnnpool.report.plots import panels
from cnnpool.report.plots.panels import Style, of_all, shown, styles_of
from cnnpool.report.statistics import Summary

ROW = 0.42  # Height of a row, in inches


def accuracy(comparison: Comparison) -> tuple[Figure, str] | None:
    """The metric of every seed, the best mean first."""
    metric = comparison.metric
    rows = forest(comparison, [(row, [*row.finite.values()], row.summary) for row in shown(comparison)])
    if not rows:
        return None
    limits = metric.on_axis(-np.inf, np.inf)
    caption = f"The {metric.title} of each choice: a dot per run, the mean and its 95 % interval."
    return dots(rows, metric.header, limits=limits), caption + of_all(comparison)


def differences(comparison: Comparison) -> tuple[Figure, str] | None:
    """The difference of the metric to the baseline by seed, the best difference first."""
    metric, label = comparison.metric, comparison.baseline.choice.label
    pairs = [(row, row.versus) for row in shown(comparison) if row.versus]
    rows = forest(comparison, [(row, one.differences, one.summary) for row, one in pairs], hollow=True)
    if not rows:
        return None
    unit = {"points": " (percentage points)", "": ""}.get(metric.step_unit, f" ({metric.unit})")
    paired = "paired by seed: a dot per seed" if comparison.paired else "not paired: a dot per run"
    figure = dots(rows, f"{metric.title}, difference to {label}{unit}", sense=metric.sense)
    caption = (
        f"Difference of {metric.title} to {label}, {paired}, the mean, its 95 % interval; hollow where no "
    )
    return figure, f"{caption}difference is shown.{of_all(comparison)}"


def sides(axes: Axes, sense: int) -> None:
    """A line at 0, and above it the sides on which a choice is worse and better."""
    axes.axvline(0, color=matplotlib.rcParams["lines.color"], linewidth=1, zorder=0.5)
    left, right = {1: ("worse", "better"), -1: ("better", "worse"), 0: ("lower", "higher")}[sense]
    for words, side, offset in ((f"← {left}", "right", -6), (f"{right} →", "left", 6)):
        look: dict[str, Any] = {"textcoords": "offset points", "fontsize": "small", "annotation_clip": False}
        axes.annotate(words, (0, 1), (offset, 4), xycoords=axes.get_xaxis_transform(), ha=side, **look)


@dataclass(frozen=True)
class Forest:
    """One row of a forest plot: its values, and the ends of the interval of their mean, NaN if not known."""

    name: str
    values: Sequence[float]
    style: Style
    ends: tuple[float, float]
    hollow: bool = False


def forest(
    comparison: Comparison, rows: Sequence[tuple[Row, Sequence[float], Summary]], *, hollow: bool = False
) -> list[Forest]:
    """The ``rows`` that have values, the best first; ``hollow`` where no difference is shown."""
    metric, styles = comparison.metric, styles_of(comparison)
    known = [one for one in rows if one[1]]
    return [
        Forest(
            f"{row.choice.label} (n={len(values)})",
            list(map(metric.shown, values)),
            styles[row.choice.label],
            (metric.shown(s.low), metric.shown(s.high)),
            hollow=hollow and row.verdict not in SHOWN,
        )
        for row, values, s in sorted(known, key=lambda one: -(metric.sense or 1) * one[2].mean)
    ]


def dots(
    rows: Sequence[Forest],
    label: str,
    *,
    limits: Sequence[float] = (-np.inf, np.inf),
    sense: int | None = None,
) -> Figure:
    """A forest plot: the values of each row as dots, their mean as a mark with its 95 % interval; of
    differences, if ``sense`` says which are better, on both sides of 0.
    """
    figure = Figure(figsize=(7.5, 1.2 + ROW * len(rows)))
    axes = figure.subplots()
    for place, row in enumerate(rows):
        values, mark, colour = row.values, row.style.mark, row.style.colour
        # Spread by order of seed, not at random: the same runs give the same figure.
        offsets = np.linspace(-0.07, 0.07, len(values)) if len(values) > 1 else np.zeros(len(values))
        look: dict[str, Any] = {"color": colour, "alpha": 0.5, "markersize": 4.5, "markeredgewidth": 0}
        axes.plot(values, place + 0.18 + offsets, mark, **look)
        mean, (low, high) = float(np.mean(values)), np.clip(row.ends, limits[0], limits[1])
        # Rounding may place equal values outside their own interval.
        half = [[max(mean - low, 0)], [max(high - mean, 0)]] if low == low else None
        look = {"color": colour, "markersize": 7, "capsize": 4, "lw": 2, "markeredgewidth": 1.5}
        look["markerfacecolor"] = matplotlib.rcParams["axes.facecolor"] if row.hollow else colour
        axes.errorbar(mean, place - 0.12, xerr=half, fmt=mark, **look)
    name_rows(axes, [row.name for row in rows])
    if sense is not None:
        sides(axes, sense)
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
        panels.within(axes.set_xlim, axes.get_xlim(), goal.on_axis(-np.inf, np.inf))
        panels.within(axes.set_ylim, axes.get_ylim(), metric.on_axis(-np.inf, np.inf))
        panels.plain_ticks(axes, 5)
        if goal.quantity.form == "count":
            axes.xaxis.set_major_formatter(partial(_formatted, goal))
    every[0].set_ylabel(metric.header)
    panels.legend(figure)
    names = ", ".join(one.title for one in (metric, *goals))
    caption = (
        "Trade-offs: means over runs and 95 % t intervals. Filled: no other choice is at least as good in "
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
    mean, low, high = one.on_axis(*s.interval)
    return mean, [[mean - low], [high - mean]] if s.n > 1 else None


def _mark(axes: Axes, x: Point, y: Point, style: Style, label: str, *, hollow: bool) -> None:
    look: dict[str, Any] = {"capsize": 3, "markersize": 8, "linewidth": 1, "markeredgewidth": 1.5}
    look["markerfacecolor"] = matplotlib.rcParams["axes.facecolor"] if hollow else style.colour
    axes.errorbar(x[0], y[0], y[1], x[1], fmt=style.mark, color=style.colour, label=label, **look)
