"""The suite of sweeps: the same runs one after the other, and several at once."""

import os
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cnnpool.bench.measure import ratio
from scripts.benchmarks.figures import Wanted, row
from scripts.benchmarks.start import seconds


@dataclass(frozen=True)
class Case:
    """A sweep over seeds.

    Args:
        runs: how many.
        model: that they train, on digits.
        options: of each, beside.
        apart: whether they are timed as commands of their own too.
    """

    runs: int
    model: str
    options: tuple[str, ...] = ()
    apart: bool = False

    def __str__(self) -> str:
        how = " ".join(self.options) or "as they come"
        return f"{self.runs} runs, {self.model} on digits, {how}, {os.cpu_count()} cores"


LONGER = ("fit.epochs=10", "fit.pictures=false")
CASES = (
    Case(8, "convnet", LONGER, apart=True),
    Case(16, "sprint", LONGER),
    Case(16, "convnet"),
    Case(16, "sprint"),
)


def rows(repeat: int) -> Iterator[dict[str, Any]]:
    """Seconds of a sweep with ``launch=processes``, beside the same runs one after the other.

    These in one process, which imports everything once and has all cores, and as commands of their own. How
    far one can get: what one process takes that has one core, shared by all cores without any loss.
    """
    for case in CASES:
        train = ["-m", "cnnpool", "train", "data=digits", f"model={case.model}", *case.options]
        sweep = [*train, "-m", f"seed={','.join(map(str, range(case.runs)))}"]
        beside, after, apart, least = [], [], [], []
        for _ in range(repeat):
            beside.append(seconds([*sweep, "launch=processes"]))
            after.append(seconds(sweep))
            least.append(seconds(sweep, threads=1) / (os.cpu_count() or 1))
            if case.apart:
                apart.append(sum(seconds([*train, f"seed={seed}"]) for seed in range(case.runs)))
        together, single = "one after the other in a process", "a command each"
        target = Wanted(1.5)
        for what, ours, rival, against, wanted in (
            (str(case), beside, after, together, target),
            (f"{case}: bound, one core's work divided by the cores", least, after, together, None),
            (str(case), beside, apart, single, target),
        ):
            if rival:
                figures = statistics.median(ours), statistics.median(rival)
                yield row(what, "s", *figures, against, ratio(rival, ours), wanted)
