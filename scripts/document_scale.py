"""Draw docs/scale_*.png from docs/bench/scale.json, a results file of ``cnnpool bench scale``."""

import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

from cnnpool.bench.scale import BASE, POWER, exponent

NAMES = {"batch": "images", "size": "pixels on a side", "channels": "channels", "operators": "operators"}

docs = Path(__file__).resolve().parents[1] / "docs"
results = json.loads((docs / "bench" / "scale.json").read_text())
rows = results["rows"]
operators = list(dict.fromkeys(row["operator"] for row in rows))
for name, unit, key, factor in (("time", "ms", "seconds", 1e3), ("memory", "MB kept", "kept", 1e-6)):
    figure, axes = pyplot.subplots(1, len(NAMES), figsize=(13, 3.2), layout="constrained")
    for axis, plot in zip(NAMES, axes, strict=True):
        for operator in operators:
            points = [r for r in rows if (r["axis"], r["operator"]) == (axis, operator)]
            line = [(r["value"], factor * r[key]) for r in points if r[key]]
            if line:
                plot.loglog(*zip(*line, strict=True), "o-", label=f"{operator}: power {exponent(line):.2f}")
        plot.set_title(f"{NAMES[axis]} (proportional: power {POWER[axis]})", fontsize=9)
        plot.set_xlabel(NAMES[axis])
        plot.grid(alpha=0.3)
        plot.legend(fontsize=7)
    axes[0].set_ylabel(unit)
    others = ", ".join(f"{value} {NAMES[axis]}" for axis, value in BASE.items())
    figure.suptitle(f"forward and backward of one operator; else {others}, channels last", fontsize=10)
    figure.savefig(docs / f"scale_{name}.png", dpi=70)
    print(f"wrote {docs / f'scale_{name}.png'}")
