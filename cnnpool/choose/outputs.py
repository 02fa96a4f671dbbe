"""The files of a finished study: its report, its numbers, and a figure."""

import os
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from cnnpool import tables
from cnnpool.choose import page
from cnnpool.choose.study import Study, View
from cnnpool.report.plots import plot
from cnnpool.report.plots.choices import dots
from cnnpool.report.render import put


def write(study: Study, ending: page.Ending) -> Path:
    """Write choose.md, choose.html, runs.csv and the figure to the study's folder; returns the page.

    Raises:
        ValueError: if they cannot be written.
    """
    folder = study.ledger.folder
    drawn = plot("values", lambda: _values(study, ending.view))
    plots = [drawn] if drawn else []
    files = page.report(study, ending, plots)
    if found := records(study, ending.view):
        files["runs.csv"] = tables.csv(found)
    put(files, plots, folder)
    return folder / "choose.html"


def records(study: Study, view: View) -> list[dict[str, object]]:
    """One flat record per finished run: candidate, seed, metric, test accuracy, cost, place."""
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
