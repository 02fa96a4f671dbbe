"""A comparison as columns of text, and as records of plain numbers."""

import math
from collections import Counter
from typing import Any

from cnnpool.json_text import finite
from cnnpool.report.comparison import Comparison
from cnnpool.report.foreign import logged
from cnnpool.report.measure import Measure
from cnnpool.report.pairwise import Rank, Row
from cnnpool.report.statistics import LEAST_PAIRS, Summary
from cnnpool.tables import Column

NONE = "–"
WIDEST = 7
FEW = 4  # Most choices of one place that are named


def main_columns(comparison: Comparison) -> list[Column]:
    """Choice, n, the metric with its spread and interval, the difference from the baseline, the verdict."""
    rows, metric = comparison.rows, comparison.metric
    step = f" ({metric.step_unit})" if metric.step_unit else ""
    counted = next((f" ({run.counted})" for run in logged(comparison.compared) if run.counted), "")
    return [
        choice_column(comparison),
        Column("n", [_runs(metric, row) for row in rows]),
        Column(f"{metric.header}{counted}, mean ± sd", [mean_sd(metric, row.summary) for row in rows]),
        Column("95 % CI", [interval(metric, row.summary) for row in rows]),
        Column(f"difference{step} [95 % CI]", [_difference(metric, row) for row in rows]),
        Column("p (Holm)", [probability(row.versus.pair.adjusted) if row.versus else NONE for row in rows]),
        Column("verdict", [row.verdict for row in rows], words=True),
    ]


def measure_tables(comparison: Comparison) -> list[list[Column]]:
    """The means of the other measures in tables that fit a page; costs come last."""
    groups = [[one for one in comparison.measures if one.quantity.is_cost == cost] for cost in (False, True)]
    parts = [group[i : i + WIDEST] for group in groups for i in range(0, len(group), WIDEST)]
    return [[choice_column(comparison), *(_means(comparison, one) for one in part)] for part in parts]


def pair_columns(comparison: Comparison) -> list[Column]:
    """Choice, then further statistics of its difference from the baseline."""
    rows, metric = comparison.rows[1:], comparison.metric
    pairs = [row.versus for row in rows if row.versus]
    sense = "higher" if metric.sense == 0 else "better"
    columns = [
        Column("choice", [row.choice.label for row in rows], words=True),
        *[Column("pairs", [str(one.summary.n) for one in pairs])] * comparison.paired,
        Column("p, not corrected", [probability(one.pair.p) for one in pairs]),
        Column(
            f"probability of being {sense} with another seed [95 % CI]",
            [_share(one.superiority, one.superiority_interval) for one in pairs],
        ),
        Column(
            f"smallest difference detectable with 80 % power ({metric.step_unit or 'units'})",
            [number(metric, one.detectable) for one in pairs],
        ),
    ]
    if any(one.needed == one.needed for one in pairs):
        cells = [_count(one.needed) for one in pairs]
        columns.append(Column("runs of each that show this difference with 80 % power", cells))
    return columns if rows else []


def interval(metric: Measure, s: Summary, *, sign: bool = False) -> str:
    """The 95 % interval; with ``sign`` that of a difference. Empty for fewer than two values."""
    if math.isnan(s.low):
        return NONE
    low, high = (s.low, s.high) if sign else (metric.within(s.low), metric.within(s.high))
    return f"[{metric.format(low, sign=sign)}, {metric.format(high, sign=sign)}]"


def number(measure: Measure, value: float) -> str:
    return measure.format(value) if math.isfinite(value) else NONE


def choice_column(comparison: Comparison) -> Column:
    return Column("choice", [row.choice.label for row in comparison.rows], words=True)


def _means(comparison: Comparison, one: Measure) -> Column:
    cells = []
    for row in comparison.rows:
        s = row.others[one.key]
        fewer = f" (n={s.n})" if s.n != len(row.choice.runs) else ""
        cells.append(one.format(s.mean) + fewer if s.n else NONE)
    return Column(one.header, cells)


def ranking(comparison: Comparison) -> str:
    """The ranks in one sentence, or the reason why there are none."""
    rows = comparison.rows
    if len(rows) < 2:
        return "Only one choice: nothing to rank."
    if comparison.metric.sense == 0:
        return f"No ranking: {comparison.metric.title} has no better direction."
    if comparison.named:
        base = comparison.baseline.choice.label
        return f"No places: they need all pairs of choices, and only those with {base} were compared."
    if any(row.rank is None for row in rows):
        broken = any(row.broken for row in rows)
        few = f"Too few seeds to rank: every choice needs the same {LEAST_PAIRS} or more."
        return "No ranking: a value is not a number." if broken else few
    ranks = {row.choice.label: row.rank for row in rows if row.rank}
    common, often = Counter(ranks.values()).most_common(1)[0]
    if often == len(rows):
        return "No places: no two choices are shown to differ."
    own = [label for label, rank in ranks.items() if rank != common or often <= FEW]
    rest = f"; all others {_place(common)}" * (often > FEW)
    places = ", ".join(f"{label} {_place(ranks[label])}" for label in own)
    return f"Place among {len(rows)}, simultaneous 95 % intervals: {places}{rest}."


def _place(rank: Rank) -> str:
    return f"{rank.low}–{rank.high}" if rank.high > rank.low else str(rank.low)


def records(comparison: Comparison) -> list[dict[str, Any]]:
    """One flat record per choice and metric, in the units of results.json; None where there is no value."""
    return [finite(_record(one, row)) for one in comparison.each for row in one.rows]


def _record(comparison: Comparison, row: Row) -> dict[str, Any]:
    s, v = row.summary, row.versus
    record: dict[str, Any] = {
        "choice": row.choice.label,
        "metric": comparison.metric.key,
        "n": s.n,
        "seeds": " ".join(map(str, row.choice.runs)) if row.choice.numbered else None,
        "not_a_number": len(row.broken),
        "mean": s.mean,
        "sd": s.sd,
        "ci_low": s.low,
        "ci_high": s.high,
        "pairs": v.summary.n if v and comparison.paired else None,
        "difference": v and v.summary.mean,
        "difference_sd": v and v.summary.sd,
        "difference_ci_low": v and v.summary.low,
        "difference_ci_high": v and v.summary.high,
        "se_seeds": row.crossed and row.crossed.by_seed,
        "se_images": row.crossed and row.crossed.by_image,
        "difference_se_seeds": v and v.pair.crossed and v.pair.crossed.by_seed,
        "difference_se_images": v and v.pair.crossed and v.pair.crossed.by_image,
        "p": v and v.pair.p,
        "p_holm": v and v.pair.adjusted,
        "superiority": v and v.superiority,
        "superiority_low": v and v.superiority_interval[0],
        "superiority_high": v and v.superiority_interval[1],
        "detectable": v and v.detectable,
        "needed": v and v.needed,
        "verdict": row.verdict,
        "rank_low": row.rank and row.rank.low,
        "rank_high": row.rank and row.rank.high,
    }
    for one in comparison.measures if row.others else ():
        record |= {one.key: row.others[one.key].mean, f"{one.key}:sd": row.others[one.key].sd}
    return record


def runs(comparison: Comparison) -> list[dict[str, Any]]:
    """One flat record per compared run: choice, seed, and every measure of the report."""
    measures = [comparison.metric, *comparison.measures]
    return [
        {"choice": row.choice.label, "seed": seed, "folder": str(run.folder)}
        | finite({one.key: one.read(run.measured) for one in measures})
        for row in comparison.rows
        for seed, run in row.choice.runs.items()
    ]


def correct(comparison: Comparison) -> list[dict[str, Any]]:
    """One record per compared run that says which images it got right, as bits (numpy.packbits) in base64."""
    return [
        {"choice": row.choice.label, "seed": seed, **run.results.correct}
        for row in comparison.rows
        for seed, run in row.choice.runs.items()
        if run.results.correct
    ]


def probability(p: float) -> str:
    """A p-value with three decimals, never as 0; NaN as none."""
    if math.isnan(p):
        return NONE
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def mean_sd(metric: Measure, s: Summary) -> str:
    """Mean and standard deviation, as far as this many values allow."""
    if s.n == 0:
        return NONE
    return metric.format(s.mean) + ("" if s.n < 2 else f" ± {metric.format(s.sd)}")


def _runs(metric: Measure, row: Row) -> str:
    broken = ", ".join(f"{len(seeds)} {kind}" for kind, seeds in row.broken_as(metric.key).items())
    return f"{row.summary.n} ({broken})" if broken else str(row.summary.n)


def _difference(metric: Measure, row: Row) -> str:
    if not row.versus or not row.versus.summary.n:
        return NONE
    s = row.versus.summary
    between = f" {interval(metric, s, sign=True)}" if s.n > 1 else ""
    return metric.format(s.mean, sign=True) + between


def _share(value: float, ends: tuple[float, float]) -> str:
    return NONE if math.isnan(value) else f"{value:.2f} [{ends[0]:.2f}, {ends[1]:.2f}]"


def _count(value: float) -> str:
    return NONE if math.isnan(value) else "> 1,000" if math.isinf(value) else f"{value:.0f}"
