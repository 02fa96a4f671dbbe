"""Caveats of the numbers: ``observe`` gives them in sentences."""

from collections.abc import Sequence

from cnnpool.report.measure import Measure
from cnnpool.report.row import Row
from cnnpool.report.runs import Run
from cnnpool.run_folder import metrics


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
    problems = (metrics.problem(run.folder, run.results.metrics_sha256) for run in kept)
    notes += filter(None, problems)
    for row in rows:
        label, missing = row.choice.label, sorted(row.choice.runs.keys() - row.values.keys())
        if row.broken:
            notes.append(f"{label}: {metric.title} is NaN for seed {_list(row.broken)}; in no mean")
        if missing:
            notes.append(f"{label}: {metric.title} was not measured for seed {_list(missing)}")
        unpaired = sorted(row.finite.keys() ^ rows[0].finite.keys())
        if unpaired:
            notes.append(f"{label}: seed {_list(unpaired)} without a partner, not in the difference")
    if any(run.results.environment.get("dirty") for run in kept):
        notes.append("some runs came from a working tree with uncommitted changes")
    if any(run.results.deterministic is False for run in kept):
        notes.append("some runs were not deterministic: repeating them gives other numbers")
    return notes


def _list(seeds: Sequence[int]) -> str:
    return ", ".join(map(str, seeds))
