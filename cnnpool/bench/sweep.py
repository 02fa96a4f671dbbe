"""The suite of sweeps: the same runs one after the other, and several at once."""

import os
import statistics
from collections.abc import Iterator
from typing import Any

from cnnpool.bench.figures import row
from cnnpool.bench.measure import ratio
from cnnpool.bench.start import seconds

RUNS = 8


def rows(repeat: int) -> Iterator[dict[str, Any]]:
    """Seconds of a sweep of digits with ``launch=processes``, beside one after the other in one process."""
    seeds = ",".join(str(seed) for seed in range(RUNS))
    sweep = ["-m", "cnnpool", "train", "-m", "data=digits", "fit.pictures=false", f"seed={seeds}"]
    for title, length in (("5 epochs", []), ("20 epochs", ["fit.epochs=20"])):
        beside, after = [], []
        for _ in range(repeat):
            beside.append(seconds([*sweep, *length, "launch=processes"]))
            after.append(seconds([*sweep, *length]))
        figures = statistics.median(beside), statistics.median(after)
        case = f"{RUNS} runs of {title} on digits, {os.cpu_count()} cores"
        yield row(case, "s", *figures, "one after the other", ratio(after, beside), "1.5 times as fast")
