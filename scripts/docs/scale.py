"""Draw docs/scale_*.png from docs/bench/scale.json, a results file of ``python scripts/benchmarks scale``."""

import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

from scripts.benchmarks import growth
from scripts.benchmarks.curves import NAMES, POWER, exponent
from scripts.benchmarks.scale import BASE

docs = Path(__file__).resolve().parents[2] / "docs"
results = json.loads((docs / "bench" / "scale.json").read_text())
rows = results["rows"]
operators = list(dict.fromkeys(row["operator"] for row in rows if row["axis"] in NAMES))
runs = [row for row in rows if row["operator"] == growth.NAME]
for name, unit, key, factor in (("time", "ms", "seconds", 1e3), ("memory", "MB kept", "kept", 1e-6)):
    figure, axes = pyplot.subplots(1, len(NAMES) + 1, figsize=(15, 3.2), layout="constrained")
    for axis, plot in zip(NAMES, axes, strict=False):
        for operator in operators:
            points = [r for r in rows if (r["axis"], r["operator"]) == (axis, operator)]
            line = [(r["value"], factor * r[key]) for r in points if r[key]]
            if line:
                plot.loglog(*zip(*line, strict=True), "o-", label=f"{operator}: power {exponent(line):.2f}")
        plot.set_title(f"{NAMES[axis]} (proportional: power {POWER[axis]})", fontsize=9)
        plot.set_xlabel(NAMES[axis])
        values = sorted({row["value"] for row in rows if row["axis"] == axis})
        plot.set_xticks(values, values)
        plot.set_xticks([], minor=True)
        plot.grid(alpha=0.3)
        plot.legend(fontsize=7)
    axes[0].set_ylabel(unit)
    unit = 1 if key == "seconds" else 1e-6
    axes[-1].plot([r["value"] for r in runs], [unit * r[key] for r in runs], "o-")
    axes[-1].set(xlabel="runs", ylim=(0, 1.1 * max(unit * r[key] for r in runs)))
    axes[-1].set_title("a sweep in one process", fontsize=9)
    axes[-1].set_ylabel("s since its start" if key == "seconds" else "MB resident")
    axes[-1].grid(alpha=0.3)
    others = ", ".join(f"{value} {NAMES[axis]}" for axis, value in BASE.items() if axis != "operators")
    figure.suptitle(f"forward and backward of one operator; else {others}, channels last", fontsize=10)
    figure.savefig(docs / f"scale_{name}.png", dpi=70)
    print(f"wrote {docs / f'scale_{name}.png'}")

many = [row for row in rows if row["axis"] == "runs" and row["operator"] != growth.NAME]
figure, axes = pyplot.subplots(1, 2, figsize=(10, 3.4), layout="constrained")
for plot, label, key, factor in zip(
    axes, ("s", "MB resident at most"), ("seconds", "kept"), (1, 1e-6), strict=True
):
    for name in dict.fromkeys(row["operator"] for row in many):
        points = [(row["value"], factor * row[key]) for row in many if row["operator"] == name]
        plot.loglog(*zip(*points, strict=True), "o-", label=name)
    plot.set(xlabel="runs", ylabel=label)
    plot.grid(alpha=0.3)
    plot.legend(fontsize=7)
figure.savefig(docs / "scale_runs.png", dpi=70)
print(f"wrote {docs / 'scale_runs.png'}")
