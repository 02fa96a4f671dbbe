"""Draw how much a choice matters as the training images grow, from finished runs.

usage: python scripts/docs/sizes.py RUNS OUT [KEY=VALUE ...]

RUNS holds one experiment at several ``data.limit``, of which those with KEY=VALUE are used; OUT is a folder
that exists, for sizes.svg and sizes.csv. Only seeds that every choice has at every size are used.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from cnnpool import tables
from cnnpool.report.choice import select
from cnnpool.report.comparison import Comparison, compare
from cnnpool.report.plots import panels
from cnnpool.report.plots.panels import plot, style_of
from cnnpool.report.runs import Run, find, finished
from cnnpool.report.statistics import Summary

LIMIT, BASELINE = "data.limit", "max"
TICKS = (-10, -3, -1, 0, 1, 3, 10)


def main(root: Path, out: Path, *where: str) -> int:
    """Write the two files; returns the exit status."""
    runs = whole_seeds(select(finished(find([root])), where))
    compared = partial(compare, by=["pool"], against=BASELINE, allow=["fit.lr"])
    sizes = {size: compared(of) for size, of in by_size(runs).items()}
    drawn = plot("sizes", lambda: (figure(sizes), ""))
    assert drawn is not None
    (out / "sizes.svg").write_bytes(drawn.svg)
    (out / "sizes.csv").write_text(as_csv(sizes))
    return 0


def by_size(runs: Sequence[Run]) -> dict[int, list[Run]]:
    """The runs of each number of training images, fewest first."""
    found: dict[int, list[Run]] = {}
    for run in runs:
        found.setdefault(int(run.results.data["limit"]), []).append(run)
    return dict(sorted(found.items()))


def whole_seeds(runs: Sequence[Run]) -> list[Run]:
    """Those of ``runs`` whose seed every choice has at every size: a sweep may have been stopped."""
    cells: dict[tuple[int, str], set[int]] = {}
    for run in runs:
        cells.setdefault((int(run.results.data["limit"]), run.results.pool["name"]), set()).add(run.seed)
    common = set.intersection(*cells.values())
    return [run for run in runs if run.seed in common]


def figure(sizes: Mapping[int, Comparison]) -> Figure:
    """A panel a choice: the difference of its accuracy to the baseline against the number of images."""
    names = [row.choice.label for row in next(iter(sizes.values())).rows[1:]]
    drawn, axes = panels.grid(len(names), 2.2, 2.2)
    x = list(sizes)
    for number, (name, one) in enumerate(zip(names, axes, strict=True), 1):
        points = [(s.mean, s.low, s.high) for s in against_baseline(sizes, name)]
        one.axhline(0, color="#9a9a9a", linewidth=1.2, zorder=1.5)
        panels.with_band(one, x, 100 * np.array(points).T, style_of(number))
        panels.title(one, name)
        one.set_xscale("log")
        # Labels of our own: matplotlib's are formulas, which reports do not typeset.
        one.set_xticks(x, [f"{size:,}" if str(size).strip("0") == "1" else "" for size in x])
        one.minorticks_off()
        # A tenth of a point at the largest size is read beside ten points at the smallest.
        one.set_yscale("symlog", linthresh=1)
        one.set_yticks(TICKS, [f"{tick:+d}" if tick else "0" for tick in TICKS])
    n = next(iter(sizes.values())).rows[0].summary.n
    drawn.supxlabel("training images", fontsize="small")
    said = f"difference to {BASELINE} (points; logarithmic beyond 1), mean and 95 % interval, n = {n}"
    drawn.supylabel(said, fontsize="small")
    return drawn


def against_baseline(sizes: Mapping[int, Comparison], name: str) -> Iterator[Summary]:
    """At each size the difference of a choice's accuracy to the baseline."""
    for comparison in sizes.values():
        row = next(row for row in comparison.rows if row.choice.label == name)
        assert row.versus is not None
        yield row.versus.summary


def as_csv(sizes: Mapping[int, Comparison]) -> str:
    """Every run: size, choice, seed, accuracy as a share."""
    return tables.csv(
        [
            {"limit": size, "pool": row.choice.label, "seed": seed, "accuracy": value}
            for size, comparison in sizes.items()
            for row in comparison.rows
            for seed, value in sorted(row.values.items())
        ]
    )


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:]))
