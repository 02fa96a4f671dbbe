"""Learning curves: validation accuracy over the epochs, with an interval over the seeds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from cnnpool.report.comparison import Comparison
from cnnpool.report.foreign import logged
from cnnpool.report.plots import panels
from cnnpool.report.plots.panels import MOST, of_all, shown, styles, styles_of
from cnnpool.report.runs import Run
from cnnpool.report.statistics import spread
from cnnpool.run_folder import metrics

ACCURACY = "val/accuracy"
FEW = 5  # Most curves with intervals in one panel; with more, only the means are drawn


@dataclass(frozen=True)
class History:
    """Validation accuracies of runs, 0..1, by epoch: mean and interval, (3, epochs), and those of ``each``.

    NaN at an epoch that a run with other epochs lacks. For other programs any scalar by step, ``scale`` 1.
    """

    epochs: list[float]
    accuracy: np.ndarray
    each: list[dict[float, float]] = field(repr=False)
    problems: list[str] = field(default_factory=list)
    labels: tuple[str, str] = ("epoch", "validation accuracy (%)")
    scale: int = 100


def history(runs: Sequence[Run], tag: str = "") -> History:
    """Read metrics.jsonl of each run once; for runs of other programs, the scalars of ``tag``."""
    if others := logged(runs):
        series = [dict(zip(*run.series[tag], strict=True)) for run in others if tag in run.series]
        return History(*_together(series), labels=("step", tag), scale=1)
    every = list(map(_metrics, runs))
    # The last validation accuracy of each epoch.
    found = [
        {line["epoch"]: float(line[ACCURACY]) for line in one.records if ACCURACY in line} for one in every
    ]
    epochs, band, accuracies = _together(list(filter(None, found)))
    return History(epochs, np.clip(band, 0, 1), accuracies, [one.problem for one in every if one.problem])


def _metrics(run: Run) -> metrics.Metrics:
    # A model that was only examined took no steps, and no metrics.
    whole = run.found and run.found.steps and run.found.epochs
    return metrics.read_whole(run.folder, whole) if whole else metrics.read(run.folder)


def _together(
    found: list[dict[float, float]],
) -> tuple[list[float], np.ndarray, list[dict[float, float]]]:
    epochs = sorted(set().union(*found))
    # A run that ended early leaves a gap instead of silently averaging over fewer runs, as does infinity.
    table = np.array([[one.get(epoch, np.nan) for epoch in epochs] for one in found])
    table[np.isinf(table)] = np.nan
    return epochs, spread(table) if found else np.empty((3, 0)), found


def histories(comparison: Comparison) -> dict[str, History]:
    """Those of the choices that figures show."""
    key = comparison.metric.key
    runs = {row.choice.label: row.choice.runs.values() for row in shown(comparison)}
    return {label: history([run for run in own if not run.diverged], key) for label, own in runs.items()}


def learning(
    comparison: Comparison | None,
    going: Mapping[str, Sequence[Run]] | None = None,
    palette: Sequence[str] = (),
    *,
    seeds: bool = False,
) -> tuple[Figure, str] | None:
    """The curves of a comparison, and apart those of runs that are ``going``; None if there is no curve.

    Without a comparison, ``palette`` has the labels in the order of their colours.
    """
    looks = styles_of(comparison) if comparison else styles(palette, palette)
    done = histories(comparison) if comparison else {}
    more = [label for label in going or {} if label not in done][: MOST - len(done)]
    running = {label: history(runs) for label, runs in (going or {}).items() if label in (*done, *more)}
    lost = "".join(f" {problem}." for one in (*done.values(), *running.values()) for problem in one.problems)
    # A single point is not a curve.
    done, running = (
        {label: one for label, one in some.items() if len(one.epochs) > 1} for some in (done, running)
    )
    every = [*done.values(), *running.values()]
    if not every:
        return None
    (x_label, y_label), scale = every[0].labels, every[0].scale
    figure, [axes] = panels.grid(1, 7.5, 4)
    few = len(done) <= FEW
    for label, one in done.items():
        name, style = f"{label} (n={len(one.each)})", looks[label]
        if seeds:
            _lines(axes, one, style.colour, style.dash, name)
        else:
            band = one.accuracy if few else one.accuracy[[0, 0, 0]]
            panels.with_band(axes, one.epochs, scale * band, style, name)
    for label, one in running.items():
        # Dots of the width of a seed's line are lost on a dark page.
        state = "running" if all(run.state == "running" for run in (going or {})[label]) else "not finished"
        _lines(axes, one, looks[label].colour, ":", f"{label} ({len(one.each)} {state})", width=2)
    whole = all(float(at).is_integer() for one in every for at in one.epochs)
    axes.xaxis.set_major_locator(MaxNLocator("auto", integer=whole))
    axes.set(xlabel=x_label, ylabel=y_label)
    panels.legend(figure)
    what = "Validation accuracy" if scale == 100 else y_label
    mean = f"mean over runs{', 95 % t interval' * few}; a gap where a run lacks the {x_label}"
    dotted = " Dotted: runs that are not finished." * bool(running)
    rest = f"{dotted}{lost}{of_all(comparison) if comparison else ''}"
    return figure, f"{what} per {x_label}: {'a line per seed' if seeds else mean}.{rest}"


def _lines(axes: Axes, one: History, colour: str, dash: str, name: str, width: float = 1.1) -> None:
    """A line per run."""
    for values in one.each:
        x = sorted(values)
        axes.plot(x, [one.scale * values[at] for at in x], dash, color=colour, linewidth=width, label=name)
