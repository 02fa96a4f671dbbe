"""Maps of every choice in one colour scale: means over seeds, and where the gradient of some images goes."""

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.ticker import FuncFormatter, MaxNLocator

from cnnpool.report.choice import Choice
from cnnpool.report.comparison import Comparison
from cnnpool.report.pairwise import Row
from cnnpool.report.plots import panels
from cnnpool.report.plots.panels import wrapped
from cnnpool.report.plots.styles import BEST, of_all, shown
from cnnpool.report.runs import Run
from cnnpool.run_folder.errors import DamagedError
from cnnpool.run_folder.routing import Routing, read

KINDS = {
    "winners_untied": "windows with one maximum",
    "winners_tied": "tied windows",
    "winners": "all windows",
}
STAGES = 4
"""Of a deeper network only the first are shown."""
GAP = 1 / 14
"""Between images, of their width."""


def shifts(comparison: Comparison) -> tuple[Figure, str] | None:
    """Accuracy over all circular shifts, down by right, no shift in the centre: a panel per choice."""
    rows = shown(comparison, BEST)
    means = {row.choice.counted: mean_map(row.choice, over_shifts) for row in rows}
    values = {label: mean for label, mean in means.items() if mean is not None}
    if not values:
        return None
    figure, every = panels.grid(len(values), 2.2, 2.4)
    scale = _scale(values.values())
    for axes, (label, one) in zip(every, values.items(), strict=True):
        radius = len(one) // 2
        extent = (-radius - 0.5, radius + 0.5, radius + 0.5, -radius - 0.5)
        axes.imshow(one, norm=scale, cmap="viridis", extent=extent)
        axes.set(xticks=(-radius, 0, radius), yticks=(-radius, 0, radius))
        panels.title(axes, label)
        axes.grid(False)
        # Corners, edges and the centre in numbers: colours alone are hard to read off.
        for i in (-radius, 0, radius):
            for j in (-radius, 0, radius):
                _number(axes, 0.85 * j, i, one[i + radius, j + radius], scale, dark_is_low=True)
    figure.supxlabel("shift right (px)", fontsize="medium")
    figure.supylabel("shift down (px)", fontsize="medium")
    _bar(figure, every, scale, "viridis", "accuracy of shifted images (%)", "right")
    samples = [run.at("invariance", "map_samples") for run in comparison.compared]
    caption = (
        f"Accuracy when the image is shifted circularly: means over seeds{_images(samples)}; "
        f"one colour scale for all choices, from the smallest to the largest value.{of_all(comparison, BEST)}"
    )
    return figure, caption


def winners(comparison: Comparison) -> tuple[Figure, str] | None:
    """Share of windows that each place wins: a line per choice, a column per stage and kind of window."""
    rows = [row.choice for row in shown(comparison, BEST)]
    stages = dict.fromkeys(stage for choice in rows for stage in _stages(choice))
    stages = {stage: None for stage in stages if comparison.stage in ("", stage)}
    cells = {
        (choice.label, kind, stage): mean
        for choice in rows
        for kind in KINDS
        for stage in stages
        if (mean := mean_map(choice, partial(of_window, stage=stage, kind=kind))) is not None
    }
    # Runs that tell tied windows apart need no panel of all.
    kinds = [kind for kind in KINDS if any(k == kind for _, k, _ in cells)]
    kinds = kinds[:-1] if len(kinds) > 1 else kinds
    lines = [choice for choice in rows if any((choice.label, k, s) in cells for k in kinds for s in stages)]
    columns = [(k, s) for k in kinds for s in stages if any((c.label, k, s) in cells for c in lines)]
    if not columns:
        return None
    wide = max(1.3, *(0.08 * len(stage) + 0.1 for _, stage in columns))
    figure = Figure(figsize=(wide * len(columns) + 0.5, 1.35 * len(lines) + 1.2), layout="constrained")
    panels.make_room(figure, [panels.wrapped(choice.counted, 18) for choice in lines])
    every = figure.subplots(len(lines), len(columns), squeeze=False)
    for kind in kinds:
        scale = _scale(one for (_, k, _), one in cells.items() if k == kind)
        own = [place for place, (k, _) in enumerate(columns) if k == kind]
        for row, choice in enumerate(lines):
            for column in own:
                one = cells.get((choice.label, kind, columns[column][1]))
                _window(every[row, column], one, scale)
        own_axes = every[:, own].ravel().tolist()
        _bar(figure, own_axes, scale, "Greens", f"{KINDS[kind]}: won (%)", "bottom")
    for column, (_, stage) in enumerate(columns):
        every[0, column].set_title(panels.wrapped(f"stage {stage}", 14), fontsize="small")
    for row, choice in enumerate(lines):
        every[row, 0].set_ylabel(
            panels.wrapped(choice.counted, 18), rotation="horizontal", ha="right", va="center"
        )
    measured = [run.below("gradient") for run in comparison.compared]
    samples = [one["samples"] for stages in measured for one in stages.values() if "samples" in one]
    caption = (
        "Share of the windows that each place of a window wins, the place of the largest value: means over "
        f"seeds{_images(samples)}. Where several are largest, the tie rule decides, not "
        f"the image. Each kind of window has one colour scale for all choices.{of_all(comparison, BEST)}"
    )
    return figure, caption


def mean_map(choice: Choice, of: Callable[[Run], np.ndarray | None]) -> np.ndarray | None:
    """Mean over the seeds that have the map, 0..1; None if none has it, or their windows differ in size."""
    found = [one for run in choice.runs.values() if (one := of(run)) is not None]
    return np.mean(found, axis=0) if len({one.shape for one in found}) == 1 else None


def over_shifts(run: Run) -> np.ndarray | None:
    """Accuracy of a run over the shifts."""
    found = _numbers(run.at("invariance", "accuracy_over_shifts"), 2)
    return found if found is not None and found.shape[0] == found.shape[1] else None


def of_window(run: Run, stage: str, kind: str) -> np.ndarray | None:
    """Shares of a square window at a stage; ``kind`` is winners, winners_untied or winners_tied."""
    shares = _numbers(run.at("gradient", stage, kind), 1)
    side = 0 if shares is None else math.isqrt(len(shares))
    return shares.reshape(side, side) if shares is not None and side * side == len(shares) else None


def _numbers(values: object, dimensions: int) -> np.ndarray | None:
    """``values`` as an array; None where they are no finite numbers, or not of so many dimensions."""
    try:
        found = np.array(values, dtype=float)
    except (TypeError, ValueError):
        return None
    return found if found.ndim == dimensions and found.size and np.isfinite(found).all() else None


def _window(axes: Axes, values: np.ndarray | None, scale: Normalize) -> None:
    axes.set(xticks=[], yticks=[])
    axes.grid(False)
    if values is None:
        for side in axes.spines.values():
            side.set_visible(False)
        return
    axes.imshow(values, norm=scale, cmap="Greens")
    for (i, j), value in np.ndenumerate(values):
        _number(axes, j, i, value, scale, dark_is_low=False)


def _number(axes: Axes, x: float, y: float, value: float, scale: Normalize, *, dark_is_low: bool) -> None:
    place = float(scale(value))
    colour = "white" if (place < 0.6 if dark_is_low else place > 0.6) else "black"
    axes.text(x, y, f"{100 * value:.0f}", ha="center", va="center", color=colour, fontsize="x-small")


def _scale(maps: Iterable[np.ndarray]) -> Normalize:
    """From the smallest to the largest value of all ``maps``, at least a point apart."""
    values = np.concatenate([one.ravel() for one in maps])
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    return Normalize(low, max(high, low + 0.01))


def _bar(
    figure: Figure,
    axes: Sequence[Axes],
    scale: Normalize,
    colours: str,
    label: str,
    place: Literal["right", "bottom"],
) -> None:
    percent = FuncFormatter(lambda value, _: f"{100 * value:.3g}")
    shape: dict[str, Any] = {"shrink": 0.8, "aspect": 30, "pad": 0.03}
    bar = figure.colorbar(
        ScalarMappable(scale, colours), ax=axes, location=place, format=percent, ticks=MaxNLocator(5), **shape
    )
    bar.set_label(label)


def _stages(choice: Choice) -> list[str]:
    return [stage for run in choice.runs.values() for stage in run.below("gradient")]


def _images(counts: Iterable[object]) -> str:
    """How many images each seed was measured on, if the runs say so and agree."""
    known = {count for count in counts if isinstance(count, int)}
    return f", each of {known.pop()} images" if len(known) == 1 else ""


def routing(comparison: Comparison) -> tuple[Figure, str] | None:
    """The images, and per choice and stage the positions that get gradient."""
    found = {row.choice.label: one for row in shown(comparison, BEST) if (one := _first(row))}
    if not found:
        return None
    images = next(iter(found.values())).images
    # Choices of other data have other images.
    found = {label: one for label, one in found.items() if np.array_equal(one.images, images)}
    every = list(dict.fromkeys(stage for one in found.values() for stage in one.shares))
    every = [stage for stage in every if comparison.stage in ("", stage)]
    stages = every[:STAGES]
    if not stages:
        return None
    wide = 9.0 / len(stages)
    high = wide * images.shape[1] / (images.shape[2] * len(images) * (1 + GAP)) + 0.12
    figure = Figure(figsize=(9 + 1.5, high * (1 + len(found)) + 1.1), layout="constrained")
    table = figure.subplots(1 + len(found), len(stages), squeeze=False)
    for column, stage in enumerate(stages):
        _strip(table[0, column], images)
        table[0, column].set_title(f"stage {stage}", fontsize="medium")
        for row, one in enumerate(found.values(), start=1):
            if stage in one.shares:
                picture = _strip(table[row, column], one.shares[stage])
    for axes, label in zip(table[:, 0], ["image", *found], strict=True):
        axes.set_ylabel(wrapped(label, 18), rotation="horizontal", ha="right", va="center")
    bar = figure.colorbar(picture, ax=table[1:, :], location="bottom", shrink=0.6, aspect=40, pad=0.02)
    bar.ax.xaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f}")
    bar.set_label("channels with gradient (%)")
    deeper = f" The first {STAGES} of {len(every)} stages." if len(every) > len(stages) else ""
    caption = (
        f"Where the loss gradient of {len(images)} test images goes, after training: at each position of a "
        "stage's input, the share of channels that get any gradient. From the first seed of each choice."
        f"{deeper}{of_all(comparison, BEST)}"
    )
    return figure, caption


def _first(row: Row) -> Routing | None:
    """Of the first seed that has it; a picture is not worth ending a report for."""
    for _, run in sorted(row.choice.runs.items()):
        try:
            if found := read(run.folder):
                return found
        except DamagedError:
            continue
    return None


def _strip(axes: Axes, maps: np.ndarray) -> AxesImage:
    """Maps (N, H, W) or images (N, H, W, 1 or 3) beside each other."""
    gap = max(1, round(maps.shape[2] * GAP))
    images = maps.ndim == 4
    if images:
        # With opacity, so that the gaps show the page in any theme.
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
