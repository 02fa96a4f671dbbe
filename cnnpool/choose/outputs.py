"""The files of a finished study: its report, its numbers, and pages for TensorBoard."""

import os
import shlex
import shutil
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from cnnpool import tables
from cnnpool.choose import page
from cnnpool.choose.study import Study, View
from cnnpool.report.plots import Plot, plot
from cnnpool.report.plots.choices import dots
from cnnpool.report.plots.learning_curve import curves
from cnnpool.report.render import put, rendered
from cnnpool.report.statistics import summarise

BOARD = "_choose"


def write(study: Study, ending: page.Ending) -> Path:
    """Write choose.md, choose.html, runs.csv, figures and TensorBoard's page into the study's folder.

    Raises:
        ValueError: if it cannot be written.
    """
    folder = study.ledger.folder
    plots = draw(study, ending.view)
    files = page.report(study, ending, plots)
    if found := records(study, ending.view):
        files["runs.csv"] = tables.csv(found)
    put(files, plots, folder)
    try:
        board(study, ending, folder / BOARD)
    except OSError as error:
        raise ValueError(f"{error.filename or folder} cannot be written: {error.strerror}") from None
    return folder / "choose.html"


def records(study: Study, view: View) -> list[dict[str, object]]:
    """One flat record per finished run of the rounds: candidate, seed, metric, test accuracy, cost, place."""
    found = []
    for arm in study.arms:
        for seed, one in arm.runs(study.seeds).items():
            value = study.metric.read(one.measured)
            number = seed - study.first_seed
            found.append(
                {
                    **{"candidate": arm.label, "seed": seed, "round": number + 1},
                    **{"counted": number < view.done, study.metric.key: None if value != value else value},
                    **{"test.accuracy": one.accuracy, "wall_s": one.measured.get("cost", {}).get("wall_s")},
                    "folder": os.path.relpath(arm.home / f"seed{seed}", study.ledger.folder),
                }
            )
    return found


def draw(study: Study, view: View) -> list[Plot]:
    """Every candidate's values, and the course of their means."""
    made = [
        plot("values", lambda: _values(study, view)),
        plot("course", lambda: _course(study, view)),
    ]
    return [one for one in made if one]


def board(study: Study, ending: page.Ending, folder: Path) -> None:
    """Write the study for TensorBoard: a page of text, and by candidate its mean and bound after each round.

    Raises:
        OSError: if the folder cannot be written.
    """
    # Late, so that a mistake in the options is named without waiting for torch.
    from torch.utils.tensorboard import SummaryWriter

    # TensorBoard would show the means of an earlier call beside the new ones.
    shutil.rmtree(folder, ignore_errors=True)
    view = ending.view
    shown = rendered(
        "board",
        "board.jinja",
        title="Which downsampling",
        verdict=page.verdict(study, ending),
        candidates=page.columns(study, view),
        next=shlex.join(page.next_command(study, ending)),
    )
    with SummaryWriter(folder) as writer:
        writer.add_text("choose", shown["board.md"])
    for place, arm in enumerate(study.arms):
        steps, means = _means(study, view, place)
        if steps:
            with SummaryWriter(folder / arm.label.replace("/", "_")) as writer:
                for step, value in zip(steps, means[0], strict=True):
                    writer.add_scalar(f"choose/mean/{study.metric.key.replace('.', '/')}", value, step)


def _values(study: Study, view: View) -> tuple[Figure, str] | None:
    metric = study.metric
    if not view.done:
        return None
    series = {
        arm.label: [metric.shown(metric.sense * value) for value in row[np.isfinite(row)]]
        for arm, row in zip(study.arms, view.values, strict=True)
    }
    series = {f"{label} (n={len(values)})": values for label, values in series.items() if values}
    caption = f"{metric.title}: a dot per seed, the mean and its 95 % t interval over seeds."
    return dots(series, metric.header), caption


def _course(study: Study, view: View) -> tuple[Figure, str] | None:
    metric = study.metric
    if view.done < 2:
        return None
    series = {}
    for place, arm in enumerate(study.arms):
        steps, band = _means(study, view, place)
        if steps:
            series[arm.label] = steps, band * (100 if metric.quantity.form == "fraction" else 1)
    caption = f"Mean {metric.title} after each round; a line ends where its candidate was dropped."
    return curves(series, "round", metric.header), caption


def _means(study: Study, view: View, place: int) -> tuple[list[int], np.ndarray]:
    """Rounds, and (3, rounds): mean, low and high of the 95 % t interval after each, up to the drop."""
    ended = {drop.candidate: drop.round for drop in view.state.drops}.get(place, view.done)
    sense = study.metric.sense
    steps, rows = [], []
    for done in range(1, ended + 1):
        values = view.values[place, :done]
        if np.isfinite(values[-1]):
            s = summarise((sense * values[np.isfinite(values)]).tolist())
            # The interval of two seeds is wider than the picture.
            steps.append(done)
            rows.append((s.mean, s.low, s.high) if s.n > 2 else (s.mean, np.nan, np.nan))
    return steps, np.array(rows).T if rows else np.empty((3, 0))
