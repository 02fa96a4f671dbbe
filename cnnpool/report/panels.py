"""Drawing on bare axes: dots, curves, lines and trade-offs, in colours and marks that all eyes tell apart."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cnnpool.report import statistics
from cnnpool.report.measure import Measure
from cnnpool.report.statistics import Summary

# Okabe and Ito 2008, yellow left out: it vanishes on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
MARKS = "osD^vPX*<>"
DASHES = ("-", "--", "-.", ":")


def look(index: int) -> tuple[str, str, str]:
    """Colour, mark and dash of the choice at ``index``: no two of the first 70 alike."""
    lap = index // len(COLOURS)
    return COLOURS[index % len(COLOURS)], MARKS[(index + lap) % len(MARKS)], DASHES[lap % len(DASHES)]


def dots(
    series: Mapping[str, Sequence[float]],
    label: str,
    *,
    zero: bool = False,
    limits: tuple[float, float] = (-np.inf, np.inf),
) -> Figure:
    """A line per name: its values as dots, their mean as a bar with the 95 % t interval.

    Args:
        series: name -> values, which may be none.
        label: of the horizontal axis, with its unit.
        zero: draw the line of no difference.
        limits: the smallest and largest possible value: no interval goes beyond.
    """
    figure = Figure(figsize=(7.5, 1.2 + 0.45 * len(series)))
    axes = figure.subplots()
    if zero:
        axes.axvline(0, color="#555555", linewidth=1)
    for place, values in enumerate(series.values()):
        colour, mark, _ = look(place + zero)
        # Spread by order of seed, not at random: the same runs give the same picture.
        offsets = np.linspace(-0.14, 0.14, len(values)) if len(values) > 1 else np.zeros(len(values))
        axes.plot(
            values,
            place + 0.18 + offsets / 2,
            mark,
            color=colour,
            alpha=0.5,
            markersize=4.5,
            markeredgewidth=0,
        )
        s = statistics.summarise(values)
        low, high = np.clip([s.low, s.high], *limits)
        half = [[s.mean - low], [high - s.mean]] if s.n > 1 else None
        axes.errorbar(
            s.mean, place - 0.12, xerr=half, fmt=mark, color=colour, markersize=7, capsize=4, linewidth=2
        )
    axes.set_yticks(range(len(series)), list(series))
    axes.set_ylim(len(series) - 0.5, -0.5)
    axes.grid(False, axis="y")
    _plain_ticks(axes)
    axes.set_xlabel(label)
    return figure


def curves(series: Mapping[str, tuple[Sequence[int], np.ndarray]], x_label: str, y_label: str) -> Figure:
    """A line per name over whole numbers with a band; ``series``: name -> (x, (3, x): mean, low, high)."""
    figure = Figure(figsize=(7.5, 4.2))
    axes = figure.subplots()
    for index, (name, (x, (mean, low, high))) in enumerate(series.items()):
        colour, mark, dash = look(index)
        axes.plot(x, mean, dash, marker=mark, color=colour, label=name, markersize=4, linewidth=1.6)
        axes.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
    _plain_ticks(axes, integer=True)
    axes.set(xlabel=x_label, ylabel=y_label)
    _legend(figure, axes)
    return figure


def lines(
    panels: Mapping[str, tuple[Sequence[Any], Mapping[str, np.ndarray]]],
    x_label: str,
    y_label: str,
    *,
    categories: bool = False,
) -> Figure:
    """A panel per title, in it a line per name with error bars; names keep their colour in all panels.

    Args:
        panels: title -> (x, name -> (3, x): mean, low, high).
        x_label: below the panels, with its unit.
        y_label: beside them, with its unit.
        categories: x are names, drawn at equal distances.
    """
    names = list(dict.fromkeys(name for _, table in panels.values() for name in table))
    figure = Figure(figsize=(max(5.5, 3.2 * len(panels)) + 1, 4))
    row = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, (title, (x, table)) in zip(row, panels.items(), strict=True):
        place = np.arange(len(x)) if categories else np.array(x, dtype=float)
        for name, (mean, low, high) in table.items():
            colour, mark, dash = look(names.index(name))
            nudge = min(0.02, 0.3 / len(names)) * (names.index(name) - (len(names) - 1) / 2)
            half = np.nan_to_num([mean - low, high - mean])
            axes.errorbar(
                place + nudge, mean, half, ls=dash, marker=mark, color=colour, label=name, capsize=3
            )
        axes.set_xticks(place, [str(one) for one in x])
        axes.margins(x=0.12, y=0.08)
        axes.set(title=title, xlabel=x_label)
    # Only now: a limit set earlier would hold for what later panels draw.
    row[0].set_ylim(bottom=0)
    row[0].set_ylabel(y_label)
    _legend(figure, *row)
    return figure


def front(labels: Sequence[str], goals: Sequence[tuple[Measure, Sequence[Summary]]]) -> Figure:
    """The first goal over each of the others, a mark per label; hollow where another label dominates it."""
    means = np.array([[one.sense * s.mean for s in summaries] for one, summaries in goals]).T
    first, rest = goals[0], goals[1:]
    figure = Figure(figsize=(max(5.5, 3.6 * len(rest)) + 1, 4))
    row = figure.subplots(1, len(rest), sharey=True, squeeze=False)[0]
    for axes, (one, summaries) in zip(row, rest, strict=True):
        for index, label in enumerate(labels):
            colour, mark, _ = look(index)
            x, y = summaries[index], first[1][index]
            axes.errorbar(
                one.shown(x.mean),
                first[0].shown(y.mean),
                _half(first[0], y),
                _half(one, x),
                fmt=mark,
                color=colour,
                label=label,
                capsize=3,
                markersize=9,
                linewidth=1,
                markeredgewidth=1.5,
                markerfacecolor="white" if dominated(means)[index] else colour,
            )
        better = {1: "more is better", -1: "less is better"}[one.sense]
        axes.set_xlabel(f"{one.header}\n({better})")
        axes.margins(0.12)
        _plain_ticks(axes)
        if one.quantity.form == "count":
            axes.xaxis.set_major_formatter(lambda value, _, one=one: one.format(value))
    row[0].set_ylabel(first[0].header)
    _legend(figure, *row)
    return figure


def dominated(goals: np.ndarray) -> np.ndarray:
    """For each row of (labels, goals), more is better: is another at least as good in all, better in one?"""
    as_good = np.all(goals[None] >= goals[:, None], axis=2)
    better = np.any(goals[None] > goals[:, None], axis=2)
    found: np.ndarray = np.any(as_good & better, axis=1)
    return found


def _half(one: Measure, s: Summary) -> list[list[float]] | None:
    if s.n < 2:
        return None
    mean, low, high = (one.shown(one.within(x)) for x in (s.mean, s.low, s.high))
    return [[mean - low], [high - mean]]


def _plain_ticks(axes: Axes, *, integer: bool = False) -> None:
    # An offset such as "+9.8e1" at the axis' end is misread.
    axes.ticklabel_format(axis="x", useOffset=False)
    axes.locator_params(axis="x", nbins=6, integer=integer)


def _legend(figure: Figure, *row: Axes) -> None:
    """One legend below the panels, in as many columns as its longest name allows."""
    entries = {
        label: handle for axes in row for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    longest = max(map(len, entries))
    figure.tight_layout()
    figure.legend(
        entries.values(),
        entries.keys(),
        loc="upper center",
        bbox_to_anchor=(0.5, 0.02),
        frameon=False,
        ncols=max(1, min(4, int(figure.get_figwidth() * 11 / (longest + 6)))),
    )
