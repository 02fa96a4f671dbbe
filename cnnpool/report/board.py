"""Where TensorBoard shows a comparison: in its tab *Downsampling*, which reads the run folders by itself."""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from cnnpool.report.runs import MEANS, Run
from cnnpool.system.next_command import BOARD as LINK

__all__ = ["LINK", "root_of", "tidy"]

OLD = "events.out.tfevents.*.cnnpool"


def root_of(runs: Sequence[Run]) -> Path | None:
    """The deepest folder above all ``runs`` and their choices; None if that is the whole disk, or none is."""
    try:
        common = Path(os.path.commonpath([run.folder.resolve().parent for run in runs]))
    except ValueError:
        return None
    if {run.folder.resolve() for run in runs} == {common / f"seed{run.seed}" for run in runs}:
        # One choice alone: others are to lie beside it.
        common = common.parent
    return common if common != Path(common.anchor) else None


def tidy(root: Path) -> None:
    """Remove the event files of means and intervals that version 0.1 left below ``root``, nothing else."""
    folder = root / MEANS
    for file in list(folder.rglob(OLD)):
        with suppress(OSError):
            file.unlink()
            for parent in file.relative_to(root).parents[:-1]:
                (root / parent).rmdir()
