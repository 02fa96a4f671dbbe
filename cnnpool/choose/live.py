"""A study that goes on, written for TensorBoard whenever something of it has changed."""

import time
from contextlib import suppress
from types import TracebackType

import numpy as np

from cnnpool.choose.drive import Batch
from cnnpool.choose.evidence import gone
from cnnpool.choose.live_file import FILE, Live, content
from cnnpool.choose.page import Ending, verdict
from cnnpool.choose.standing import columns, order, rounds
from cnnpool.choose.study import Study, View
from cnnpool.system.lock_file import LockedFile


class Broadcast:
    """Within the context, keeps study.live.json of the study as it is, where it can be written.

    Args:
        study: the study.
    """

    def __init__(self, study: Study):
        self._study = study
        self._file = LockedFile(study.ledger.folder / FILE)

    def __enter__(self) -> "Broadcast":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.release()

    def show(self, view: View, batch: Batch | None) -> None:
        """Write where the study stands, and what runs."""
        self._write(snapshot(self._study, view, batch))

    def end(self, ending: Ending) -> None:
        """Write how the study ended."""
        self._write(snapshot(self._study, ending.view, None, verdict(self._study, ending)))

    def _write(self, live: Live) -> None:
        with suppress(OSError):
            self._file.write(content(live))


def snapshot(study: Study, view: View, batch: Batch | None, recommended: str = "") -> Live:
    """The study at this moment, its candidates in the order of its tables."""
    places = order(view)
    return Live(
        said=batch.said if batch else f"{rounds(view.done)} done",
        rounds=view.done,
        planned=study.ledger.rounds,
        ended=len(batch.ended) if batch else 0,
        asked=len(batch.jobs) if batch else 0,
        spent_s=study.ledger.spent_s,
        budget_s=study.options.budget_s,
        time=time.time(),
        candidates=columns(study, view),
        trained=[int(np.isfinite(view.values[i]).sum()) for i in places],
        left=[i in view.active for i in places],
        gone=gone(study, view),
        verdict=recommended,
    )
