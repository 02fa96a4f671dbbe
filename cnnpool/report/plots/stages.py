"""Figures of every downsampling stage: the gradient it withholds, its answer to a shift."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from cnnpool.report import statistics
from cnnpool.report.comparison import Comparison, read
from cnnpool.report.plots import panels
from cnnpool.report.plots.dots import ROW, name_rows
from cnnpool.report.plots.looks import BEST, DASHES, MARKS, MOST, Look, looks, of_all, shown
from cnnpool.report.plots.panels import Band

Table = dict[str, Band]
"""Label -> mean, low and high at every key."""


def gradient(comparison: Comparison) -> tuple[Figure, str] | None:
    """A panel per stage, in it a line per choice."""
    stages = stages_of(comparison, "gradient")
    table = spreads(comparison, [f"gradient.{stage}.zero_fraction" for stage in stages], 100)
    if not table:
        return None
    look = looks(comparison)
    figure, every = panels.grid(len(stages), 2.4, 0.9 + 0.7 * ROW * len(table))
    for place, (axes, stage) in enumerate(zip(every, stages, strict=True)):
        for row, (label, band) in enumerate(table.items()):
            mean, low, high = band[:, place]
            half = np.nan_to_num([[mean - low], [high - mean]])
            mark, colour = look[label].mark, look[label].colour
            axes.errorbar(mean, row, xerr=half, fmt=mark, color=colour, capsize=3, markersize=6)
        labels = names(comparison, table, f"gradient.{stage}.zero_fraction")
        name_rows(axes, labels)
        panels.title(axes, f"stage {stage}")
        axes.set_xlim(left=min(0.0, axes.get_xlim()[0]))
        panels.plain_ticks(axes, 5)
    panels.make_room(figure, labels)
    figure.supxlabel("zero gradient (% of inputs)", fontsize="medium")
    caption = (
        "Share of inputs of each downsampling stage that get no gradient from the loss, per sample: "
        f"mean over seeds and 95 % t interval.{of_all(comparison)}"
    )
    return figure, caption


def shift(comparison: Comparison) -> tuple[Figure, str] | None:
    """A panel per stage with a line per choice if these are few, else a panel per choice."""
    found: dict[str, tuple[list[int], Table]] = {}
    for stage in stages_of(comparison, "invariance", "stages"):
        changes = [_changes(run.measured, stage) for run in comparison.compared]
        distances = sorted({int(d) for one in changes for d in one if d.isdecimal()})
        keys = [f"invariance.stages.{stage}.relative_change.{d}" for d in distances]
        if table := spreads(comparison, keys, 1, BEST):
            found[stage] = distances, table
    if not found:
        return None
    caption = (
        "Change of each stage's output when the input moves, relative to the distance between different "
        "images (0: invariant, 1: as far as another image): mean over seeds and 95 % t interval."
    )
    labels = list(dict.fromkeys(label for _, table in found.values() for label in table))
    look = looks(comparison)
    if len(labels) <= panels.FEW:
        return by_stage(found, look, _counted(comparison)), caption + of_all(comparison, BEST)
    base = comparison.baseline.choice.label
    figure = by_choice(found, labels, base, look, _counted(comparison))
    return figure, f"{caption} Grey: {base}.{of_all(comparison, BEST)}"


def by_stage(
    found: Mapping[str, tuple[list[int], Table]], look: Mapping[str, Look], shown_as: Mapping[str, str]
) -> Figure:
    """A panel per stage, in it a line per choice with error bars."""
    labels = list(dict.fromkeys(label for _, table in found.values() for label in table))
    figure, every = panels.grid(len(found), 2.9, 3.2)
    for axes, (stage, (x, table)) in zip(every, found.items(), strict=True):
        for label, band in table.items():
            nudge = 0.02 * (labels.index(label) - (len(labels) - 1) / 2)
            panels.with_bars(axes, np.array(x) + nudge, band, look[label], shown_as[label])
        axes.set_xticks(x)
        panels.title(axes, f"stage {stage}")
        axes.set_xlabel("shift of the input (px)")
    every[0].set_ylim(bottom=0)
    every[0].set_ylabel("relative change")
    panels.legend(figure, panels.drawn(*every))
    return figure


def by_choice(
    found: Mapping[str, tuple[list[int], Table]],
    labels: Sequence[str],
    base: str,
    look: Mapping[str, Look],
    shown_as: Mapping[str, str],
) -> Figure:
    """A panel per choice, in it a line per stage; the baseline's lines in grey."""
    figure, every = panels.grid(len(labels), 2.4, 2.2)
    for axes, label in zip(every, labels, strict=True):
        for place, (x, table) in enumerate(found.values()):
            dash, mark = DASHES[place % len(DASHES)], MARKS[place % len(MARKS)]
            if label != base and base in table:
                panels.reference(axes, x, table[base][0], dash)
            if label in table:
                panels.with_bars(axes, np.array(x), table[label], Look(look[label].colour, mark, dash))
            axes.set_xticks(x)
        panels.title(axes, shown_as[label])
    every[0].set_ylim(bottom=0)
    figure.supxlabel("shift of the input (px)", fontsize="medium")
    figure.supylabel("relative change", fontsize="medium")
    style = {
        f"stage {stage}": Line2D(
            [],
            [],
            color=matplotlib.rcParams["lines.color"],
            ls=DASHES[place % len(DASHES)],
            marker=MARKS[place % len(MARKS)],
        )
        for place, stage in enumerate(found)
    }
    panels.legend(figure, style, "upper")
    return figure


def spreads(comparison: Comparison, keys: Sequence[str], scale: float, most: int = MOST) -> Table:
    """Label -> (3, keys) of the choices shown that have any of the keys, ended at the possible values."""
    table = {}
    measures = [comparison.measure(key) for key in keys]
    for row in shown(comparison, most):
        found = [list(read(row.choice, one).values()) for one in measures]
        if any(found):
            columns = [statistics.spread(np.array([values or [np.nan]]).T)[:, 0] for values in found]
            ended = [[one.within(x) for x in column] for one, column in zip(measures, columns, strict=True)]
            table[row.choice.label] = scale * np.array(ended).T
    return table


def names(comparison: Comparison, labels: Sequence[str] | Table, key: str) -> list[str]:
    """The labels, each with the number of runs that have the number at ``key``."""
    one = comparison.measure(key)
    counts = {row.choice.label: len(read(row.choice, one)) for row in comparison.rows}
    return [f"{label} (n={counts[label]})" for label in labels]


def stages_of(comparison: Comparison, *section: str) -> list[str]:
    """The stages of any run, in the order of the network."""
    stages: dict[str, None] = {}
    for run in comparison.compared:
        node: Any = run.measured
        for key in section:
            node = node.get(key) or {}
        stages |= dict.fromkeys(node)
    return [stage for stage in stages if comparison.stage in ("", stage)]


def _counted(comparison: Comparison) -> dict[str, str]:
    return {row.choice.label: f"{row.choice.label} (n={len(row.choice.runs)})" for row in comparison.rows}


def _changes(measured: Mapping[str, Any], stage: str) -> Mapping[str, Any]:
    section = measured.get("invariance", {}).get("stages", {})
    return (section.get(stage) or {}).get("relative_change") or {}
