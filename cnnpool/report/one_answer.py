"""Networks that answer one class for all images: no shift changes that, so their consistency says nothing."""

from cnnpool.report.row import Row
from cnnpool.report.runs import Run

SIGN = "*"
MARKED = "invariance.consistency"
"""First part of the keys of the measures that it makes empty."""


def answers_one_class(run: Run) -> bool:
    """Whether no shift changes any answer, and as many test images are right as one class has."""
    shares = (run.measured.get("invariance") or {}).get("consistency") or {}
    counts = (run.results.images or {}).get("test") or []
    accuracy = run.measured.get("test", {}).get("accuracy")
    if not shares or any(share != 1 for share in shares.values()) or not counts or accuracy is None:
        return False
    # One class alone is answered rightly.
    return len(counts) > 1 and round(accuracy * sum(counts)) in counts


def seeds_of(row: Row) -> list[int]:
    """The seeds of the choice whose network answers one class."""
    return [seed for seed, run in row.choice.runs.items() if answers_one_class(run)]


def notes(rows: list[Row]) -> list[str]:
    """A sentence on every choice that has such a network."""
    return [
        f"{row.choice.label} {SIGN}: seems to answer one class for all images with seed "
        f"{', '.join(map(str, seeds))}; consistency says nothing there"
        for row in rows
        if (seeds := seeds_of(row))
    ]
