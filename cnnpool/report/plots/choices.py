"""A mark per choice: the metric of its seeds with mean and interval, and its trade-offs with other goals."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cnnpool.report import statistics
from cnnpool.report.comparison import Comparison
from cnnpool.report.measure import Measure
from cnnpool.report.plots import panels
from cnnpool.report.plots.panels import plain_ticks, wrapped
from cnnpool.report.plots.styles import Style, of_all, shown, style_of, styles_of
from cnnpool.report.statistics import Summary

ROW = 0.42
"""Inches."""
Goal = tuple[Measure, Sequence[Summary]]


def accuracy(comparison: Comparison) -> tuple[Figure, str] | None:
    """The metric of every seed."""
    metric, styles, rows = comparison.metric, styles_of(comparison), shown(comparison)
    series = {
        f"{row.choice.label} (n={row.summary.n})": [metric.shown(value) for value in row.finite.values()]
        for row in rows
    }
    if not any(series.values()):
        return None
    word = "run" if comparison.understood else "seed"
    caption = f"{metric.title} per choice: a dot per {word}, the mean and its 95 % interval."
    caption += of_all(comparison)
    limits = (metric.shown(metric.within(-np.inf)), metric.shown(metric.within(np.inf)))
    own = [styles[row.choice.label] for row in rows]
    ends = [(metric.shown(row.summary.low), metric.shown(row.summary.high)) for row in rows]
    return dots(series, metric.header, own, ends, limits=limits), caption


def differences(comparison: Comparison) -> tuple[Figure, str] | None:
    """The metric of every seed less that of the baseline."""
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
    caption = (
        f"{metric.title} less that of {label}, {pairs}, the mean, its 95 % interval.{of_all(comparison)}"
    )
    axis = f"{metric.title}, difference to {label}{unit}"
    own = [styles[row.choice.label] for row, _ in rows]
    ends = [(metric.shown(one.summary.low), metric.shown(one.summary.high)) for _, one in rows]
    return dots(series, axis, own, ends, zero=True), caption


def dots(
    series: Mapping[str, Sequence[float]],
    label: str,
    styles: Sequence[Style] = (),
    intervals: Sequence[tuple[float, float]] = (),
    *,
    zero: bool = False,
    limits: tuple[float, float] = (-np.inf, np.inf),
) -> Figure:
    """A line per name: its values as dots, their mean as a mark with the 95 % interval.

    Args:
        series: name -> values, which may be none.
        label: of the horizontal axis, with its unit.
        styles: of each name; by their order if there are none.
        intervals: both ends of each name's interval; t intervals of the values if there are none.
        zero: draw the line of no difference.
        limits: the smallest and largest possible value: no interval goes beyond.
    """
    figure = Figure(figsize=(7.5, 1.2 + ROW * len(series)))
    axes = figure.subplots()
    if zero:
        axes.axvline(0, color=matplotlib.rcParams["lines.color"], linewidth=1)
    for place, values in enumerate(series.values()):
        one = styles[place] if styles else style_of(place)
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
        low, high = np.clip(intervals[place] if intervals else (s.low, s.high), *limits)
        # Equal values may lie outside of their own interval by a rounding.
        half = [[max(s.mean - low, 0)], [max(high - s.mean, 0)]] if s.n > 1 else None
        axes.errorbar(
            s.mean, place - 0.12, xerr=half, fmt=one.mark, color=one.colour, markersize=7, capsize=4, lw=2
        )
    name_rows(axes, list(series))
    panels.within(axes.set_xlim, axes.get_xlim(), limits)
    plain_ticks(axes)
    axes.set_xlabel(label)
    return figure


def name_rows(axes: Axes, names: Sequence[str]) -> None:
    """A name before every line, the first at the top."""
    axes.set_yticks(range(len(names)), [wrapped(name) for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(False, axis="y")


def pareto(comparison: Comparison) -> tuple[Figure, str] | None:
    """The metric over each other goal; times of a busy machine are no goal."""
    wanted = [one for one in comparison.measures if one.quantity.headline and one.sense]
    # The first of each section.
    goals = {one.key.partition(".")[0]: one for one in reversed(wanted) if not one.quantity.is_cost}
    axes = list(goals.values())[::-1]
    axes += [one for one in wanted if one.quantity.is_cost and not (one.quantity.timed and comparison.loaded)]
    rows = [row for row in comparison.rows if row.summary.n and all(row.others[one.key].n for one in axes)]
    if not axes or len(rows) < 2 or comparison.metric.sense == 0:
        return None
    seen, styles = {row.choice.label for row in shown(comparison)}, styles_of(comparison)
    labels = [f"{row.choice.label} (n={row.summary.n})" for row in rows]
    marks = [styles[row.choice.label] if row.choice.label in seen else None for row in rows]
    every: list[Goal] = [(comparison.metric, [row.summary for row in rows])]
    every += [(one, [row.others[one.key] for row in rows]) for one in axes]
    names = ", ".join(one.title for one, _ in every)
    others = of_all(comparison)
    caption = (
        "Trade-offs: means over seeds and 95 % t intervals. Filled: no other choice is at least as good in "
        f"all of {names} and better in one, going by the means.{others and f'{others} The rest in grey.'}"
    )
    return front(labels, marks, every), caption


def front(labels: Sequence[str], styles: Sequence[Style | None], goals: Sequence[Goal]) -> Figure:
    """The first goal over each of the others; hollow if another label dominates it, grey without a style."""
    means = np.array([[one.sense * s.mean for s in summaries] for one, summaries in goals]).T
    beaten = dominated(means)
    first, rest = goals[0], goals[1:]
    figure, row = panels.grid(len(rest), 3.4, 3.4, share=False)
    for axes, goal in zip(row, rest, strict=True):
        for index, style in enumerate(styles):
            if style is None:
                x, y = (one.shown(s[index].mean) for one, s in (goal, first))
                axes.plot(x, y, ".", color=panels.GREY, zorder=1.5)
            else:
                _mark(axes, first, goal, index, style, labels[index], hollow=bool(beaten[index]))
        one = goal[0]
        better = {1: "more is better", -1: "less is better"}[one.sense]
        axes.set_xlabel(f"{one.header}\n({better})")
        axes.margins(0.12)
        for move, have, of in (
            (axes.set_xlim, axes.get_xlim(), one),
            (axes.set_ylim, axes.get_ylim(), first[0]),
        ):
            panels.within(move, have, (of.shown(of.within(-np.inf)), of.shown(of.within(np.inf))))
        panels.plain_ticks(axes, 5)
        if one.quantity.form == "count":
            axes.xaxis.set_major_formatter(lambda value, _, one=one: one.format(value))  # type: ignore[misc]
    row[0].set_ylabel(first[0].header)
    panels.legend(figure, panels.drawn(*row))
    return figure


def dominated(goals: np.ndarray) -> np.ndarray:
    """For each row of (labels, goals), more is better: is another at least as good in all, better in one?"""
    as_good = np.all(goals[None] >= goals[:, None], axis=2)
    better = np.any(goals[None] > goals[:, None], axis=2)
    return np.asarray(np.any(as_good & better, axis=1))


def _mark(axes: Axes, first: Goal, goal: Goal, index: int, style: Style, label: str, *, hollow: bool) -> None:
    x, y = goal[1][index], first[1][index]
    look: dict[str, Any] = {"capsize": 3, "markersize": 8, "linewidth": 1, "markeredgewidth": 1.5}
    axes.errorbar(
        goal[0].shown(x.mean),
        first[0].shown(y.mean),
        _half(first[0], y),
        _half(goal[0], x),
        fmt=style.mark,
        color=style.colour,
        label=label,
        markerfacecolor=matplotlib.rcParams["axes.facecolor"] if hollow else style.colour,
        **look,
    )


def _half(one: Measure, s: Summary) -> list[list[float]] | None:
    if s.n < 2:
        return None
    mean, low, high = (one.shown(one.within(x)) for x in (s.mean, s.low, s.high))
    return [[mean - low], [high - mean]]
