"""Trade-offs: accuracy over consistency and cost, and which choices no other dominates."""

from collections.abc import Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cnnpool.report.comparison import Comparison
from cnnpool.report.measure import Measure
from cnnpool.report.plots import panels
from cnnpool.report.plots.looks import Look, looks, of_all, shown
from cnnpool.report.statistics import Summary

Goal = tuple[Measure, Sequence[Summary]]
COSTS = ("cost.flops", "cost.train_images_per_s")


def pareto(comparison: Comparison) -> tuple[Figure, str] | None:
    """The metric over each other goal; times of a busy machine are no goal."""
    keys = [one.key for one in comparison.measures if one.key.startswith("invariance.consistency.")][:1]
    keys += [one.key for one in comparison.measures if one.key in COSTS]
    axes = [
        one
        for one in comparison.measures
        if one.key in keys and not (one.quantity.timed and comparison.loaded)
    ]
    rows = [row for row in comparison.rows if row.summary.n and all(row.others[one.key].n for one in axes)]
    if not axes or len(rows) < 2 or comparison.metric.sense == 0:
        return None
    seen, look = {row.choice.label for row in shown(comparison)}, looks(comparison)
    labels = [f"{row.choice.label} (n={row.summary.n})" for row in rows]
    marks = [look[row.choice.label] if row.choice.label in seen else None for row in rows]
    goals: list[Goal] = [(comparison.metric, [row.summary for row in rows])]
    goals += [(one, [row.others[one.key] for row in rows]) for one in axes]
    names = ", ".join(one.title for one, _ in goals)
    others = of_all(comparison)
    caption = (
        "Trade-offs: means over seeds and 95 % t intervals. Filled: no other choice is at least as good in "
        f"all of {names} and better in one, going by the means.{others and f'{others} The rest in grey.'}"
    )
    return front(labels, marks, goals), caption


def front(labels: Sequence[str], looks: Sequence[Look | None], goals: Sequence[Goal]) -> Figure:
    """The first goal over each of the others; hollow if another label dominates it, grey without a look."""
    means = np.array([[one.sense * s.mean for s in summaries] for one, summaries in goals]).T
    beaten = dominated(means)
    first, rest = goals[0], goals[1:]
    figure, row = panels.grid(len(rest), 3.4, 3.4, share=False)
    for axes, goal in zip(row, rest, strict=True):
        for index, look in enumerate(looks):
            if look is None:
                x, y = (one.shown(s[index].mean) for one, s in (goal, first))
                axes.plot(x, y, ".", color=panels.GREY, zorder=1.5)
            else:
                _mark(axes, first, goal, index, look, labels[index], hollow=bool(beaten[index]))
        one = goal[0]
        better = {1: "more is better", -1: "less is better"}[one.sense]
        axes.set_xlabel(f"{one.header}\n({better})")
        axes.margins(0.12)
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


def _mark(axes: Axes, first: Goal, goal: Goal, index: int, look: Look, label: str, *, hollow: bool) -> None:
    x, y = goal[1][index], first[1][index]
    style: dict[str, Any] = {"capsize": 3, "markersize": 8, "linewidth": 1, "markeredgewidth": 1.5}
    axes.errorbar(
        goal[0].shown(x.mean),
        first[0].shown(y.mean),
        _half(first[0], y),
        _half(goal[0], x),
        fmt=look.mark,
        color=look.colour,
        label=label,
        markerfacecolor=matplotlib.rcParams["axes.facecolor"] if hollow else look.colour,
        **style,
    )


def _half(one: Measure, s: Summary) -> list[list[float]] | None:
    if s.n < 2:
        return None
    mean, low, high = (one.shown(one.within(x)) for x in (s.mean, s.low, s.high))
    return [[mean - low], [high - mean]]
