"""When a run logged what it logged, as its event files have it."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tensorboard.backend.event_processing import event_file_loader


def wall_times(files: Iterable[Path]) -> dict[tuple[str, int], float]:
    """(tag, step) -> seconds since 1970 at which the scalar was written, the first time if there are several.

    A file is read as far as it is whole.
    """
    found: dict[tuple[str, int], float] = {}
    for path in sorted(files):
        # The other loader turns scalars into tensors.
        loader: Any = event_file_loader.LegacyEventFileLoader(str(path))
        for event in loader.Load():
            for value in event.summary.value:
                found.setdefault((value.tag, event.step), event.wall_time)
    return found
