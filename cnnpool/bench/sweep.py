"""The suite of sweeps: the same runs one after the other, and several at once."""

import os
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cnnpool.bench.figures import row
from cnnpool.bench.measure import ratio
from cnnpool.bench.start import seconds


@dataclass(frozen=True)
class Case:
    """A sweep over seeds, and whether its runs are timed as commands of their own too."""

    runs: int
    model: str
    epochs: int
    apart: bool

    def __str__(self) -> str:
        return f"{self.runs} runs of {self.epochs} epochs, {self.model} on digits, {os.cpu_count()} cores"


CASES = (Case(8, "convnet", 10, apart=True), Case(16, "sprint", 10, apart=False))


def rows(repeat: int) -> Iterator[dict[str, Any]]:
    """Seconds of a sweep with ``launch=processes``, beside the same runs one after the other.

    These in one process, which imports everything once and has all cores, and as commands of their own.
    """
    for case in CASES:
        train = ["-m", "cnnpool", "train", "data=digits", f"model={case.model}", f"fit.epochs={case.epochs}"]
        train.append("fit.pictures=false")
        sweep = [*train, "-m", f"seed={','.join(map(str, range(case.runs)))}"]
        beside, after, apart = [], [], []
        for _ in range(repeat):
            beside.append(seconds([*sweep, "launch=processes"]))
            after.append(seconds(sweep))
            if case.apart:
                apart.append(sum(seconds([*train, f"seed={seed}"]) for seed in range(case.runs)))
        for rival, against in ((after, "one after the other in a process"), (apart, "a command each")):
            if rival:
                figures = statistics.median(beside), statistics.median(rival)
                yield row(str(case), "s", *figures, against, ratio(rival, beside), "1.5 times as fast")
