"""The text of a comparison that its numbers decide: headline, remarks, the runs, and a glossary."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cnnpool import __version__
from cnnpool.quantity import Quantity
from cnnpool.report.columns import interval, probability, ranking
from cnnpool.report.comparison import Comparison, judged
from cnnpool.report.measure import Measure
from cnnpool.report.notes import sizes
from cnnpool.report.pairwise import SHOWN, in_short
from cnnpool.report.runs import as_text, settings
from cnnpool.report.statistics import LEVEL
from cnnpool.run_folder.identity import effect
from cnnpool.run_folder.results import SPLITS, Results

LISTED = 4  # Most choices whose difference one sentence of the headline gives
OFF = ("null", "false", "0", "0.0", "auto")  # Settings that a report leaves out if all runs have them
BETTER = {"higher": " Higher is better.", "lower": " Lower is better.", None: ""}


def title(comparison: Comparison) -> str:
    data = ", ".join(sorted({run.results.images_of for run in comparison.compared}))
    where = f" on {data}" * bool(data)
    return f"{comparison.metric.title}{where} by {', '.join(comparison.by)}"


def headline(comparison: Comparison) -> list[str]:
    """Three sentences: the choices that differ from the baseline in metric, consistency and cost."""
    rows = comparison.rows
    measures = {one.key: one for one in comparison.measures}
    shift = next((one for key, one in measures.items() if key.startswith("invariance.consistency")), None)
    every = {one.key: one for one in (comparison.metric, *comparison.also, shift) if one}
    apart = "Runs of a seed are compared as independent runs, not paired (Welch's test)."
    found = [comparison.understood or apart] * bool(comparison.understood or not comparison.paired)
    found += [_differences(comparison, one) for one in every.values()]
    if len(rows) > 1:
        found += [_size(comparison, one) for one in sizes(comparison.measures)]
    return found


def _differences(comparison: Comparison, one: Measure) -> str:
    """One sentence on the differences from the baseline that are shown in a measure, and on the others."""
    base, *others = judged(comparison, one)
    n = {row.summary.n for row in (base, *others)}
    word = "run" if comparison.understood else "seed"
    seeds = f"{min(n)}{f' to {max(n)}' * (len(n) > 1)} {word}{'s' * (max(n) != 1)}"
    name = one.title if comparison.understood else f"{one.title[:1].upper()}{one.title[1:]}"
    mean = _known(one, base.summary.mean, one.unit)
    if not others:
        return f"{name}: {mean} ({seeds})."
    apart = [(row.choice.label, row.versus.summary) for row in others if row.versus and row.verdict in SHOWN]
    apart.sort(key=lambda pair: -abs(pair[1].mean))
    parts = [
        f"{label} is {one.amount(abs(s.mean))} {'above' if s.mean > 0 else 'below'} "
        f"{interval(one, s, sign=True)}"
        for label, s in apart[:LISTED]
    ]
    if more := len(apart[LISTED:]):
        parts[-1] += f", and {more} more {'choices differ' if more > 1 else 'choice differs'}"
    kinds: dict[str, list[str]] = {}
    for row in others:
        if row.verdict not in SHOWN:
            kinds.setdefault(in_short(row.verdict), []).append(row.choice.label)
    parts += [f"{word} for {', '.join(labels)}" for word, labels in kinds.items()]
    sense = " Lower is better." if one.sense < 0 else ""
    return f"{name} ({seeds}; {base.choice.label} {mean}): {'; '.join(parts)}.{sense}"


def _size(comparison: Comparison, one: Measure) -> str:
    """One sentence on a cost of the choices, such as FLOPs, relative to the baseline's."""
    base, *others = comparison.rows
    have = base.others[one.key].mean
    kinds: dict[str, list[str]] = {}
    for row in others:
        own = row.others[one.key].mean
        if not have or math.isnan(own - have):
            word = _known(one, own)
        else:
            more = round(100 * (own / have - 1))
            word = f"{abs(more)} % {'more' if more > 0 else 'fewer'}" if more else "as many"
        kinds.setdefault(f"{word} for", []).append(row.choice.label)
    listed = "; ".join(f"{word} {', '.join(labels)}" for word, labels in kinds.items())
    return f"Cost: {_known(one, have)} {one.title} for {base.choice.label}; {listed}."


def _known(one: Measure, value: float, unit: str = "") -> str:
    return "unknown" if math.isnan(value) else f"{one.format(value)} {unit}".rstrip()


def remarks(comparison: Comparison) -> list[str]:
    """Sentences below the table: pairs whose own interval says more, what was corrected for, and places."""
    families = {row.versus.family for row in comparison.rows if row.versus} - {0, 1}
    alone = sum(row.versus is not None and not math.isnan(row.versus.pair.p) for row in comparison.rows)
    counted = [
        f"p and verdicts are corrected for {family} comparisons, "
        + (
            "those with the baseline, since it was named."
            if comparison.named
            else f"all pairs of choices with enough runs; with a named baseline there are {alone}."
        )
        for family in families
    ]
    return [*single_pairs(comparison), *counted, ranking(comparison)]


def against(comparison: Comparison) -> str:
    """The title of further statistics of the differences from the baseline."""
    of = f": {comparison.metric.title}" * bool(comparison.also)
    return f"Against {comparison.baseline.choice.label}{of}"


def single_pairs(comparison: Comparison) -> list[str]:
    """A sentence on the choices whose own interval excludes 0 but whose corrected verdict shows none."""
    pairs = [(row.choice.label, row.versus) for row in comparison.rows if row.versus]
    shown = {row.choice.label for row in comparison.rows if row.verdict.startswith("no difference shown")}
    found = [(label, one) for label, one in pairs if label in shown and one.pair.p < LEVEL]
    named = [f"{label} (p = {probability(one.pair.p)})".replace("= <", "<") for label, one in found[:LISTED]]
    more = f" and {len(found) - LISTED} more" * (len(found) > LISTED)
    return [
        f"The interval of the pair alone excludes 0 for {', '.join(named)}{more}, but of {one.family} "
        "comparisons some would do so by chance: corrected for them, no difference is shown."
        for _, one in found[:1]
    ]


def provenance(comparison: Comparison) -> list[tuple[str, str]]:
    """Terms and values that describe the runs and the machines they ran on."""
    seeds = sorted({seed for row in comparison.rows for seed in row.choice.runs})
    found = [("Runs", f"{len(comparison.compared)} compared, {len(comparison.runs)} found")]
    found += [("Report", f"made by cnnpool {__version__}")]
    found += [("Seeds", ", ".join(map(str, seeds)))] * comparison.paired
    return found if comparison.understood else found + ran([run.results for run in comparison.compared])


def ran(results: Sequence[Results]) -> list[tuple[str, str]]:
    """Terms and values for the data, networks, recipe and machine of runs of cnnpool, and when they finished.

    Settings that change no number are left out, as are those that are off in all runs.
    """
    counted = [{k: n for k in SPLITS if isinstance(n := (one.images or {}).get(k), list)} for one in results]
    counts = agreed([{split: sum(n) for split, n in one.items()} for one in counted])
    images = [*sorted({one.images_of for one in results}), *(f"{n} {k} images" for k, n in counts.items())]
    hashes = sorted({(one.data_sha256 or "unknown")[:12] for one in results})
    epochs = sorted({str(one.epochs if one.epochs is not None else "unknown") for one in results})
    every = list(map(settings, results))
    machine = [f"{key} {value}" for key, value in agreed([one.environment for one in results]).items()]
    times = sorted(one.finished for one in results if one.finished)

    def of(known: Mapping[str, str], *starts: str) -> str:
        kept = [(key, text) for key, text in known.items() if key.startswith(starts) and text not in OFF]
        return ", ".join(f"{key}={text}" for key, text in kept if effect(key) == "result") or "none"

    common = agreed(every)
    own = [{key: one[key] for key in one if key.startswith(("pool.", "stages."))} for one in every]
    pools = dict.fromkeys(of(agreed([one]), "pool.", "stages.") for one in own)
    return [
        ("Data", f"{', '.join(images)}, sha256 {', '.join(hashes)}"),
        ("Network", of(common, "model.", "readout.")),
        ("Pooling", "; ".join(pools)),
        ("Epochs", ", ".join(epochs)),
        ("Recipe", of(common, "data.", "fit.", "precision", "trainer.", "callback.")),
        ("Probes", of(common, "probe.")),
        ("Machine and versions", ", ".join(machine) or "unknown"),
        ("Finished", f"{times[0]} to {times[-1]}" if times else "unknown"),
    ]


def agreed(dicts: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Key -> its common value in all of ``dicts``, or its different values joined by "or"."""
    keys = dict.fromkeys(key for one in dicts for key in one)
    # Most values of a thousand runs are equal, and comparing values is faster than formatting them.
    values = {key: {repr(value := one.get(key)): value for one in dicts}.values() for key in keys}
    return {key: " or ".join(dict.fromkeys(map(as_text, found))) for key, found in values.items()}


def glossary(comparison: Comparison) -> list[tuple[str, str]]:
    """Name and definition of everything shown in the comparison's tables and charts."""
    shown = [comparison.metric.quantity, *(one.quantity for one in comparison.measures)]
    return defined([*shown, *(one for one in comparison.quantities if one.headline and one.by_stage)])


def definition(measure: Measure) -> str:
    return next((text for _, text in defined([measure.quantity])), "")


def defined(quantities: Iterable[Quantity]) -> list[tuple[str, str]]:
    """Name and definition of each of ``quantities``, once; ``d px`` in a name stands for any distance."""
    found = {one.key: one for one in quantities if one.definition}
    return [
        (one.title.replace("<px>", "d"), f"{one.definition}{BETTER[one.better]}") for one in found.values()
    ]
