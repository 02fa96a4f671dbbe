"""Figures of measurements over shifts, positions and windows, with fixed colour limits."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Matrix = Sequence[Sequence[float]]


def shift_figure(
    panels: Mapping[str, Matrix],
    label: str,
    *,
    limits: tuple[float, float] = (0, 1),
    colours: str = "viridis",
) -> "Figure":
    """Square maps over shifts, (2r+1) x (2r+1) with zero shift in the centre, one panel per title."""
    figure, row = _grid(len(panels))
    for axes, (title, values) in zip(row, panels.items(), strict=True):
        radius = len(values) // 2
        extent = (-radius - 0.5, radius + 0.5, radius + 0.5, -radius - 0.5)
        picture = axes.imshow(values, vmin=limits[0], vmax=limits[1], cmap=colours, extent=extent)
        axes.set(title=title, xlabel="shift right, px")
    row[0].set_ylabel("shift down, px")
    figure.colorbar(picture, ax=row, label=label)
    return figure


def field_figure(panels: Mapping[str, Matrix], label: str) -> "Figure":
    """Maps over the image's pixels, 0 to 1, one panel per title."""
    figure, row = _grid(len(panels))
    for axes, (title, values) in zip(row, panels.items(), strict=True):
        # The square root, which makes the tails of a receptive field visible.
        picture = axes.imshow([[math.sqrt(v) for v in line] for line in values], vmin=0, vmax=1, cmap="magma")
        axes.set(title=title, xlabel="column, px")
    row[0].set_ylabel("row, px")
    figure.colorbar(picture, ax=row, label=f"square root of {label}")
    return figure


def winner_panels(gradient: Mapping[str, Mapping[str, Any]]) -> dict[str, Sequence[float]]:
    """Title -> shares for ``winner_figure``: windows that the image decides apart from tied ones."""
    kinds = {"winners_untied": "untied windows won (%)", "winners_tied": "tied windows won (%)"}
    return {
        f"{stage}:\n{words}": one[kind]
        for stage, one in gradient.items()
        for kind, words in kinds.items()
        if kind in one
    }


def winner_figure(panels: Mapping[str, Sequence[float]]) -> "Figure":
    """Share of the windows won by each place of a square window, in numbers, one panel per title."""
    figure, row = _grid(len(panels))
    for axes, (title, values) in zip(row, panels.items(), strict=True):
        side = math.isqrt(len(values))
        width = side if side * side == len(values) else len(values)
        grid = [list(values[start : start + width]) for start in range(0, len(values), width)]
        axes.imshow(grid, vmin=0, vmax=1, cmap="Greens")
        for i, line in enumerate(grid):
            for j, value in enumerate(line):
                colour = "white" if value > 0.6 else "black"
                axes.text(j, i, f"{100 * value:.1f}", ha="center", va="center", color=colour)
        axes.set(title=title, xticks=[], yticks=[])
    return figure


def routing_figure(images: Tensor, gradients: Mapping[str, Tensor]) -> "Figure":
    """Per image (N, C, H, W): share of channels with gradient at each position of each stage's input."""
    from matplotlib.figure import Figure

    rows = 1 + len(gradients)
    # Stage names are horizontal, and may be as long as layer4_0_downsample_0.
    margin = 0.09 * max(map(len, gradients), default=0)
    figure = Figure(figsize=(1.3 * len(images) + 1.2 + margin, 1.45 * rows), layout="compressed")
    axes = figure.subplots(rows, len(images), squeeze=False)
    for column, image in enumerate(images):
        low, high = image.min(), image.max()
        shown = ((image - low) / (high - low).clamp_min(1e-9)).permute(1, 2, 0).cpu().numpy()
        axes[0, column].imshow(shown if shown.shape[2] in (1, 3) else shown.mean(2), cmap="gray")
        for row, gradient in enumerate(gradients.values(), start=1):
            share = (gradient[column] != 0).double().mean(0).cpu()
            picture = axes[row, column].imshow(share.numpy(), vmin=0, vmax=1, cmap="magma")
    for label, axis in zip(("image", *gradients), axes[:, 0], strict=True):
        axis.set_ylabel(label, rotation="horizontal", ha="right", va="center")
    for axis in axes.flat:
        axis.set(xticks=[], yticks=[])
    if gradients:
        figure.colorbar(picture, ax=axes[1:, :], label="channels with gradient")
    return figure


def _grid(panels: int) -> "tuple[Figure, list[Axes]]":
    from matplotlib.figure import Figure

    columns = min(panels, 4)
    rows = math.ceil(panels / columns)
    figure = Figure(figsize=(3.4 * columns + 1.2, 3.7 * rows), layout="constrained")
    every = list(figure.subplots(rows, columns, squeeze=False).flat)
    for unused in every[panels:]:
        unused.set_axis_off()
    return figure, every[:panels]
