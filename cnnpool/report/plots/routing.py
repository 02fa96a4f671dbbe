"""Where the loss gradient of the same few images goes, choice under choice."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from cnnpool.report.comparison import Comparison
from cnnpool.report.plots.looks import BEST, of_all, shown
from cnnpool.report.plots.panels import wrapped
from cnnpool.report.row import Row
from cnnpool.run_folder.errors import DamagedError
from cnnpool.run_folder.routing import Routing, read

STAGES = 4
"""Of a deeper network only the first are shown."""
GAP = 1 / 14
"""Between images, of their width."""


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
