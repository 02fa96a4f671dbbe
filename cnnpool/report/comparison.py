"""``compare``: choices side by side, each against the baseline, paired by seed."""

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from cnnpool.quantity import Quantity
from cnnpool.registry import did_you_mean
from cnnpool.report import statistics
from cnnpool.report.choice import (
    Choice,
    baseline,
    group,
    meets,
    refuse,
    refuse_steps,
    select,
    text_at,
    typed,
    varying,
)
from cnnpool.report.foreign import Logged, logged
from cnnpool.report.measure import ACCURACY, SHORT, Measure, columns, known_keys, measure, quantities_of
from cnnpool.report.notes import loaded, observe
from cnnpool.report.pairwise import (
    MARGIN,
    Decisions,
    Row,
    Versus,
    as_margin,
    decide,
    least,
    margin_of,
    verdict,
)
from cnnpool.report.runs import Run, finished, keys_of, trained
from cnnpool.run_folder.results import unpacked


@dataclass(frozen=True)
class Comparison:
    """A comparison, the source of every output."""

    metric: Measure
    by: list[str]
    rows: list[Row]  # The baseline first, the others by label: the order does not reflect rank
    measures: list[Measure]  # The other measures, one column each
    quantities: list[Quantity]  # The descriptions of all numbers in the runs
    notes: list[str]
    loaded: str  # Why the timed measures are unreliable; empty if they are reliable
    runs: list[Run] = field(repr=False)  # All runs found, including unfinished ones
    named: bool = False  # Whether the baseline was named, so that only comparisons with it were made
    paired: bool = True  # Whether differences are paired by seed; otherwise runs are independent
    # Largest difference that does not matter; None for ``pairwise.MARGIN`` where the images are known.
    margin: str | float | None = None
    understood: str = ""  # How the logs of other programs were read; empty for runs of cnnpool
    # Further requested measures with their rows, each compared and corrected separately.
    also: Mapping[Measure, list[Row]] = field(default_factory=dict)
    palette: tuple[str, ...] = ()  # Labels that get the first colours, in this order
    stage: str = ""  # The only stage that figures show; empty for all

    def measure(self, key: str) -> Measure:
        return measure(key, self.quantities)

    @property
    def each(self) -> "list[Comparison]":
        return [self, *(replace(self, metric=one, rows=rows) for one, rows in self.also.items())]

    @property
    def baseline(self) -> Row:
        return self.rows[0]

    @property
    def compared(self) -> list[Run]:
        """The runs that have numbers."""
        return [run for row in self.rows for run in row.choice.runs.values() if not run.diverged]


def compare(
    runs: Sequence[Run],
    *,
    by: Sequence[str] = (),
    where: Sequence[str] = (),
    metric: str | Sequence[str] = (),
    against: str | float | None = None,
    allow: Sequence[str] = (),
    margin: str | float | None = None,
    independent: bool = False,
) -> Comparison:
    """Compare ``runs`` in the measure ``metric``, grouped by the keys ``by``, against one choice.

    ``independent``: runs of the same seed are no pairs.
    """
    # The conditions on runs of other programs were met before anything else was asked of them.
    done = finished(runs) if logged(runs) else finished(select(finished(runs), where))
    every = trained(done)
    kept = [run for run in every if not run.diverged]
    # Runs of other programs have their keys already, and do not record which settings must agree.
    others = logged(kept)
    # A choice by the name of an operator would mix its options, or be refused for them one by one.
    by = [] if others else list(dict.fromkeys(map(typed, by)))
    by = by or varying(every)
    choices = group(every, by)
    differing = refuse_steps(choices, by, allow) if others else refuse(every, by, allow)
    names = dict.fromkeys(key if others else SHORT.get(key, key) for key in keys_of(metric) or [ACCURACY])
    quantities = quantities_of(kept)
    known = known_keys(kept, quantities)
    wanted = [measure(key, quantities) for key in names]
    for one in wanted:
        if not _measured(one, kept):
            raise ValueError(f"--metric {one.key}: no run has it; {did_you_mean(one.key, known)}")
        if margin is not None:
            _check_margin(margin, one)
    chosen, *also = wanted or [measure("", quantities)]
    base = baseline(choices, against)
    choices = [base, *(choice for choice in choices if choice is not base)]
    shown = columns(known, quantities)
    measures = [one for one in shown if one.key != chosen.key and _measured(one, kept)]
    measures += [one for one in also if one.key not in {other.key for other in measures}]
    named = against is not None
    paired = not independent and (not others or _share_seeds(choices))
    rows = _rows(choices, chosen, measures, named, paired, margin)
    further = {one: _rows(choices, one, [], named, paired, margin) for one in also}
    why = loaded(kept, [chosen, *measures])
    said = _understood(choices, others[0], by, wanted, paired) if others else ""
    alone = [] if paired or independent else _pairable(choices, others[0].asked.keys)
    seen = observe(runs, kept, [(chosen, rows), *further.items()], measures, paired)
    notes = [*alone, *_left_out(done, every), *differing, *seen, *[why] * bool(why)]
    return Comparison(
        chosen, by, rows, measures, quantities, notes, why, list(runs), named, paired, margin, said, further
    )


def _left_out(done: Sequence[Run], kept: Sequence[Run]) -> list[str]:
    """A sentence on results of cnnpool probe beside runs that were trained."""
    probed = [run.folder for run in done if run.results.examined]
    if not probed or kept[0].results.examined:
        return []
    return [
        f"results of cnnpool probe are left out beside runs that were trained: {len(probed)}, such as "
        f"{probed[0]}; give their folders alone to compare them"
    ]


def _share_seeds(choices: Sequence[Choice]) -> bool:
    """Whether they share half of the seeds of the largest, so that pairs say more than all runs without.

    Choices with too few runs for a verdict do not count where others have more.
    """
    seeds = [set(choice.runs) for choice in choices]
    enough = ([own for own in seeds if len(own) >= least(paired)] for paired in (False, True))
    seeds = next((several for several in enough if len(several) > 1), seeds)
    return 2 * len(set.intersection(*seeds)) >= max(map(len, seeds))


def _pairable(choices: Sequence[Choice], by: Sequence[str]) -> list[str]:
    """A sentence on the choices that would be paired with the first one if there were no others."""
    alike = [one for one in choices if _share_seeds([choices[0], one])]
    if len(alike) < 2 or not _share_seeds(alike):
        return []
    first = {one.label: next(iter(one.runs.values())) for one in choices}
    names = [one.label for one in alike]
    where = [f"{key}={','.join(dict.fromkeys(text_at(first[name], key) for name in names))}" for key in by]
    line = " ".join(f"--where {shlex.quote(one)}" for one in where)
    exact = names == [name for name, run in first.items() if meets(run, where)]
    return [f"{', '.join(names)} alone are paired by seed{f': {line}' * exact}"]


def _understood(
    choices: Sequence[Choice], first: Logged, by: Sequence[str], wanted: Sequence[Measure], paired: bool
) -> str:
    """Number of groups and runs of other programs, how they are paired and read, and what is better."""
    asked, groups = first.asked, f"{len(choices)} group{'s' * (len(choices) > 1)}"
    sizes = sorted({len(choice.runs) for choice in choices})
    size = " to ".join(map(str, dict.fromkeys([sizes[0], sizes[-1]])))
    why = "their seeds differ" if asked.number else "no seed says which belong together"
    pairs = "paired by seed" if paired else f"not paired, since {why} (Welch's test)"
    keys = "" if by == ["group"] else f" by {', '.join(by)}"
    known = {1: "higher {} is better", -1: "lower {} is better", 0: "no better direction is known for {}"}
    better = "; ".join(known[one.sense].format(one.key) for one in wanted)
    if not asked.best:
        better = f"by name, {better} (--best sets another)"
    if first.counted:
        worse = "" if asked.points else ", which is optimistic: on other data it would be worse"
        the = "its" if asked.points < 2 else "the"
        better = f"each run counts by {the} {first.counted}{worse}; {better}"
    return (
        f"{groups}{keys}, {size} run{'s' * (sizes[-1] > 1)} each, {pairs}. {better[0].upper()}{better[1:]}."
    )


def _check_margin(margin: str | float, one: Measure) -> None:
    try:
        known = margin_of(margin, one, 0.0)
    except ValueError as error:
        raise ValueError(f"--margin {error}") from None
    if known is None:
        raise ValueError(f"--margin {margin}: {one.title} has no best value; give a number in its unit")
    if not as_margin(margin)[1] and known >= one.width:
        point = "; one percentage point is 0.01" * (one.quantity.form == "fraction")
        raise ValueError(f"--margin {margin}: {one.title} cannot differ by more than {one.width:g}{point}")


def read(choice: Choice, one: Measure) -> dict[int, float]:
    """Seed -> the value of ``one``, for runs that measured it or diverged; NaN where it is not a number."""
    values = {seed: math.nan if run.diverged else one.read(run.measured) for seed, run in choice.runs.items()}
    return {seed: value for seed, value in values.items() if value is not None}


def numbers(choice: Choice, one: Measure) -> list[float]:
    """The values of ``one`` that are numbers."""
    return [value for value in read(choice, one).values() if not math.isnan(value)]


def judged(comparison: Comparison, one: Measure) -> list[Row]:
    """The rows in another measure, by the same procedure."""
    known = {comparison.metric: comparison.rows, **comparison.also}
    if one in known:
        return known[one]
    choices = [row.choice for row in comparison.rows]
    return _rows(choices, one, [], comparison.named, comparison.paired, comparison.margin)


def _measured(one: Measure, runs: Sequence[Run]) -> bool:
    return any(one.read(run.measured) is not None for run in runs)


def _rows(
    choices: list[Choice],
    metric: Measure,
    measures: list[Measure],
    named: bool,
    paired: bool,
    asked: str | float | None,
) -> list[Row]:
    rows = [_row(choice, metric, measures) for choice in choices]
    bits = [_answers(choice) for choice in choices] if metric.key == ACCURACY else []
    asked = MARGIN if asked is None and any(bits) else asked
    margin = None if asked is None else margin_of(asked, metric, rows[0].summary.mean)
    decisions = decide([row.finite for row in rows], bits, named=named, paired=paired, margin=margin)
    shared = set.intersection(*(set(row.finite) for row in rows))
    fewest = len(shared) if paired else min(len(row.finite) for row in rows)
    whole = len(rows) > 1 and not any(row.broken for row in rows)
    ranked = metric.sense != 0 and not named and whole and fewest >= statistics.LEAST_PAIRS
    found, base = [], rows[0]
    for place, row in enumerate(rows):
        if bits and bits[place].keys() == row.finite.keys():
            error = statistics.of_choice(bits[place])
            row = replace(row, crossed=error, summary=_widened(row.summary, error))
        if ranked:
            row = replace(row, rank=decisions.rank(place, len(rows), metric.sense))
        if place:
            versus = _versus(row, base, decisions, place, metric, paired)
            broken = len({*row.broken, *base.broken}) if paired else len(row.broken) + len(base.broken)
            row = replace(row, versus=versus, verdict=verdict(versus, metric, broken, margin, paired=paired))
        found.append(row)
    return found


def _answers(choice: Choice) -> dict[int, statistics.Bits]:
    """Seed -> which test images were classified correctly, (images,), for the runs that record it."""
    records = {seed: run.results.correct for seed, run in choice.runs.items()}
    return {seed: unpacked(record) for seed, record in records.items() if record is not None}


def _widened(summary: statistics.Summary, error: statistics.Crossed | None) -> statistics.Summary:
    """``summary`` with the interval that also covers test images, if it is known."""
    if error is None:
        return summary
    return replace(summary, low=summary.mean - error.half, high=summary.mean + error.half)


def _row(choice: Choice, metric: Measure, measures: list[Measure]) -> Row:
    others = {one.key: statistics.summarise(numbers(choice, one)) for one in measures}
    row = Row(choice, read(choice, metric), statistics.summarise([]), others)
    return replace(row, summary=statistics.summarise(list(row.finite.values())))


def _versus(row: Row, base: Row, decisions: Decisions, place: int, metric: Measure, paired: bool) -> Versus:
    pair = decisions.between(place, 0)
    error = pair.crossed
    own, other = row.finite, base.finite
    if paired:
        differences = every = [own[seed] - other[seed] for seed in sorted(own.keys() & other.keys())]
        summary = _widened(statistics.summarise(differences), error)
        spread, freedom = error.error * math.sqrt(summary.n) if error else summary.sd, None
    else:
        differences = [value - base.summary.mean for value in own.values()]
        every = [value - against for value in own.values() for against in other.values()]
        summary, gap = statistics.apart(list(own.values()), list(other.values()))
        spread, freedom = gap.error * math.sqrt(summary.n), gap.freedom
    if not error and summary.sd <= statistics.rounding([*own.values(), *other.values()]):
        # Equal differences have no spread, so the smallest detectable difference is unknown.
        summary, spread = replace(summary, sd=0.0, low=summary.mean, high=summary.mean), 0.0
    family, unknown = len(decisions.pairs), summary.n < least(paired) or not spread
    size = math.nan if unknown else statistics.detectable(spread, summary.n, family, freedom)
    better = [-x for x in every] if metric.sense < 0 else every
    return Versus(
        differences=differences,
        summary=summary,
        pair=pair,
        superiority=statistics.superiority(better),
        superiority_interval=statistics.superiority_interval(better, summary.n),
        # More seeds do not compensate for few test images.
        needed=math.nan
        if unknown or error
        else statistics.needed(summary.mean, summary.sd, family, 2 - paired),
        family=family,
        detectable=math.inf if size > metric.width else size,
    )
