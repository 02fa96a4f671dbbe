"""Figures of every downsampling stage: where the gradient goes, what it blocks, its response to a shift."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from cnnpool.quantity import Quantity, find
from cnnpool.report import statistics
from cnnpool.report.comparison import Comparison, numbers
from cnnpool.report.measure import Measure
from cnnpool.report.pairwise import Row
from cnnpool.report.plots import panels
from cnnpool.report.plots.choices import ROW, name_rows
from cnnpool.report.plots.panels import Band, of_all, shown, styles_of
from cnnpool.run_folder.errors import DamagedError
from cnnpool.run_folder.routing import Routing
from cnnpool.run_folder.routing import read as read_routing

Table = dict[str, Band]  # Label -> mean, low and high at every key
FIGURED = ("gradient", "invariance", "train", "val", "test")  # Sections with figures of their own
STAGES = 4  # Most stages shown, from the first one on
GAP = 1 / 14  # Gap between images, as a fraction of their width


def gradient(comparison: Comparison) -> tuple[Figure, str] | None:
    """One panel per stage with the share of inputs without gradient, one line per choice."""
    return headlines(comparison, lambda section: section == "gradient")


def headlines(
    comparison: Comparison, wanted: Callable[[str], bool] = lambda section: section not in FIGURED
) -> tuple[Figure, str] | None:
    """One panel per headline, per stage if it has stages, of the sections without a figure of their own."""
    declared = [one for one in comparison.quantities if one.headline and not one.is_cost]
    of_key = placed(comparison, [one for one in declared if wanted(one.key.partition(".")[0])])
    keys = [
        key for key, one in of_key.items() if comparison.stage in ("", one.get("stage", comparison.stage))
    ]
    measures = [comparison.measure(key) for key in keys]
    table = spreads(comparison, measures)
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
        counts = {row.choice.label: len(numbers(row.choice, one)) for row in comparison.rows}
        labels = [f"{label} (n={counts[label]})" for label in table]
        name_rows(axes, labels)
        stage = of_key[one.key].get("stage")
        panels.title(axes, f"stage {stage}" if stage and len(quantities) == 1 else one.header)
        panels.plain_ticks(axes, 5)
    # After the last panel: with a shared axis, fixing one end stops autoscaling.
    for axes, one in zip(every_axes, measures, strict=True):
        if one.quantity.range[0] is not None:
            axes.set_xlim(left=min(0.0, axes.get_xlim()[0]))
    # Otherwise the names of the rows would shrink the panels.
    longest = max(len(line) for label in labels for line in panels.wrapped(label).split("\n"))
    figure.set_figwidth(figure.get_figwidth() + 0.08 * longest)
    if len(quantities) == 1:
        figure.supxlabel(Measure("", measures[0].quantity).header, fontsize="medium")
    known = [one for one in quantities.values() if one.definition]
    definitions = "".join(f"{one.title.capitalize()}: {one.definition} " for one in known)
    return figure, f"{definitions}Mean over runs and 95 % t interval.{of_all(comparison)}"


def shift(comparison: Comparison) -> tuple[Figure, str] | None:
    """Each quantity of the stages by distance: one panel per stage, one line per choice."""
    declared = [one for one in comparison.quantities if one.by_stage and one.by_px and one.shown == "compare"]
    found: dict[str, tuple[list[int], Table]] = {}
    captions, short = [], {one.key: one.title.partition(" at <px>")[0] for one in declared}
    for one in declared:
        of_key = placed(comparison, [one])
        for stage in stages_of(comparison):
            here = ((at["px"], key) for key, at in of_key.items() if at["stage"] == stage)
            own = {int(px): key for px, key in here if px.isdecimal()}
            distances = sorted(own)
            if table := spreads(comparison, [comparison.measure(own[px]) for px in distances]):
                where = f"stage {stage}" if len(declared) == 1 else f"{short[one.key]}, stage {stage}"
                found[where] = distances, table
        captions.append(f"{short[one.key].capitalize()}: {one.definition}")
    if not found:
        return None
    styles = styles_of(comparison)
    counted = {row.choice.label: f"{row.choice.label} (n={len(row.choice.runs)})" for row in comparison.rows}
    labels = list(dict.fromkeys(label for _, table in found.values() for label in table))
    figure, every = panels.grid(len(found), 2.9, 3.2)
    for axes, (where, (x, table)) in zip(every, found.items(), strict=True):
        for label, (mean, low, high) in table.items():
            at, style = np.array(x) + 0.02 * (labels.index(label) - (len(labels) - 1) / 2), styles[label]
            half = np.nan_to_num([mean - low, high - mean])
            look: dict[str, Any] = {"ls": style.dash, "marker": style.mark, "color": style.colour}
            axes.errorbar(at, mean, half, label=counted[label], capsize=3, markersize=5, **look)
        axes.set_xticks(x)
        panels.title(axes, where)
        axes.set_xlabel("shift of the input (px)")
    every[0].set_ylim(bottom=0)
    every[0].set_ylabel(" or ".join(short.values()))
    panels.legend(figure)
    return figure, f"{' '.join(captions)} Mean over runs and 95 % t interval.{of_all(comparison)}"


def spreads(comparison: Comparison, measures: Sequence[Measure]) -> Table:
    """Label -> (3, measures), in the unit shown and within the possible values, for choices that have any."""
    table = {}
    for row in shown(comparison):
        found = [numbers(row.choice, one) for one in measures]
        if any(found):
            columns = [statistics.spread(np.array([values or [np.nan]]).T)[:, 0] for values in found]
            ended = [one.on_axis(*column) for one, column in zip(measures, columns, strict=True)]
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


def routing(comparison: Comparison) -> tuple[Figure, str] | None:
    """The images, and per choice and stage the positions that receive gradient."""
    found = {row.choice.label: one for row in shown(comparison) if (one := _first(row))}
    if not found:
        return None
    images = next(iter(found.values())).images
    # Choices trained on other data have other images.
    found = {label: one for label, one in found.items() if np.array_equal(one.images, images)}
    every = list(dict.fromkeys(stage for one in found.values() for stage in one.shares))
    every = [stage for stage in every if comparison.stage in ("", stage)]
    stages = every[:STAGES]
    if not stages:
        return None
    wide = 6.2 / len(stages)
    high = wide * images.shape[1] / (images.shape[2] * len(images) * (1 + GAP)) + 0.12
    figure = Figure(figsize=(7.5, high * (1 + len(found)) + 1.1), layout="constrained")
    table = figure.subplots(1 + len(found), len(stages), squeeze=False)
    for column, stage in enumerate(stages):
        _strip(table[0, column], images)
        table[0, column].set_title(f"stage {stage}", fontsize="medium")
        for row, one in enumerate(found.values(), start=1):
            if stage in one.shares:
                picture = _strip(table[row, column], one.shares[stage])
    for axes, label in zip(table[:, 0], ["image", *found], strict=True):
        axes.set_ylabel(panels.wrapped(label, 18), rotation="horizontal", ha="right", va="center")
    bar = figure.colorbar(picture, ax=table[1:, :], location="bottom", shrink=0.6, aspect=40, pad=0.02)
    bar.ax.xaxis.set_major_formatter(lambda share, _: f"{100 * share:.3g}")
    bar.set_label("channels with gradient (%)")
    deeper = f" The first {STAGES} of {len(every)} stages." if len(every) > len(stages) else ""
    caption = (
        f"Where the loss gradient of {len(images)} test images goes, after training: at each position of a "
        "stage's input, the share of channels that get any gradient. From the first seed of each choice."
        f"{deeper}{of_all(comparison)}"
    )
    return figure, caption


def _first(row: Row) -> Routing | None:
    """The routing of the first seed that has one; errors in a picture must not end a report."""
    for _, run in sorted(row.choice.runs.items()):
        try:
            if found := read_routing(run.folder):
                return found
        except DamagedError:
            continue
    return None


def _strip(axes: Axes, maps: np.ndarray) -> AxesImage:
    """Maps (N, H, W) or images (N, H, W, 1 or 3) beside each other."""
    gap = max(1, round(maps.shape[2] * GAP))
    images = maps.ndim == 4
    if images:
        # With opacity, so that the gaps show the page's background in any theme.
        colours = maps if maps.shape[3] == 3 else np.repeat(maps, 3, axis=3)
        maps = np.concatenate([colours, np.full_like(colours[..., :1], 255)], axis=3)
    shape = (maps.shape[1], gap, *maps.shape[3:])
    blank = np.full(shape, 0 if images else np.nan, maps.dtype)
    row = np.concatenate([part for one in maps for part in (blank, one)][1:], axis=1)
    axes.set(xticks=[], yticks=[])
    axes.grid(False)
    for side in axes.spines.values():
        side.set_visible(False)
    return axes.imshow(row, cmap="magma", vmin=0, vmax=1)
