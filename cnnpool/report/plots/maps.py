"""Maps of every choice on one colour scale: accuracy over shifts, and routing of the gradient."""

from typing import Any

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
from cnnpool.report.plots.styles import of_all, shown
from cnnpool.report.runs import Run
from cnnpool.run_folder.errors import DamagedError
from cnnpool.run_folder.routing import Routing, read

STAGES = 4
"""Most stages shown, from the first one on."""
GAP = 1 / 14
"""Gap between images, as a fraction of their width."""


def shifts(comparison: Comparison) -> tuple[Figure, str] | None:
    """Accuracy over all circular shifts, down by right, zero shift in the centre: one panel per choice."""
    means = {row.choice.counted: mean_map(row.choice) for row in shown(comparison)}
    values = {label: mean for label, mean in means.items() if mean is not None}
    if not values:
        return None
    figure, every = panels.grid(len(values), 2.2, 2.4)
    # From the smallest to the largest value of all choices, at least one percentage point apart.
    low, high = (float(end([end(one) for one in values.values()])) for end in (np.min, np.max))
    scale = Normalize(low, max(high, low + 0.01))
    for axes, (label, one) in zip(every, values.items(), strict=True):
        radius = len(one) // 2
        extent = (-radius - 0.5, radius + 0.5, radius + 0.5, -radius - 0.5)
        axes.imshow(one, norm=scale, cmap="viridis", extent=extent)
        axes.set(xticks=(-radius, 0, radius), yticks=(-radius, 0, radius))
        panels.title(axes, label)
        axes.grid(False)
        # Numbers at corners, edges and centre: colours alone are hard to read.
        for i in (-radius, 0, radius):
            for j in (-radius, 0, radius):
                value = one[i + radius, j + radius]
                look: Any = {"ha": "center", "va": "center", "fontsize": "x-small"}
                colour = "white" if scale(value) < 0.6 else "black"
                axes.text(0.85 * j, i, f"{100 * value:.0f}", color=colour, **look)
    figure.supxlabel("shift right (px)", fontsize="medium")
    figure.supylabel("shift down (px)", fontsize="medium")
    colours = ScalarMappable(scale, "viridis")
    shape: Any = {"shrink": 0.8, "aspect": 30, "pad": 0.03}
    bar = figure.colorbar(colours, ax=every, format=FuncFormatter(_percent), ticks=MaxNLocator(5), **shape)
    bar.set_label("accuracy of shifted images (%)")
    counts = [run.at("invariance", "map_samples") for run in comparison.compared]
    samples = {count for count in counts if isinstance(count, int)}
    images = f", each of {samples.pop()} images" if len(samples) == 1 else ""
    caption = (
        f"Accuracy when the image is shifted circularly: means over seeds{images}; "
        f"one colour scale for all choices, from the smallest to the largest value.{of_all(comparison)}"
    )
    return figure, caption


def _percent(share: float, _: object) -> str:
    return f"{100 * share:.3g}"


def mean_map(choice: Choice) -> np.ndarray | None:
    """Mean accuracy over the shifts, 0..1, of the seeds that have it; None without any or if sizes differ."""
    found = [one for run in choice.runs.values() if (one := _over_shifts(run)) is not None]
    return np.mean(found, axis=0) if len({one.shape for one in found}) == 1 else None


def _over_shifts(run: Run) -> np.ndarray | None:
    """A square of finite numbers; None if the run has none or something else."""
    try:
        found = np.array(run.at("invariance", "accuracy_over_shifts"), dtype=float)
    except (TypeError, ValueError):
        return None
    square = found.ndim == 2 and found.size and found.shape[0] == found.shape[1]
    return found if square and np.isfinite(found).all() else None


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
    bar.ax.xaxis.set_major_formatter(_percent)
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
