"""Learning curves: validation accuracy over the epochs, with an interval over the seeds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from cnnpool.report.comparison import Comparison
from cnnpool.report.foreign import logged
from cnnpool.report.plots import panels
from cnnpool.report.plots.panels import Band
from cnnpool.report.plots.styles import BEST, Style, of_all, shown, style_of, styles_of
from cnnpool.report.runs import Run
from cnnpool.report.statistics import spread
from cnnpool.run_folder import metrics
from cnnpool.run_folder.metrics import Record

ACCURACY = "val/accuracy"


@dataclass(frozen=True)
class History:
    """The way of several runs.

    Args:
        epochs: at which any of the runs has a validation accuracy.
        accuracy: (3, epochs) of it, 0..1, NaN where a run that has some lacks the epoch.
        each: epoch -> validation accuracy, of every run that has one.
        problems: a line on each file of which some is lost.
        labels: of both axes.
        scale: factor of what is drawn.
    """

    epochs: list[int]
    accuracy: np.ndarray
    each: list[dict[int, float]] = field(repr=False)
    problems: list[str] = field(default_factory=list)
    labels: tuple[str, str] = ("epoch", "validation accuracy (%)")
    scale: int = 100

    @property
    def runs(self) -> int:
        """How many runs have a validation accuracy."""
        return len(self.each)


def history(runs: Sequence[Run], tag: str = "") -> History:
    """Read metrics.jsonl of each of ``runs``, once; of runs of other programs the scalars of ``tag``."""
    if others := logged(runs):
        series = [dict(zip(*run.series[tag], strict=True)) for run in others if tag in run.series]
        return History(*_together(series), labels=("step", tag), scale=1)
    every = [metrics.read(run.folder) for run in runs]
    epochs, band, accuracies = _together([found for one in every if (found := _accuracy(one.records))])
    return History(epochs, np.clip(band, 0, 1), accuracies, [one.problem for one in every if one.problem])


def _together(found: list[dict[int, float]]) -> tuple[list[int], np.ndarray, list[dict[int, float]]]:
    epochs = sorted(set().union(*found))
    # A run that ended early leaves a gap, not an average over fewer runs unseen.
    table = np.array([[one.get(epoch, np.nan) for epoch in epochs] for one in found])
    return epochs, spread(table) if found else np.empty((3, 0)), found


def _accuracy(records: Sequence[Record]) -> dict[int, float]:
    """Epoch -> the last validation accuracy in it."""
    return {record["epoch"]: float(record[ACCURACY]) for record in records if ACCURACY in record}


def learning(comparison: Comparison, histories: Mapping[str, History]) -> tuple[Figure, str] | None:
    """All choices in one panel if they are few, else a panel for each with the baseline in grey."""
    labels = [row.choice.label for row in shown(comparison, BEST)]
    base, styles = comparison.baseline.choice.label, styles_of(comparison)
    painted = of_histories({label: histories[label] for label in labels}, styles, base)
    return painted and (painted[0], painted[1] + of_all(comparison, BEST))


def of_histories(
    histories: Mapping[str, History],
    styles: Mapping[str, Style],
    base: str,
    *,
    going: Mapping[str, History] | None = None,
    seeds: bool = False,
) -> tuple[Figure, str] | None:
    """The curves of some choices; None if no run has more than one epoch.

    Args:
        histories: by the label of the choice.
        styles: of each.
        base: the label in grey where each choice has a panel of its own.
        going: the histories of runs that are not finished; they are in no mean.
        seeds: a line for each run in place of mean and interval.
    """
    going = going or {}
    # One point is no curve.
    labels = [
        label
        for label in dict.fromkeys([*histories, *going])
        if any(label in some and len(some[label].epochs) > 1 for some in (histories, going))
    ]
    if not labels:
        return None
    names = {label: f"{label} ({_counted(histories.get(label), going.get(label))})" for label in labels}
    one = next(iter([*histories.values(), *going.values()]))
    (x_label, y_label), scale = one.labels, one.scale
    few = len(labels) <= panels.FEW
    if few:
        figure, [axes] = panels.grid(1, 7.5, 4)
        every = [axes] * len(labels)
    else:
        figure, every = panels.grid(len(labels), 2.4, 2.1)
    for axes, label in zip(every, labels, strict=True):
        if not few and base in histories and label != base:
            panels.reference(axes, histories[base].epochs, scale * histories[base].accuracy[0])
        if label in histories and seeds:
            _lines(axes, histories[label], styles[label], names[label])
        elif label in histories:
            own = histories[label]
            panels.with_band(axes, own.epochs, scale * own.accuracy, styles[label], names[label])
        if label in going:
            _lines(axes, going[label], replace(styles[label], dash=":", mark=""), names[label])
        if not few:
            panels.title(axes, names[label])
        axes.xaxis.set_major_locator(MaxNLocator("auto" if few else 5, integer=True))
    if few:
        # Labels of the figure would lie on its legend.
        axes.set(xlabel=x_label, ylabel=y_label)
        panels.legend(figure, panels.drawn(*every))
    else:
        figure.supxlabel(x_label, fontsize="medium")
        figure.supylabel(y_label, fontsize="medium")
    grey = f" Grey: {base}." if base in histories and not few else ""
    shown = [histories[label] for label in labels if label in histories]
    what = "Validation accuracy" if scale == 100 else y_label
    return figure, f"{what} per {x_label}: {_caption(shown, seeds, bool(going))}{grey}"


def _caption(shown: Sequence[History], seeds: bool, going: bool) -> str:
    """How the curves are drawn, and the faults of their files."""
    point = shown[0].labels[0] if shown else "epoch"
    drawn = f"mean over seeds, 95 % t interval; a gap where a run lacks the {point}"
    drawn = "a line per seed" if seeds else drawn
    dotted = " Dotted: runs that are not finished." if going else ""
    problems = [problem for history in shown for problem in history.problems]
    lost = f" {'; '.join(problems)}." if problems else ""
    return f"{drawn}.{dotted}{lost}"


def _counted(history: History | None, going: History | None) -> str:
    parts = [f"n={history.runs}"] if history else []
    return ", ".join([*parts, *([f"{going.runs} running"] if going else [])])


def _lines(axes: Axes, history: History, style: Style, name: str) -> None:
    for values in history.each:
        epochs = sorted(values)
        scaled = [history.scale * values[epoch] for epoch in epochs]
        axes.plot(epochs, scaled, style.dash, color=style.colour, linewidth=1.1, label=name)


def curves(series: Mapping[str, tuple[Sequence[int], Band]], x_label: str, y_label: str) -> Figure:
    """A line per name over whole numbers with a band, in one panel.

    Args:
        series: name -> (x, (3, x): mean, low, high).
        x_label: below.
        y_label: beside, with its unit.
    """
    figure, [axes] = panels.grid(1, 7.5, 4)
    for place, (name, (x, band)) in enumerate(series.items()):
        panels.with_band(axes, x, band, style_of(place), name)
    axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
    axes.set(xlabel=x_label, ylabel=y_label)
    panels.legend(figure, panels.drawn(axes))
    return figure
