"""The suite of sweeps: the same runs one after the other, and several at once."""

import os
from collections.abc import Iterator
from typing import Any

from cnnpool.bench.measure import ratio
from scripts.benchmarks.figures import Wanted, row
from scripts.benchmarks.start import seconds

AGAINST = "one after the other in a process"
CASES = ((8, "sprint", ()), (8, "convnet", ("fit.epochs=10", "fit.pictures=false")))
"""Sweeps over seeds: how many runs, the model that they train on digits, and options beside."""


def rows(repeat: int) -> Iterator[dict[str, Any]]:
    """Seconds of a sweep with ``launch=processes``, beside the same runs one after the other in a process,
    which imports everything once and has all cores. How far one can get: what one process takes that has one
    core, shared by all cores without any loss.
    """
    for n, model, options in CASES:
        case = f"{n} runs, {model} on digits, {' '.join(options) or 'as they come'}, {os.cpu_count()} cores"
        train = ["-m", "cnnpool", "train", "data=digits", f"model={model}", *options]
        sweep = [*train, "-m", f"seed={','.join(map(str, range(n)))}"]
        beside, after, least = [], [], []
        for _ in range(repeat):
            beside.append(seconds([*sweep, "launch=processes"]))
            after.append(seconds(sweep))
            least.append(seconds(sweep, threads=1) / (os.cpu_count() or 1))
        for what, ours, wanted in (
            (case, beside, Wanted(1.5)),
            (f"{case}: bound, one core's work divided by the cores", least, None),
        ):
            yield row(what, "s", ours, after, AGAINST, wanted, ratio(after, ours))
