"""One measured number: its place in results.json, and how to read and show it by its quantity."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from cnnpool.quantity import Quantity, find, from_records, is_number
from cnnpool.report.foreign import logged
from cnnpool.report.runs import Run

MERGED: dict[str, Callable[[list[float]], float]] = {"mean": fmean, "sum": math.fsum, "max": max, "min": min}
ACCURACY = "test.accuracy"
SHORT = {
    "accuracy": ACCURACY,
    "consistency": "invariance.consistency.distinct",
    "worst_shift": "invariance.worst_shift_accuracy",
}
"""Short names of keys, as ``--metric`` and ``choose.metric`` accept them."""
BETTER = {"higher": 1, "lower": -1, None: 0}


@dataclass(frozen=True)
class Measure:
    """A number of results.json at the dotted ``key``, in which ``*`` stands for all stages combined."""

    key: str
    quantity: Quantity

    @property
    def title(self) -> str:
        return self.quantity.title_of(self.key)

    @property
    def sense(self) -> int:
        """+1: higher is better; -1: lower is better; 0: neither, so no value is called better."""
        return BETTER[self.quantity.better]

    @property
    def unit(self) -> str:
        return self.quantity.shown_unit

    @property
    def header(self) -> str:
        return f"{self.title} ({self.unit})" if self.unit else self.title

    @property
    def step_unit(self) -> str:
        """The unit of a difference: percentage points for a fraction."""
        return "points" if self.quantity.form == "fraction" else self.unit

    def amount(self, step: float) -> str:
        """A difference with its unit."""
        return f"{self.format(step)} {self.step_unit}".rstrip()

    def shown(self, value: float) -> float:
        return 100 * value if self.quantity.form == "fraction" else value

    def within(self, value: float) -> float:
        low, high = self.quantity.range
        if math.isnan(value):
            return value
        value = value if low is None else max(value, low)
        return value if high is None else min(value, high)

    @property
    def width(self) -> float:
        """The largest possible difference; infinite if it is not known."""
        low, high = self.quantity.range
        return math.inf if low is None or high is None else high - low

    def on_axis(self, *values: float) -> list[float]:
        """``values`` in the displayed unit, each within what is possible."""
        return [self.shown(self.within(value)) for value in values]

    def format(self, value: float, *, sign: bool = False) -> str:
        return self.quantity.format(value, sign=sign)

    def read(self, results: Mapping[str, Any]) -> float | None:
        """The number of one run: None if it was not measured, NaN if it is null or not a number."""
        # Tags of other programs may contain dots.
        found = list(_lookup(results, [self.key] if self.key in results else self.key.split(".")))
        if not found:
            return None
        return MERGED[self.quantity.stages](found) if all(map(math.isfinite, found)) else math.nan


def measure(key: str, quantities: Iterable[Quantity]) -> Measure:
    """The measure at ``key``, described by the first of ``quantities`` that matches it."""
    described = find(quantities, key)
    return Measure(key, described or Quantity(key, " ".join(key.replace("_", " ").split(".")), ""))


def quantities_of(runs: Sequence[Run]) -> list[Quantity]:
    """The quantities that the runs declare; for older runs, those that the probes declare today."""
    found: dict[str, Quantity] = {}
    # Runs mostly declare the same quantities, which are slow to check.
    for quantities in {id(run.results.quantities): run.results.quantities for run in runs}.values():
        for one in from_records(quantities):
            found.setdefault(one.key, one)
    bare = any(not run.results.quantities for run in runs)
    if logged(runs):
        return list(found.values())
    if bare or not any(one.headline for one in found.values()):
        # Slow to import and rarely needed: up to version 0.2 runs did not record which numbers are headlines.
        from cnnpool.probe import declared

        for one in declared():
            if bare or one.key in found:
                found[one.key] = replace(found.setdefault(one.key, one), headline=one.headline)
    return list(found.values())


def known_keys(runs: Iterable[Run], quantities: Sequence[Quantity]) -> list[str]:
    """Every key of a measured number in any of ``runs``, in the order of ``quantities``."""
    # Most runs have the same keys.
    keys = dict.fromkeys(key for own in dict.fromkeys(run.numbers for run in runs) for key in own)
    return list(dict.fromkeys(key for one in quantities for key in keys if one.values(key) is not None))


def columns(keys: Iterable[str], quantities: Sequence[Quantity]) -> list[Measure]:
    """The measures to show, stages combined, at the smallest distance; whole model first, cost last."""
    found: dict[str, Measure] = {}
    smallest: dict[str, int] = {}
    for key in keys:
        one = find(quantities, key)
        if one is None or one.shown != "compare":
            continue
        values = one.values(key) or {}
        px = int(values["px"]) if values.get("px", "").isdecimal() else 0
        if px <= smallest.setdefault(one.key, px):
            smallest[one.key] = px
            # For a quantity by distance, keep the smallest distance.
            name = one.key if one.by_px else one.filled(values | {"stage": "*"})
            found[name] = Measure(one.filled(values | {"stage": "*"}), one)
    return sorted(found.values(), key=lambda one: (one.quantity.is_cost, one.quantity.by_stage))


def _lookup(node: Any, path: list[str]) -> Iterator[float]:
    if path and isinstance(node, Mapping):
        name, *rest = path
        below = node.values() if name == "*" else [node[name]] if name in node else []
        for value in below:
            yield from _lookup(value, rest)
    elif not path and (node is None or is_number(node)):
        yield math.nan if node is None else float(node)
