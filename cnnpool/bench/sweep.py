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
    """Seconds of a sweep of digits with ``launch=processes``, beside the same runs one after the other.

    These in one process, which imports everything once and has all cores, and as commands of their own.
    """
    seeds = [f"seed={seed}" for seed in range(RUNS)]
    train = ["-m", "cnnpool", "train", "data=digits", "fit.pictures=false"]
    sweep = [*train, "-m", f"seed={','.join(seed.partition('=')[2] for seed in seeds)}"]
    for title, length in (("5 epochs", []), ("20 epochs", ["fit.epochs=20"])):
        beside, after, apart = [], [], []
        for _ in range(repeat):
            beside.append(seconds([*sweep, *length, "launch=processes"]))
            after.append(seconds([*sweep, *length]))
            apart.append(sum(seconds([*train, *length, seed]) for seed in seeds))
        case = f"{RUNS} runs of {title} on digits, {os.cpu_count()} cores"
        for rival, against in ((after, "one after the other in a process"), (apart, "a command each")):
            figures = statistics.median(beside), statistics.median(rival)
            yield row(case, "s", *figures, against, ratio(rival, beside), "1.5 times as fast")
