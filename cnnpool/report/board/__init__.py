"""A comparison for TensorBoard: ``write`` lays means and intervals of every choice beside its runs."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from filelock import FileLock

from cnnpool.report.board.events import BANDS, Events, discard, ours
from cnnpool.report.board.link import link
from cnnpool.report.board.page import layout, summary
from cnnpool.report.choice import Choice
from cnnpool.report.comparison import Comparison
from cnnpool.report.course import Course
from cnnpool.report.plots import Plot
from cnnpool.report.runs import MEANS, Run
from cnnpool.run_folder.layout import LOCK
from cnnpool.run_folder.pages import pages

__all__ = ["link", "root_of", "write"]


def write(
    comparison: Comparison, root: Path, courses: Mapping[str, Course], plots: Iterable[Plot] = ()
) -> None:
    """Write event files into ``root/_mean`` and ``root/_mean/<choice>``; those of an earlier call go.

    Every choice has, for each scalar that its runs logged, its mean under the scalar's own tag. Those with
    a chart have it under ``with_interval/<tag>/mean``, ``low`` and ``high`` with its 95 % t interval too,
    where there are two runs. The folder ``_mean`` itself holds the pages that draw them, the comparison's
    tables as text, and the report's figures ``plots``. Of several calls at once one waits for the other.

    Raises:
        OSError: if the folder cannot be written.
    """
    folder = root / MEANS
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / LOCK):
        old = ours(folder)
        _write(comparison, root, courses, plots)
        discard(old, folder)


def _write(comparison: Comparison, root: Path, courses: Mapping[str, Course], plots: Iterable[Plot]) -> None:
    folder = root / MEANS
    choices = [row.choice for row in comparison.rows]
    charts = pages({tag for choice in choices for tag in courses[choice.label].bands})
    banded = {tag for tags in charts.values() for tag in tags}
    drawn: set[str] = set()
    for choice, name in zip(choices, names(choices, root), strict=True):
        with Events(folder / name) as events:
            for tag, (steps, band) in courses[choice.label].bands.items():
                events.scalars(tag, steps, band[0])
                if tag in banded and np.isfinite(band).all():
                    # A page's chart complains of every run that has some of its three tags but not all.
                    for row, part in zip(band, ("mean", "low", "high"), strict=True):
                        events.scalars(f"{BANDS}/{tag}/{part}", steps, row)
                    if len(steps) > 1:
                        drawn.add(tag)
    with Events(folder) as events:
        events.text("comparison", summary(comparison))
        events.layout(lines=charts, bands=layout(drawn))
        for plot in plots:
            events.image(f"view/{plot.name}", plot.png)


def root_of(runs: Sequence[Run]) -> Path | None:
    """The deepest folder above all ``runs`` and their choices; None if that is the whole disk, or none is."""
    try:
        common = Path(os.path.commonpath([run.folder.resolve().parent for run in runs]))
    except ValueError:
        return None
    if {run.folder.resolve() for run in runs} == {common / f"seed{run.seed}" for run in runs}:
        # One choice alone: its means belong beside those of the others.
        common = common.parent
    return common if common != Path(common.anchor) else None


def names(choices: Sequence[Choice], root: Path) -> list[str]:
    """A folder for each choice: the one above its seeds where it is theirs alone, else after its label."""
    homes = [{run.folder.resolve().parent for run in choice.runs.values()} for choice in choices]
    shared = [sum(home in other for other in homes) > 1 for own in homes for home in list(own)[:1]]
    found: list[str] = []
    for choice, own, common in zip(choices, homes, shared, strict=True):
        home = next(iter(own))
        by_path = len(own) == 1 and not common and home != root
        name = home.relative_to(root).as_posix() if by_path else safe(choice.label)
        while name in found:
            name += "_"
        found.append(name)
    return found


def safe(label: str) -> str:
    """``label`` as the name of one folder."""
    kept = "".join(mark if mark.isalnum() or mark in "._=+-" else "_" for mark in label.replace(" / ", "+"))
    return kept.strip("._")[:120] or "choice"
