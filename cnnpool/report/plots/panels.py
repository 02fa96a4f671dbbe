"""Common parts of the figures: rows of panels, one legend, plain ticks, labels that wrap."""

import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cnnpool.report.plots.styles import Style

ACROSS = 4
GREY = "#9a9a9a"
LABEL = 34
"""Most characters of a choice's label on one line."""
TITLE = 22
"""Most characters of a line of a title above a panel of ``grid``."""
Band = np.ndarray
"""(3, x): mean, low and high."""


def grid(panels: int, width: float, height: float, *, share: bool = True) -> tuple[Figure, list[Axes]]:
    """A figure with ``panels`` panels of this size in inches, at most ``ACROSS`` in a row."""
    columns = min(panels, ACROSS)
    rows = math.ceil(panels / columns)
    figure = Figure(figsize=(max(width * columns, 5.5), height * rows + 0.5), layout="constrained")
    every = list(figure.subplots(rows, columns, squeeze=False, sharex=share, sharey=share).flat)
    for unused in every[panels:]:
        unused.set_axis_off()
    # With shared axes only the lowest row has tick labels; panels above a gap need them too.
    for axes in every[max(0, panels - columns) : panels]:
        axes.tick_params(labelbottom=True)
    return figure, every[:panels]


def wrapped(text: str, width: int = LABEL) -> str:
    """``text`` in lines of at most ``width`` characters, broken at spaces if it has any."""
    return textwrap.fill(text, width, break_on_hyphens=False)


def title(axes: Axes, text: str) -> None:
    """Write ``text`` above one of several panels, no wider than the panel."""
    axes.set_title(wrapped(text, TITLE), fontsize="small")


def with_band(axes: Axes, x: Sequence[float], band: Band, style: Style, name: str = "") -> None:
    """Draw a line of means and its interval as a band."""
    mean, low, high = band
    mark = {"marker": style.mark, "markersize": 4} if len(x) <= 20 else {}
    axes.plot(x, mean, style.dash, color=style.colour, label=name, linewidth=1.6, **mark)  # type: ignore[arg-type]
    axes.fill_between(x, low, high, color=style.colour, alpha=0.15, linewidth=0)


def plain_ticks(axes: Axes, most: int = 6) -> None:
    """No offset such as "+9.8e1" at the end of the axis, which is misread; at most ``most`` steps."""
    axes.ticklabel_format(axis="x", useOffset=False)
    axes.locator_params(axis="x", nbins=most)


def within(move: Callable[..., object], have: tuple[float, float], limits: tuple[float, float]) -> None:
    """End an axis by ``move`` just beyond the possible values if it extends further: no accuracy is -20 %."""
    room = 0.03 * (have[1] - have[0])
    move(max(have[0], limits[0] - room), min(have[1], limits[1] + room))


def legend(figure: Figure, entries: Mapping[str, Any]) -> None:
    """One legend below the panels, in as many columns as its longest name allows."""
    longest = max(map(len, entries))
    where: Any = "outside lower center"
    figure.legend(
        handles=list(entries.values()),
        labels=list(entries),
        loc=where,
        frameon=False,
        ncols=max(1, min(4, int(figure.get_figwidth() * 11 / (longest + 6)))),
    )


def drawn(*row: Axes) -> dict[str, Any]:
    """Label -> the artist drawn with it in any of the panels."""
    return {
        label: handle for axes in row for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
