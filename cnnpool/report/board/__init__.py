"""A comparison for TensorBoard: ``write`` lays means and intervals of every choice beside its runs."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cnnpool.report import maps
from cnnpool.report.board.events import BANDS, Events, discard, ours
from cnnpool.report.board.link import link
from cnnpool.report.board.means import bands
from cnnpool.report.board.page import layout, summary
from cnnpool.report.choice import Choice
from cnnpool.report.comparison import Comparison
from cnnpool.report.plots import png
from cnnpool.report.runs import MEANS, Run

__all__ = ["link", "root_of", "write"]


def write(comparison: Comparison, root: Path) -> None:
    """Write event files into ``root/_mean`` and ``root/_mean/<choice>``; those of an earlier call go.

    Every choice has, for each scalar that its runs logged, its mean under the scalar's own tag, and under
    ``with_interval/<tag>/mean``, ``low`` and ``high`` the mean with its 95 % t interval where there are two
    runs; and as an image its maps of shifts and winners. The folder ``_mean`` itself holds the page that
    draws them, and the comparison's table as text.

    Raises:
        OSError: if the folder cannot be written.
    """
    folder = root / MEANS
    old = ours(folder)
    choices = [row.choice for row in comparison.rows]
    charted: dict[str, None] = {}
    for choice, name in zip(choices, names(choices, root), strict=True):
        with Events(folder / name) as events:
            label = f"{choice.label} (n={len(choice.runs)})"
            if drawn := maps.figure({label: found} if (found := maps.maps(choice)) else {}):
                events.image("maps", png(drawn))
            for tag, (steps, band) in bands(list(choice.runs.values())).items():
                events.scalars(tag, steps, band[0])
                if np.isfinite(band).all():
                    # A page's chart complains of every run that has some of its three tags but not all.
                    for row, part in zip(band, ("mean", "low", "high"), strict=True):
                        events.scalars(f"{BANDS}/{tag}/{part}", steps, row)
                    if len(steps) > 1:
                        charted[tag] = None
    with Events(folder) as events:
        events.text("comparison", summary(comparison))
        events.layout(layout(charted))
    discard(old, folder)


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
