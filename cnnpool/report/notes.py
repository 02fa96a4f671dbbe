"""Caveats of the numbers: ``observe`` gives them in sentences."""

import math
from collections.abc import Sequence

from cnnpool.report import one_answer
from cnnpool.report.measure import Measure
from cnnpool.report.row import Row
from cnnpool.report.runs import Run, problem

FLOPS = "cost.flops"
MORE, EQUAL = 0.1, 0.05
"""Shares of FLOPs: from here on a win is named as one by more arithmetic; up to here costs are equal."""


def observe(runs: Sequence[Run], kept: Sequence[Run], rows: Sequence[Row], metric: Measure) -> list[str]:
    """Sentences on runs that are missing or damaged, values that are no numbers, unpaired seeds, dirty code.

    Args:
        runs: all that were found.
        kept: those that are compared.
        rows: the comparison, its baseline first.
        metric: what is compared.
    """
    notes = [
        f"{run.folder}: {run.state}{': ' * bool(run.reason)}{run.reason}" for run in runs if not run.found
    ]
    notes += filter(None, map(problem, kept))
    for row in rows:
        label, missing = row.choice.label, sorted(row.choice.runs.keys() - row.values.keys())
        if row.broken:
            notes.append(f"{label}: {metric.title} is NaN for seed {_list(row.broken)}; in no mean")
        if missing:
            notes.append(f"{label}: {metric.title} was not measured for seed {_list(missing)}")
        unpaired = sorted(row.finite.keys() ^ rows[0].finite.keys())
        if unpaired:
            notes.append(f"{label}: seed {_list(unpaired)} without a partner, not in the difference")
    notes += one_answer.notes(list(rows)) + _more_arithmetic(rows) + _padding(kept)
    if any(run.results.environment.get("dirty") for run in kept):
        notes.append("some runs came from a working tree with uncommitted changes")
    if any(run.results.deterministic is False for run in kept):
        notes.append("some runs were not deterministic: repeating them gives other numbers")
    return notes


def _more_arithmetic(rows: Sequence[Row]) -> list[str]:
    """A sentence on each choice that is better and takes more arithmetic, with a control of equal cost."""
    flops = {row.choice.label: row.others[FLOPS].mean for row in rows if FLOPS in row.others}
    base, notes = rows[0].choice.label, []
    for row in rows[1:]:
        label = row.choice.label
        more = flops.get(label, math.nan) / flops.get(base, math.nan) - 1
        if row.verdict == "better" and more > MORE:
            near = [
                one for one, cost in flops.items() if one != label and abs(cost / flops[label] - 1) < EQUAL
            ]
            control = f"of equal cost here: {', '.join(near)}" if near else "no choice here costs as much"
            notes.append(f"{label} is better with {100 * more:.0f} % more FLOPs than {base}; {control}")
    return notes


def _padding(kept: Sequence[Run]) -> list[str]:
    """A sentence where circular shifts are put to networks that are not circular."""
    found = {
        name
        for run in kept
        if run.measured.get("invariance", {}).get("consistency")
        for name in run.measured["invariance"].get("model_padding", [])
    } - {"circular", "none"}
    if not found:
        return []
    return [
        f"consistency by circular shifts, of networks that pad with {', '.join(sorted(found))}: "
        "no figures for tables of papers whose networks pad circularly (model.padding_mode=circular)"
    ]


def _list(seeds: Sequence[int]) -> str:
    return ", ".join(map(str, seeds))
