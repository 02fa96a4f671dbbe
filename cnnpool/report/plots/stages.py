"""Figures of every downsampling stage: the gradient it blocks, its response to a shift."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from cnnpool.quantity import Quantity, find
from cnnpool.report import statistics
from cnnpool.report.comparison import Comparison, read
from cnnpool.report.measure import Measure
from cnnpool.report.plots import panels
from cnnpool.report.plots.choices import ROW, name_rows
from cnnpool.report.plots.panels import Band
from cnnpool.report.plots.styles import Style, of_all, shown, styles_of

Table = dict[str, Band]
"""Label -> mean, low and high at every key."""
DIGITS = 4
"""Most digits of a distance in pixels."""
FIGURED = ("gradient", "invariance", "train", "val", "test")
"""Sections of results.json with figures of their own."""


def gradient(comparison: Comparison) -> tuple[Figure, str] | None:
    """One panel per stage with the share of inputs without gradient, one line per choice."""
    return _headlines(comparison, lambda section: section == "gradient")


def headlines(comparison: Comparison) -> tuple[Figure, str] | None:
    """One panel per headline, per stage if it has stages, for all sections without a figure of their own."""
    return _headlines(comparison, lambda section: section not in FIGURED)


def _headlines(comparison: Comparison, wanted: Callable[[str], bool]) -> tuple[Figure, str] | None:
    declared = [one for one in comparison.quantities if one.headline and not one.is_cost]
    of_key = placed(comparison, [one for one in declared if wanted(one.key.partition(".")[0])])
    keys = [
        key for key, one in of_key.items() if comparison.stage in ("", one.get("stage", comparison.stage))
    ]
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
        counts = {row.choice.label: len(read(row.choice, one)) for row in comparison.rows}
        labels = [f"{label} (n={counts[label]})" for label in table]
        name_rows(axes, labels)
        stage = of_key[one.key].get("stage")
        panels.title(axes, f"stage {stage}" if stage and len(quantities) == 1 else one.header)
        panels.plain_ticks(axes, 5)
    # After the last panel: with a shared axis, fixing one end stops autoscaling.
    for axes, one in zip(every_axes, measures, strict=True):
        if one.quantity.range[0] is not None:
            axes.set_xlim(left=min(0.0, axes.get_xlim()[0]))
    panels.make_room(figure, labels)
    if len(quantities) == 1:
        figure.supxlabel(Measure("", measures[0].quantity).header, fontsize="medium")
    definitions = " ".join(f"{one.title.capitalize()}: {one.definition}" for one in quantities.values())
    return figure, f"{definitions} Mean over seeds and 95 % t interval.{of_all(comparison)}"


def shift(comparison: Comparison) -> tuple[Figure, str] | None:
    """Each quantity of the stages by distance: one panel per stage, one line per choice."""
    declared = [one for one in comparison.quantities if one.by_stage and one.by_px and one.shown == "compare"]
    found: dict[str, tuple[list[int], Table]] = {}
    captions, short = [], {one.key: one.title.partition(" at <px>")[0] for one in declared}
    for one in declared:
        of_key = placed(comparison, [one])
        for stage in stages_of(comparison):
            own = {int(at["px"]): key for key, at in of_key.items() if at["stage"] == stage and _is_px(at)}
            distances = sorted(own)
            if table := spreads(comparison, [own[px] for px in distances]):
                where = f"stage {stage}" if len(declared) == 1 else f"{short[one.key]}, stage {stage}"
                found[where] = distances, table
        captions.append(f"{short[one.key].capitalize()}: {one.definition}")
    if not found:
        return None
    counted = {row.choice.label: row.choice.counted for row in comparison.rows}
    figure = by_stage(found, styles_of(comparison), counted, " or ".join(short.values()))
    return figure, f"{' '.join(captions)} Mean over seeds and 95 % t interval.{of_all(comparison)}"


def by_stage(
    found: Mapping[str, tuple[list[int], Table]],
    styles: Mapping[str, Style],
    shown_as: Mapping[str, str],
    axis: str,
) -> Figure:
    """One panel per stage, one line per choice with error bars."""
    labels = list(dict.fromkeys(label for _, table in found.values() for label in table))
    figure, every = panels.grid(len(found), 2.9, 3.2)
    for axes, (where, (x, table)) in zip(every, found.items(), strict=True):
        for label, (mean, low, high) in table.items():
            at, style = np.array(x) + 0.02 * (labels.index(label) - (len(labels) - 1) / 2), styles[label]
            half = np.nan_to_num([mean - low, high - mean])
            look: dict[str, Any] = {"ls": style.dash, "marker": style.mark, "color": style.colour}
            axes.errorbar(at, mean, half, label=shown_as[label], capsize=3, markersize=5, **look)
        axes.set_xticks(x)
        panels.title(axes, where)
        axes.set_xlabel("shift of the input (px)")
    every[0].set_ylim(bottom=0)
    every[0].set_ylabel(axis)
    panels.legend(figure, panels.drawn(*every))
    return figure


def spreads(comparison: Comparison, keys: Sequence[str]) -> Table:
    """Label -> (3, keys), in the unit shown and within the possible values, for choices that have any key."""
    table = {}
    measures = [comparison.measure(key) for key in keys]
    for row in shown(comparison):
        found = [list(read(row.choice, one).values()) for one in measures]
        if any(found):
            columns = [statistics.spread(np.array([values or [np.nan]]).T)[:, 0] for values in found]
            ended = [
                [one.shown(one.within(x)) for x in column]
                for one, column in zip(measures, columns, strict=True)
            ]
            table[row.choice.label] = np.array(ended).T
    return table


def placed(comparison: Comparison, declared: Sequence[Quantity]) -> dict[str, dict[str, str]]:
    """Key -> values of its placeholders, for every number of the runs described by one of ``declared``."""
    keys = dict.fromkeys(key for run in comparison.compared for key in run.numbers)
    return {key: one.values(key) or {} for key in keys if (one := find(declared, key))}


def stages_of(comparison: Comparison) -> list[str]:
    """The stages for which the runs have numbers, in the order of the network."""
    of_key = placed(comparison, [one for one in comparison.quantities if one.by_stage])
    stages = dict.fromkeys(one["stage"] for one in of_key.values())
    return [stage for stage in stages if comparison.stage in ("", stage)]


def _is_px(values: Mapping[str, str]) -> bool:
    return values["px"].isdecimal() and len(values["px"]) <= DIGITS
