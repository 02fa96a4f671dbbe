"""A claim's evidence: single cases, and the finding from all of them."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cnnpool.report.pairwise import LEAST_DECIDED
from cnnpool.report.runs import Run
from cnnpool.report.statistics import Summary


@dataclass(frozen=True)
class Case:
    """One measured number that supports a claim, contradicts it, or decides nothing."""

    when: str
    """The circumstance a textbook would name; cases of one circumstance are judged together."""
    where: str
    """Data, model, readout, operator and stage."""
    what: str
    """What the number is."""
    summary: Summary
    """Over seeds; of a paired difference where two choices are compared."""
    values: Mapping[int, float]
    """Seed -> the number, of which ``summary`` is."""
    holds: bool | None
    """None: cannot be told from so few seeds."""
    runs: tuple[Run, ...]
    unit: str = "%"
    """``%`` and ``points`` show a fraction times 100; empty shows it as it is."""
    expected: str = ""
    """What the claim or the theory says the number is."""
    exact: bool = False
    """Arithmetic: no seed changes the number, so it has neither spread nor n."""

    @property
    def number(self) -> str:
        """Mean with its 95 % t interval and unit."""
        s, sign = self.summary, "+" if self.unit == "points" else ""
        scale = 100 if self.unit in ("%", "points") else 1
        text = f"{scale * s.mean:{sign}.2f}" if scale > 1 else f"{s.mean:.4g}"
        if s.n > 1 and not self.exact:
            # A share and an energy are never negative.
            ends = max(s.low, 0.0) if self.unit == "%" else s.low, s.high
            low, high = (f"{scale * x:{sign}.2f}" if scale > 1 else f"{x:.4g}" for x in ends)
            text += f" [{low}, {high}]"
        return f"{text} {self.unit}".rstrip()

    @property
    def spread(self) -> str:
        """Standard deviation over seeds."""
        scale = 100 if self.unit in ("%", "points") else 1
        if self.exact or math.isnan(self.summary.sd):
            return "–"
        # Equal numbers, whose mean is rounded, are not quite equal to it.
        return f"{scale * self.summary.sd:.3g}" if self.summary.sd > 1e-12 else "0"

    @property
    def count(self) -> str:
        """How many seeds the number is over; none for arithmetic."""
        return "–" if self.exact else str(self.summary.n)

    @property
    def word(self) -> str:
        return {True: "yes", False: "no", None: "cannot be told"}[self.holds]


@dataclass(frozen=True)
class Finding:
    """The finding of the runs on one claim."""

    name: str
    statement: str
    measured: str
    rule: str
    needs: str
    cases: list[Case]

    @property
    def verdict(self) -> str:
        return verdict(self.cases)

    @property
    def open(self) -> bool:
        """Whether more runs could decide it."""
        return not self.cases or any(case.holds is None for case in self.cases)


def verdict(cases: Sequence[Case]) -> str:
    """The verdict of the cases in a word.

    Holds if all that can be told do, does not hold if none does; else holds only when a circumstance is met
    in which all do. Where fewer than half can be told, none of these is said.
    """
    told = [case for case in cases if case.holds is not None]
    if not told:
        few = any(case.summary.n < LEAST_DECIDED for case in cases)
        why = "too few seeds" if few else "nothing is shown either way" if cases else "none of them tests it"
        return f"cannot be told from these runs: {why}"
    true = sum(bool(case.holds) for case in told)
    if 2 * len(told) < len(cases):
        said = f"{true} yes, {len(told) - true} no, {len(cases) - len(told)} cannot be told"
        return f"cannot be told in most cases ({said})"
    open_cases = f", {len(cases) - len(told)} cannot be told" if len(cases) > len(told) else ""
    count = f" ({true} of {len(told)} cases{open_cases})"
    if true == len(told):
        return f"holds{count}"
    if not true:
        return f"does not hold{count}"
    whole = _whole(told)
    return f"holds only when {'; or '.join(whole)}{count}" if whole else f"holds only in some runs{count}"


def _whole(told: Iterable[Case]) -> list[str]:
    """The circumstances in which every case holds."""
    by_when: dict[str, bool] = {}
    for case in told:
        by_when[case.when] = by_when.get(case.when, True) and bool(case.holds)
    return [when for when, holds in by_when.items() if holds]
