"""Write README's table, its two figures and those of docs/results.md: choices beside a baseline.

usage: python scripts/docs/findings.py
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from cnnpool.report.measure import ACCURACY
from cnnpool.report.plots import panels
from cnnpool.report.plots.choices import Forest, dots, sides
from cnnpool.report.plots.panels import plot, style_of
from scripts.docs import pages, provenance
from scripts.docs.pages import DOCS, ROOT

SETTINGS = {
    "mnist_few/100": "MNIST, 100 images",
    "mnist_operators": "MNIST, all",
    "cifar_operators/4": "CIFAR-10 (JPEG)",
    "finetune": "pretrained",
}
"""Folder of a sweep -> its column."""
FINETUNE = {
    "finetune": "64 pixels, 3 epochs",
    "finetune/30": "64 pixels, 30 epochs",
    "finetune/128": "128 pixels, 10 epochs",
}
FORESTS = ("mnist_operators", "mnist_few/200", "cifar_operators/4")
"""Folders of sweeps with a figure of all choices, differences.svg."""
SIZES = {
    100: "mnist_few/100",
    300: "mnist_few/300",
    1000: "mnist_few/200",
    3000: "mnist_few/3000",
    10_000: "mnist_few/10000",
}
"""Training images of MNIST -> folder of the runs at each choice's own rate."""
QUICKSTART = provenance.Table("quickstart", "max")
CHOICES = ("max_blur", "conv_blur", "blur", "avg", "strided", "subsample")
SHOWN, OPEN = "#2b6cb0", "white"
TICKS = (-10, -3, -1, 0, 1, 3, 10)


Columns = Mapping[str, Mapping[str, provenance.Beside]]
"""Title of a setting -> choice -> its difference to the baseline there."""


def figure(columns: Columns) -> Figure:
    """A panel for each setting, on a scale of its own; filled where a difference is shown."""
    choices = [name for name in CHOICES if any(name in cells for cells in columns.values())]
    drawn = Figure(figsize=(10, 1.2 + 0.27 * len(choices)), layout="constrained")
    every = drawn.subplots(1, len(columns), sharey=True)
    for axes, (title, cells) in zip(every, columns.items(), strict=True):
        for place, name in enumerate(choices):
            if name in cells:
                mean, half, shown = cells[name]
                look = {"color": SHOWN, "markerfacecolor": SHOWN if shown else OPEN, "capsize": 3}
                axes.errorbar(mean, place, xerr=half, fmt="o", markersize=6, **look)
        axes.set_title(title, fontsize="medium", pad=18)
        axes.set(ylim=(-0.5, len(choices) - 0.5), yticks=range(len(choices)), yticklabels=choices)
        # Each side of 0 has at least the width of its word.
        low, high = axes.get_xlim()
        axes.set_xlim(min(low, -0.4 * (high - low)), max(high, 0.4 * (high - low)))
        sides(axes, 1)
        axes.set_xlabel("points", fontsize="small")
    drawn.axes[0].invert_yaxis()
    return drawn


def forest(shown: provenance.Table) -> Figure:
    """Every choice beside the baseline, the best first: the dots of its seeds and the table's interval."""
    values, rows = shown.of(ACCURACY), []
    for place, (name, one) in enumerate(shown.beside("accuracy").items(), 1):
        apart = [100 * (value - values[shown.base][seed]) for seed, value in values[name].items()]
        label = f"{name} (n={len(apart)})"
        rows.append((one.mean, Forest(label, apart, style_of(place), one.ends, not one.shown)))
    ordered = [row for _, row in sorted(rows, key=lambda one: -one[0])]
    drawn = dots(ordered, f"test accuracy, difference to {shown.base} (percentage points)")
    sides(drawn.axes[0], 1)
    return drawn


def sizes(tables: Mapping[int, provenance.Table]) -> Figure:
    """A panel a choice: the difference of its accuracy to the baseline against the training images."""
    base = next(iter(tables.values())).base
    found = {size: one.beside("accuracy") for size, one in tables.items()}
    names = list(next(iter(found.values())))
    drawn, every = panels.grid(len(names), 2.2, 2.2)
    for place, (name, axes) in enumerate(zip(names, every, strict=True), 1):
        band = [(of[name].mean, *of[name].ends) for of in found.values()]
        axes.axhline(0, color="#9a9a9a", linewidth=1.2, zorder=1.5)
        panels.with_band(axes, list(tables), np.array(band).T, style_of(place))
        panels.title(axes, name)
        axes.set_xscale("log")
        # Labels of our own: matplotlib's are formulas, which pages do not typeset.
        axes.set_xticks(list(tables), [f"{size:,}" if str(size).strip("0") == "1" else "" for size in tables])
        axes.minorticks_off()
        # A tenth of a point with many images is read beside several points with few.
        axes.set_yscale("symlog", linthresh=1)
        axes.set_yticks(TICKS, [f"{tick:+d}" if tick else "0" for tick in TICKS])
    drawn.supxlabel("training images", fontsize="small")
    said = f"difference to {base} (points; logarithmic beyond 1), mean and 95 % interval"
    drawn.supylabel(said, fontsize="small")
    return drawn


def table(columns: Columns) -> str:
    cells = [[of[name].text(short=True) if name in of else "" for of in columns.values()] for name in CHOICES]
    rows = [[f"`{name}`", *row] for name, row in zip(CHOICES, cells, strict=True)]
    return pages.table(["", *columns], rows)


def draw(name: str, painter: Callable[..., Figure], *shown: Any) -> None:
    """Write a figure below ``docs``, in the look of reports."""
    drawn = plot("findings", lambda: (painter(*shown), ""))
    assert drawn is not None
    (DOCS / name).write_bytes(drawn.svg)


def main() -> None:
    every = {one.folder: one for _, tables in provenance.sweeps() for one in tables[::-1]}
    columns = {title: every[folder].beside("accuracy") for folder, title in SETTINGS.items()}
    readme = (ROOT / "README.md").read_text("utf-8")
    pages.write("../README.md", pages.filled(readme, "findings", table(columns)))
    draw("findings.svg", figure, columns)
    finetune = {title: every[folder].beside("accuracy") for folder, title in FINETUNE.items()}
    draw("finetune/differences.svg", figure, finetune)
    draw("quickstart.svg", forest, QUICKSTART)
    draw("mnist_few/sizes.svg", sizes, {size: every[folder] for size, folder in SIZES.items()})
    for folder in FORESTS:
        draw(f"{folder}/differences.svg", forest, every[folder])


if __name__ == "__main__":
    main()
