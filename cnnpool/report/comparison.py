"""``compare``: choices side by side, each against the baseline, paired by seed."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from cnnpool.quantity import Quantity
from cnnpool.registry import did_you_mean
from cnnpool.report import crossed, statistics
from cnnpool.report.choice import Choice, baseline, group, varying
from cnnpool.report.comparable import refuse, select
from cnnpool.report.measure import SHORT, Measure, columns, known_keys, measure, quantities_of
from cnnpool.report.notes import MARK, loaded, observe
from cnnpool.report.pairwise import LEAST_DECIDED, Decisions, Row, Versus, decide, verdict
from cnnpool.report.runs import Run, finished


@dataclass(frozen=True)
class Comparison:
    """A comparison, from which every output is written."""

    metric: Measure
    by: list[str]
    rows: list[Row]
    """The baseline first, the others by label: the order says nothing about rank."""
    measures: list[Measure]
    """The other measures, a column each."""
    quantities: list[Quantity]
    """The descriptions of all numbers that the runs hold."""
    notes: list[str]
    loaded: str
    """Why the timed measures are not to be trusted; empty if they are."""
    runs: list[Run] = field(repr=False)
    """All runs found, the unfinished too."""
    named: bool = False
    """Whether the baseline was named, so that only comparisons with it were made."""
    palette: tuple[str, ...] = ()
    """Labels that have the first colours, in this order, whatever else the figures show first."""
    stage: str = ""
    """The only stage that figures show; empty for all."""

    def measure(self, key: str) -> Measure:
        """The measure at ``key`` of these runs."""
        return measure(key, self.quantities)

    @property
    def baseline(self) -> Row:
        return self.rows[0]

    @property
    def compared(self) -> list[Run]:
        return [run for row in self.rows for run in row.choice.runs.values()]


def compare(
    runs: Sequence[Run],
    *,
    by: Sequence[str] = (),
    where: Sequence[str] = (),
    metric: str = "test.accuracy",
    against: str | None = None,
    allow: Sequence[str] = (),
) -> Comparison:
    """Compare ``runs`` in the measure ``metric``, grouped by the keys ``by``, against one choice.

    Args:
        runs: as found by ``cnnpool.report.find``; the unfinished are listed, not compared.
        by: keys that make a choice; empty for what differs among pool, readout and model.
        where: conditions ``key=value`` that a run must meet.
        metric: dotted key of results.json; ``*`` for the mean over stages.
        against: label or name of the baseline; None for max, else the first.
        allow: keys that may differ among the runs without being a choice.

    Raises:
        ValueError: if runs cannot be compared, or a key, condition, metric or baseline is not there.
    """
    kept = select(finished(runs), where)
    by = list(by) or varying(kept)
    choices = group(kept, by)
    differing = refuse(kept, by, allow)
    quantities = quantities_of(kept)
    known = known_keys(kept, quantities)
    metric = SHORT.get(metric, metric)
    chosen = measure(metric, quantities)
    if not _measured(chosen, kept):
        raise ValueError(f"--metric {metric}: no run has it; {did_you_mean(metric, known)}")
    base = baseline(choices, against)
    choices = [base, *(choice for choice in choices if choice is not base)]
    measures = [one for one in columns(known, quantities) if one.key != metric and _measured(one, kept)]
    named = against is not None
    rows = _rows(choices, chosen, measures, named)
    why = loaded(kept, [chosen, *measures])
    notes = differing + observe(runs, kept, rows, chosen, measures) + [f"{MARK} {why}"] * bool(why)
    return Comparison(chosen, by, rows, measures, quantities, notes, why, list(runs), named)


def read(choice: Choice, one: Measure) -> dict[int, float]:
    """Seed -> the value of ``one``, for the runs in which it was measured; NaN where it is no number."""
    values = {seed: one.read(run.measured) for seed, run in choice.runs.items()}
    return {seed: value for seed, value in values.items() if value is not None}


def judged(comparison: Comparison, one: Measure) -> list[Row]:
    """The rows with their values, differences and verdicts in another measure, by the same procedure."""
    if one.key == comparison.metric.key:
        return comparison.rows
    return _rows([row.choice for row in comparison.rows], one, [], comparison.named)


def _measured(one: Measure, runs: Sequence[Run]) -> bool:
    return any(one.read(run.measured) is not None for run in runs)


def _rows(choices: list[Choice], metric: Measure, measures: list[Measure], named: bool) -> list[Row]:
    rows = [_row(choice, metric, measures) for choice in choices]
    bits = [crossed.table(choice.runs) for choice in choices] if metric.key == crossed.MEASURE else []
    decisions = decide([row.finite for row in rows], bits, named=named)
    shared = set.intersection(*(set(row.finite) for row in rows))
    whole = len(rows) > 1 and not any(row.broken for row in rows)
    ranked = metric.sense != 0 and not named and whole and len(shared) >= statistics.LEAST_PAIRS
    found, base = [], rows[0]
    for place, row in enumerate(rows):
        if bits and bits[place].keys() == row.finite.keys():
            error = crossed.of_choice(bits[place])
            row = replace(row, crossed=error, summary=_widened(row.summary, error))
        if ranked:
            row = replace(row, rank=decisions.rank(place, len(rows), metric.sense))
        if place:
            seeds = sorted(row.finite.keys() & base.finite.keys())
            pairs = [row.finite[seed] - base.finite[seed] for seed in seeds]
            versus = _versus(pairs, decisions, place, metric)
            broken = len({*row.broken, *base.broken})
            row = replace(row, versus=versus, verdict=verdict(versus, metric, broken))
        found.append(row)
    return found


def _widened(summary: statistics.Summary, error: crossed.Crossed | None) -> statistics.Summary:
    """``summary`` with the interval that covers test images as well, where that is known."""
    if error is None:
        return summary
    return replace(summary, low=summary.mean - error.half, high=summary.mean + error.half)


def _row(choice: Choice, metric: Measure, measures: list[Measure]) -> Row:
    others = {one.key: statistics.summarise(list(read(choice, one).values())) for one in measures}
    row = Row(choice, read(choice, metric), statistics.summarise([]), others)
    return replace(row, summary=statistics.summarise(list(row.finite.values())))


def _versus(differences: list[float], decisions: Decisions, place: int, metric: Measure) -> Versus:
    pair = decisions.between(place, 0)
    error = pair.crossed if pair else None
    summary = _widened(statistics.summarise(differences), error)
    few = summary.n < LEAST_DECIDED
    better = [-x for x in differences] if metric.sense < 0 else differences
    # Equal differences have no spread: how small a difference they could show is not known.
    sd = error.error * math.sqrt(summary.n) if error else summary.sd
    return Versus(
        differences=differences,
        summary=summary,
        p=pair.p if pair else math.nan,
        p_sign_flip=math.nan if few else statistics.sign_flip_p(differences),
        p_holm=pair.adjusted if pair else math.nan,
        d=math.nan if few else statistics.paired_d(differences),
        superiority=statistics.superiority(better),
        superiority_interval=statistics.superiority_interval(better),
        family=len(decisions.pairs),
        detectable=math.nan if few or not sd else statistics.detectable(sd, summary.n, len(decisions.pairs)),
        within=pair.within if pair else math.nan,
        crossed=error,
    )
