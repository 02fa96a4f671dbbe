"""Whether the times of runs can be trusted: ``loaded`` says why not."""

from collections.abc import Sequence

from cnnpool.report.measure import Measure
from cnnpool.report.runs import Run

MARK = "†"
LOADED = 0.1
"""Share of the processors taken by other programs above which a time says little."""


def loaded(runs: Sequence[Run], measures: Sequence[Measure]) -> str:
    """One sentence on the timed of ``measures``, to stand beside ``MARK``; empty if they can be trusted.

    Times can be trusted if every run says that other programs took little of the machine while it trained.
    """
    timed = " and ".join(one.title for one in measures if one.quantity.timed)
    loads = [run.measured.get("cost", {}).get("load") for run in runs]
    known = [load for load in loads if isinstance(load, int | float)]
    busy = [load for load in known if load > LOADED]
    if not timed or (not busy and len(known) == len(loads)):
        return ""
    if busy:
        return (
            f"{timed}: unreliable, since other programs took more than {100 * LOADED:.0f} % of the "
            f"processors during {len(busy)} of {len(loads)} runs, up to {100 * max(busy):.0f} %"
        )
    missing = len(loads) - len(known)
    said = f"{missing} of {len(loads)} runs do not say how busy the machine was"
    return f"{timed}: not known to be reliable, since {said}"


def header(one: Measure, why: str) -> str:
    """The header of a column, marked if its times are not to be trusted for the reason ``why``."""
    return f"{one.header} {MARK}" if why and one.quantity.timed else one.header
