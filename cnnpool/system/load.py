"""How much of the processors other programs take while something is timed."""

import os
import time
from pathlib import Path

STAT = Path("/proc/stat")
WORKING = (0, 1, 2, 5, 6, 7)
"""user, nice, system, irq, softirq and steal by proc(5); the rest is idleness, or counted twice."""


class Stopwatch:
    """Seconds between ``start`` and ``stop``, and the processor time that other programs took meanwhile.

    The processors are those that this process may run on. Other users of a GPU are not seen.

    Args:
        processes: that share the work alike, of which this is one.
    """

    def __init__(self, processes: int = 1):
        self.processes = processes
        self.seconds = 0.0
        self._taken: float | None = 0.0
        self._begun: tuple[float, float | None] | None = None

    def start(self) -> None:
        """Begin to count; what was not stopped is forgotten."""
        self._begun = time.perf_counter(), self._others()

    def stop(self) -> None:
        """Count what went by since ``start``; nothing if it does not run."""
        if self._begun is None:
            return
        begun, others = self._begun
        now = self._others()
        self.seconds += time.perf_counter() - begun
        if self._taken is None or others is None or now is None:
            self._taken = None
        else:
            self._taken += now - others
        self._begun = None

    @property
    def load(self) -> float | None:
        """Processor time that others took, divided by that of all processors, 0..1; None if not known."""
        if self._taken is None or not self.seconds:
            return None
        return min(max(self._taken / (self.seconds * len(usable())), 0.0), 1.0)

    @property
    def taken(self) -> float | None:
        """Processor-seconds that others took; None if that is not known."""
        return self._taken

    def lap(self) -> None:
        """Count what went by so far, and go on."""
        if self._begun is not None:
            self.stop()
            self.start()

    def restore(self, seconds: float, taken: float | None) -> None:
        """Go on from what another has counted."""
        self.seconds, self._taken = seconds, taken

    def _others(self) -> float | None:
        all_together = busy()
        if all_together is None:
            return None
        own = os.times()
        return all_together - self.processes * (own.user + own.system)


def busy() -> float | None:
    """Seconds that the usable processors have worked since the machine began; None where it does not say."""
    names = {f"cpu{number}" for number in usable()}
    try:
        lines = [line.split() for line in STAT.read_text().splitlines()]
        counted = [line[1:] for line in lines if line and line[0] in names]
        ticks = sum(int(fields[place]) for fields in counted for place in WORKING)
    except (OSError, ValueError, IndexError):
        return None
    return ticks / os.sysconf("SC_CLK_TCK") if len(counted) == len(names) else None


def usable() -> set[int]:
    """The numbers of the processors that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))
