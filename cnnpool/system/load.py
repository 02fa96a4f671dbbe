"""Share of the processors that other programs use while something is timed."""

import math
import os
import time
from pathlib import Path

STAT = Path("/proc/stat")
WORKING = (0, 1, 2, 5, 6, 7)  # user, nice, system, irq, softirq, steal in proc(5); the rest is idle or double


class Stopwatch:
    """Seconds between ``start`` and ``stop``, and processor time of all but ``processes`` like this one."""

    def __init__(self, processes: int = 1):
        self.processes = processes
        self.seconds = self.taken = 0.0  # Time, and processor-seconds of other programs, NaN if unknown
        self._begun: tuple[float, float] | None = None

    def start(self) -> None:
        """Start counting; an interval that was not stopped is discarded."""
        self._begun = self._now()

    def stop(self) -> None:
        if self._begun is not None:
            seconds, others = self._now()
            self.seconds += seconds - self._begun[0]
            self.taken += others - self._begun[1]
            self._begun = None

    def lap(self) -> None:
        if self._begun is not None:
            self.stop()
            self.start()

    @property
    def load(self) -> float | None:
        """Processor time of other programs, divided by that of all processors, 0..1; None if unknown."""
        if math.isnan(self.taken) or not self.seconds:
            return None
        return min(max(self.taken / (self.seconds * len(usable())), 0.0), 1.0)

    def _now(self) -> tuple[float, float]:
        own = os.times()
        return time.perf_counter(), busy() - self.processes * (own.user + own.system)


def busy() -> float:
    """Seconds that the available processors have worked since the machine started; NaN if unknown."""
    names = {f"cpu{number}" for number in usable()}
    try:
        lines = [line.split() for line in STAT.read_text().splitlines()]
        counted = [line[1:] for line in lines if line and line[0] in names]
        ticks = sum(int(fields[place]) for fields in counted for place in WORKING)
    except (OSError, ValueError, IndexError):
        return math.nan
    return ticks / os.sysconf("SC_CLK_TCK") if len(counted) == len(names) else math.nan


def usable() -> set[int]:
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))
