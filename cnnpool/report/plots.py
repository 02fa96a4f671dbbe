"""The report's figures: ``draw`` returns each as PNG and SVG."""

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from cnnpool.report import maps, statistics
from cnnpool.report.comparison import Comparison, read
from cnnpool.report.panels import curves, dots, front, lines
from cnnpool.report.runs import curve

STYLE = {
    "font.family": "DejaVu Sans",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e0e0e0",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "svg.hashsalt": "cnnpool",
    "figure.dpi": 100,
}
NAMES = ("accuracy", "differences", "learning", "gradient", "shift", "maps", "pareto")


@dataclass(frozen=True)
class Plot:
    """One figure: its file's stem, what it shows in a sentence, and its two files."""

    name: str
    caption: str
    png: bytes
    svg: bytes


def draw(comparison: Comparison) -> list[Plot]:
    """Every figure for which the runs hold numbers."""
    painters = (_accuracy, _differences, _learning, _gradient, _shift, _maps, _pareto)
    made = [plot(name, partial(paint, comparison)) for name, paint in zip(NAMES, painters, strict=True)]
    return [one for one in made if one]


def plot(name: str, paint: Callable[[], tuple[Figure, str] | None]) -> Plot | None:
    """The figure of ``paint`` in the report's style, with its caption; None if it draws nothing."""
    # A user's own matplotlibrc must not change what the report looks like.
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)  # type: ignore[arg-type]
        painted = paint()
        if painted is None:
            return None
        figure, caption = painted
        # No date inside, so that the same runs give the same file.
        return Plot(name, caption, png=png(figure), svg=_file(figure, "svg", {"Date": None}))


def png(figure: Figure) -> bytes:
    """``figure`` as the content of a PNG file."""
    return _file(figure, "png", {})


def _file(figure: Figure, kind: str, metadata: dict[str, str | None]) -> bytes:
    stream = io.BytesIO()
    figure.savefig(stream, format=kind, dpi=150, bbox_inches="tight", pad_inches=0.15, metadata=metadata)
    return stream.getvalue()


def _accuracy(comparison: Comparison) -> tuple[Figure, str] | None:
    metric = comparison.metric
    series = {
        f"{row.choice.label} (n={row.summary.n})": [metric.shown(value) for value in row.finite.values()]
        for row in comparison.rows
    }
    if not any(series.values()):
        return None
    caption = f"{metric.title} per choice: a dot per seed, the mean and its 95 % t interval."
    limits = (metric.shown(metric.within(-np.inf)), metric.shown(metric.within(np.inf)))
    return dots(series, metric.header, limits=limits), caption


def _differences(comparison: Comparison) -> tuple[Figure, str] | None:
    metric, label = comparison.metric, comparison.baseline.choice.label
    series = {
        f"{row.choice.label} (n={row.versus.summary.n})": [metric.shown(d) for d in row.versus.differences]
        for row in comparison.rows
        if row.versus
    }
    if not any(series.values()):
        return None
    unit = {"points": " (percentage points)", "": ""}.get(metric.step_unit, f" ({metric.unit})")
    caption = (
        f"{metric.title} less that of {label}, paired by seed: a dot per seed, the mean, its 95 % t interval."
    )
    return dots(series, f"{metric.title}, difference to {label}{unit}", zero=True), caption


def _learning(comparison: Comparison) -> tuple[Figure, str] | None:
    series = {}
    for row in comparison.rows:
        histories = [curve(run, "val/accuracy") for run in row.choice.runs.values()]
        histories = [history for history in histories if history]
        # One point is no curve.
        if any(len(history) > 1 for history in histories):
            epochs = sorted(set.union(*map(set, histories)))
            # A run that ended early leaves a gap, not an average over fewer runs unseen.
            values = [[100 * history.get(epoch, np.nan) for epoch in epochs] for history in histories]
            spread = statistics.spread(np.array(values))
            series[f"{row.choice.label} (n={len(histories)})"] = (epochs, np.clip(spread, 0, 100))
    if not series:
        return None
    caption = (
        "Validation accuracy per epoch: mean over seeds, 95 % t interval; a gap where a run lacks the epoch."
    )
    return curves(series, "epoch", "validation accuracy (%)"), caption


def _table(comparison: Comparison, keys: list[str], scale: float) -> dict[str, np.ndarray]:
    """Label with n -> (3, keys): mean, low, high; choices without any of the keys are left out."""
    table = {}
    measures = [comparison.measure(key) for key in keys]
    for row in comparison.rows:
        found = [read(row.choice, one) for one in measures]
        count = max(map(len, found), default=0)
        if count:
            spread = [
                [
                    scale * one.within(x)
                    for x in statistics.spread(np.array([[*values.values()] or [np.nan]]).T)[:, 0]
                ]
                for one, values in zip(measures, found, strict=True)
            ]
            table[f"{row.choice.label} (n={count})"] = np.array(spread).T
    return table


def _stages(comparison: Comparison, *section: str) -> list[str]:
    stages: dict[str, None] = {}
    for run in comparison.compared:
        node = run.measured
        for key in section:
            node = node.get(key) or {}
        stages |= dict.fromkeys(node)
    return list(stages)


def _gradient(comparison: Comparison) -> tuple[Figure, str] | None:
    stages = _stages(comparison, "gradient")
    table = _table(comparison, [f"gradient.{stage}.zero_fraction" for stage in stages], 100)
    if not table:
        return None
    caption = (
        "Share of inputs of each downsampling stage that get no gradient from the loss, per sample: "
        "mean over seeds and 95 % t interval."
    )
    return lines(
        {"": (stages, table)}, "downsampling stage", "zero gradient (% of inputs)", categories=True
    ), caption


def _shift(comparison: Comparison) -> tuple[Figure, str] | None:
    panels = {}
    for stage in _stages(comparison, "invariance", "stages"):
        distances = sorted(
            {int(d) for run in comparison.compared for d in _changes(run.measured, stage) if d.isdecimal()}
        )
        keys = [f"invariance.stages.{stage}.relative_change.{d}" for d in distances]
        table = _table(comparison, keys, 1)
        if table:
            panels[f"stage {stage}"] = (distances, table)
    if not panels:
        return None
    caption = (
        "Change of each stage's output when the input moves, relative to the distance between different "
        "images (0: invariant, 1: as far as another image): mean over seeds and 95 % t interval."
    )
    return lines(panels, "shift of the input (px)", "relative change"), caption


def _changes(results: Mapping[str, Any], stage: str) -> Mapping[str, Any]:
    return (results["invariance"].get("stages", {}).get(stage) or {}).get("relative_change") or {}


def _maps(comparison: Comparison) -> tuple[Figure, str] | None:
    rows = {f"{r.choice.label} (n={len(r.choice.runs)})": maps.maps(r.choice) for r in comparison.rows}
    drawn = maps.figure({label: row for label, row in rows.items() if row})
    caption = (
        "Accuracy when the image is shifted circularly, and the share of windows that each place of the "
        "window wins: means over seeds, colours from 0 to 100 %."
    )
    return (drawn, caption) if drawn else None


def _pareto(comparison: Comparison) -> tuple[Figure, str] | None:
    keys = [one.key for one in comparison.measures if one.key.startswith("invariance.consistency.")][:1]
    keys += [one.key for one in comparison.measures if one.key in ("cost.flops", "cost.train_images_per_s")]
    axes = [one for one in comparison.measures if one.key in keys]
    rows = [row for row in comparison.rows if row.summary.n and all(row.others[one.key].n for one in axes)]
    if not axes or len(rows) < 2 or comparison.metric.sense == 0:
        return None
    labels = [f"{row.choice.label} (n={row.summary.n})" for row in rows]
    goals = [(comparison.metric, [row.summary for row in rows])]
    goals += [(one, [row.others[one.key] for row in rows]) for one in axes]
    names = ", ".join(one.title for one, _ in goals)
    caption = (
        f"Trade-offs: means over seeds and 95 % t intervals. Filled: no other choice is at least as good in "
        f"all of {names} and better in one, going by the means."
    )
    return front(labels, goals), caption
