"""How much of the processors other programs take while something is timed."""

import math
import os
import time
from pathlib import Path

STAT = Path("/proc/stat")
WORKING = (0, 1, 2, 5, 6, 7)
"""user, nice, system, irq, softirq and steal by proc(5); the rest is idleness, or counted twice."""


class Stopwatch:
    """Seconds between ``start`` and ``stop``, and the processor time that other programs took meanwhile.

    The processors are those that this process may run on, one of ``processes`` that share the work alike.
    Other users of a GPU are not seen.
    """

    def __init__(self, processes: int = 1):
        self.processes = processes
        self.seconds = self.taken = 0.0
        """Counted so far: time, and processor-seconds that others took, NaN if that is not known."""
        self._begun: tuple[float, float] | None = None

    def start(self) -> None:
        """Begin to count; what was not stopped is forgotten."""
        self._begun = self._now()

    def stop(self) -> None:
        """Count what went by since ``start``; nothing if it does not run."""
        if self._begun is not None:
            seconds, others = self._now()
            self.seconds += seconds - self._begun[0]
            self.taken += others - self._begun[1]
            self._begun = None

    def lap(self) -> None:
        """Count what went by so far, and go on."""
        if self._begun is not None:
            self.stop()
            self.start()

    @property
    def load(self) -> float | None:
        """Processor time that others took, divided by that of all processors, 0..1; None if not known."""
        if math.isnan(self.taken) or not self.seconds:
            return None
        return min(max(self.taken / (self.seconds * len(usable())), 0.0), 1.0)

    def _now(self) -> tuple[float, float]:
        own = os.times()
        return time.perf_counter(), busy() - self.processes * (own.user + own.system)


def busy() -> float:
    """Seconds that the usable processors have worked since the machine began; NaN where it does not say."""
    names = {f"cpu{number}" for number in usable()}
    try:
        lines = [line.split() for line in STAT.read_text().splitlines()]
        counted = [line[1:] for line in lines if line and line[0] in names]
        ticks = sum(int(fields[place]) for fields in counted for place in WORKING)
    except (OSError, ValueError, IndexError):
        return math.nan
    return ticks / os.sysconf("SC_CLK_TCK") if len(counted) == len(names) else math.nan


def usable() -> set[int]:
    """The numbers of the processors that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))
