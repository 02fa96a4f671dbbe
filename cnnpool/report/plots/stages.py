"""Figures of every downsampling stage: the gradient it withholds, its answer to a shift."""

from collections.abc import Callable, Mapping, Sequence

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from cnnpool.quantity import find
from cnnpool.report import statistics
from cnnpool.report.comparison import Comparison, read
from cnnpool.report.measure import Measure
from cnnpool.report.plots import panels
from cnnpool.report.plots.choices import ROW, name_rows
from cnnpool.report.plots.panels import Band
from cnnpool.report.plots.styles import BEST, DASHES, MARKS, MOST, Style, of_all, shown, styles_of

Table = dict[str, Band]
"""Label -> mean, low and high at every key."""
DIGITS = 4
"""Of a distance in pixels."""
FIGURED = ("gradient", "invariance", "train", "val", "test")
"""Sections of results.json that have figures of their own."""


def gradient(comparison: Comparison) -> tuple[Figure, str] | None:
    """A panel per stage of the share of inputs without gradient, in it a line per choice."""
    return _headlines(comparison, lambda section: section == "gradient")


def headlines(comparison: Comparison) -> tuple[Figure, str] | None:
    """A panel per headline, and per stage where it has one, of all sections without a figure of their own."""
    return _headlines(comparison, lambda section: section not in FIGURED)


def _headlines(comparison: Comparison, wanted: Callable[[str], bool]) -> tuple[Figure, str] | None:
    declared = [one for one in comparison.quantities if one.headline and wanted(one.key.partition(".")[0])]
    every = dict.fromkeys(key for run in comparison.compared for key in run.numbers)
    of_stage = {k: (known.values(k) or {}).get("stage") for k in every if (known := find(declared, k))}
    keys = [key for key, stage in of_stage.items() if comparison.stage in ("", stage or comparison.stage)]
    measures = [comparison.measure(key) for key in keys]
    table = spreads(comparison, keys)
    if not table:
        return None
    styles, quantities = styles_of(comparison), {one.quantity.key: one.quantity for one in measures}
    figure, every_axes = panels.grid(len(keys), 2.4, 0.9 + 0.7 * ROW * len(table), share=len(quantities) == 1)
    for place, (axes, one) in enumerate(zip(every_axes, measures, strict=True)):
        for row, (label, band) in enumerate(table.items()):
            mean, low, high = band[:, place]
            half = np.nan_to_num([[mean - low], [high - mean]])
            mark, colour = styles[label].mark, styles[label].colour
            axes.errorbar(mean, row, xerr=half, fmt=mark, color=colour, capsize=3, markersize=6)
        labels = names(comparison, table, one.key)
        name_rows(axes, labels)
        stage = of_stage[one.key]
        panels.title(axes, f"stage {stage}" if stage and len(quantities) == 1 else one.header)
        panels.plain_ticks(axes, 5)
    # After the last panel: where they share an axis, setting an end keeps it from growing.
    for axes, one in zip(every_axes, measures, strict=True):
        if one.quantity.range[0] is not None:
            axes.set_xlim(left=min(0.0, axes.get_xlim()[0]))
    panels.make_room(figure, labels)
    if len(quantities) == 1:
        figure.supxlabel(Measure("", measures[0].quantity).header, fontsize="medium")
    definitions = " ".join(f"{one.title.capitalize()}: {one.definition}" for one in quantities.values())
    return figure, f"{definitions} Mean over seeds and 95 % t interval.{of_all(comparison)}"


def shift(comparison: Comparison) -> tuple[Figure, str] | None:
    """A panel per stage with a line per choice if these are few, else a panel per choice."""
    found: dict[str, tuple[list[int], Table]] = {}
    for stage in stages_of(comparison, "invariance", "stages"):
        changes = [run.below("invariance", "stages", stage, "relative_change") for run in comparison.compared]
        distances = sorted({int(d) for one in changes for d in one if d.isdecimal() and len(d) <= DIGITS})
        keys = [f"invariance.stages.{stage}.relative_change.{d}" for d in distances]
        if table := spreads(comparison, keys, BEST):
            found[stage] = distances, table
    if not found:
        return None
    caption = (
        "Change of each stage's output when the input moves, relative to the distance between different "
        "images (0: invariant, 1: as far as another image): mean over seeds and 95 % t interval."
    )
    labels = list(dict.fromkeys(label for _, table in found.values() for label in table))
    styles = styles_of(comparison)
    if len(labels) <= panels.FEW:
        return by_stage(found, styles, _counted(comparison)), caption + of_all(comparison, BEST)
    base = comparison.baseline.choice.label
    figure = by_choice(found, labels, base, styles, _counted(comparison))
    return figure, f"{caption} Grey: {base}.{of_all(comparison, BEST)}"


def by_stage(
    found: Mapping[str, tuple[list[int], Table]], styles: Mapping[str, Style], shown_as: Mapping[str, str]
) -> Figure:
    """A panel per stage, in it a line per choice with error bars."""
    labels = list(dict.fromkeys(label for _, table in found.values() for label in table))
    figure, every = panels.grid(len(found), 2.9, 3.2)
    for axes, (stage, (x, table)) in zip(every, found.items(), strict=True):
        for label, band in table.items():
            nudge = 0.02 * (labels.index(label) - (len(labels) - 1) / 2)
            panels.with_bars(axes, np.array(x) + nudge, band, styles[label], shown_as[label])
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
    styles: Mapping[str, Style],
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
                panels.with_bars(axes, np.array(x), table[label], Style(styles[label].colour, mark, dash))
            axes.set_xticks(x)
        panels.title(axes, shown_as[label])
    every[0].set_ylim(bottom=0)
    figure.supxlabel("shift of the input (px)", fontsize="medium")
    figure.supylabel("relative change", fontsize="medium")
    entries = {
        f"stage {stage}": Line2D(
            [],
            [],
            color=matplotlib.rcParams["lines.color"],
            ls=DASHES[place % len(DASHES)],
            marker=MARKS[place % len(MARKS)],
        )
        for place, stage in enumerate(found)
    }
    panels.legend(figure, entries, "upper")
    return figure


def spreads(comparison: Comparison, keys: Sequence[str], most: int = MOST) -> Table:
    """Label -> (3, keys), in the unit shown and within the possible values, of choices that have any key."""
    table = {}
    measures = [comparison.measure(key) for key in keys]
    for row in shown(comparison, most):
        found = [list(read(row.choice, one).values()) for one in measures]
        if any(found):
            columns = [statistics.spread(np.array([values or [np.nan]]).T)[:, 0] for values in found]
            ended = [
                [one.shown(one.within(x)) for x in column]
                for one, column in zip(measures, columns, strict=True)
            ]
            table[row.choice.label] = np.array(ended).T
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
        stages |= dict.fromkeys(run.below(*section))
    return [stage for stage in stages if comparison.stage in ("", stage)]


def _counted(comparison: Comparison) -> dict[str, str]:
    return {row.choice.label: f"{row.choice.label} (n={len(row.choice.runs)})" for row in comparison.rows}
