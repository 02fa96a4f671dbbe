"""Maps of every choice, means over its seeds: who wins in a window, and what a shift does to the answer."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cnnpool.report.choice import Choice
from cnnpool.report.runs import Run

ACCURACY = "accuracy of shifted images (%)"
WINNERS = "windows won at {stage} (%)"
COLUMNS = 4


def maps(choice: Choice) -> dict[str, np.ndarray]:
    """Title -> mean map over the seeds that have it, 0..1.

    The share of windows that each place of a square window wins, by stage, and the accuracy over all
    circular shifts, down by right, with no shift in the centre.
    """
    found: dict[str, list[np.ndarray]] = {}
    for run in choice.runs.values():
        for title, values in _of(run):
            found.setdefault(title, []).append(values)
    # Runs whose windows differ in size have no common map.
    return {t: np.mean(group, axis=0) for t, group in found.items() if len({one.shape for one in group}) == 1}


def figure(rows: Mapping[str, Mapping[str, np.ndarray]]) -> Figure | None:
    """A panel per label and map, those of one title side by side; None if there is no map.

    Colours mean the same in all panels of all figures: 0 to 100 %.
    """
    titles = dict.fromkeys(title for row in rows.values() for title in row)
    panels = [(label, title) for title in titles for label, row in rows.items() if title in row]
    if not panels:
        return None
    columns = min(len(panels), COLUMNS)
    lines = math.ceil(len(panels) / columns)
    drawn = Figure(figsize=(2.5 * columns + 0.5, 2.9 * lines), layout="constrained")
    every = list(drawn.subplots(lines, columns, squeeze=False).flat)
    for unused in every[len(panels) :]:
        unused.set_axis_off()
    for axes, (label, title) in zip(every, panels, strict=False):
        axes.set_title(f"{label}\n{title}", fontsize="small")
        axes.grid(False)
        draw = _over_shifts if title == ACCURACY else _within_window
        draw(axes, rows[label][title])
    return drawn


def _over_shifts(axes: Axes, values: np.ndarray) -> None:
    radius = len(values) // 2
    extent = (-radius - 0.5, radius + 0.5, radius + 0.5, -radius - 0.5)
    axes.imshow(values, vmin=0, vmax=1, cmap="viridis", extent=extent)
    axes.set(xticks=(-radius, 0, radius), yticks=(-radius, 0, radius))
    axes.set_xlabel("shift right (px)", fontsize="small")
    axes.set_ylabel("shift down (px)", fontsize="small")
    # Corners, edges and the centre in numbers: colours alone are hard to read off.
    for i in (-radius, 0, radius):
        for j in (-radius, 0, radius):
            value, inward = values[i + radius, j + radius], 0.85
            _number(axes, inward * j, i, value, dark=value < 0.6)


def _within_window(axes: Axes, values: np.ndarray) -> None:
    axes.imshow(values, vmin=0, vmax=1, cmap="Greens")
    axes.set(xticks=[], yticks=[])
    for (i, j), value in np.ndenumerate(values):
        _number(axes, j, i, value, dark=value > 0.6)


def _number(axes: Axes, x: float, y: float, value: float, *, dark: bool) -> None:
    colour = "white" if dark else "black"
    axes.text(x, y, f"{100 * value:.0f}", ha="center", va="center", color=colour, fontsize="x-small")


def _of(run: Run) -> Sequence[tuple[str, np.ndarray]]:
    found = []
    accuracy = run.measured.get("invariance", {}).get("accuracy_over_shifts")
    if accuracy:
        found.append((ACCURACY, np.array(accuracy, dtype=float)))
    for stage, one in run.measured.get("gradient", {}).items():
        shares = one.get("winners") or []
        side = math.isqrt(len(shares))
        if shares and side * side == len(shares):
            found.append((WINNERS.format(stage=stage), np.array(shares, dtype=float).reshape(side, side)))
    return found
