"""The words of a comparison: its summary, how its numbers were made, what ran, and a glossary."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cnnpool.quantity import Quantity
from cnnpool.report.columns import ranking
from cnnpool.report.comparison import Comparison
from cnnpool.report.pairwise import LEAST_DECIDED
from cnnpool.report.runs import as_text, recipe
from cnnpool.report.statistics import EXACT_PAIRS

BETTER = {"higher": " Higher is better.", "lower": " Lower is better.", None: ""}


def contents(comparison: Comparison) -> dict[str, Any]:
    """Title, summary, ranking, notes, glossary, method and provenance, as pages show them."""
    data = ", ".join(sorted({run.results.images_of for run in comparison.compared}))
    return {
        "title": f"{comparison.metric.title} on {data} by {', '.join(comparison.by)}",
        "summary": summary(comparison),
        "ranking": ranking(comparison),
        "notes": comparison.notes,
        "glossary": glossary(comparison),
        "method": method(comparison),
        "provenance": provenance(comparison),
    }


OVER_IMAGES = (
    "The intervals above cover the seeds alone. Those over seeds and images cover the choice of the test "
    "images too: a crossed bootstrap of seeds and images, from the record of which images each run "
    "classified correctly. Verdicts and places speak for these test images."
)


def summary(comparison: Comparison) -> str:
    """How many choices and seeds, and who is better or worse than the baseline."""
    rows = comparison.rows
    counts = sorted({row.summary.n for row in rows})
    seeds = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    text = f"{len(rows)} choice{'s' * (len(rows) > 1)}, {seeds} seed{'s' * (counts[-1] != 1)} each."
    verdicts: dict[str, list[str]] = {}
    for row in rows[1:]:
        word = row.verdict.partition(" at ")[0].partition(" (")[0].partition(":")[0]
        verdicts.setdefault(word, []).append(row.choice.label)
    listed = "; ".join(f"{word}: {', '.join(labels)}" for word, labels in sorted(verdicts.items()))
    return f"{text} Against {comparison.baseline.choice.label}: {listed}." if listed else text


def method(comparison: Comparison) -> list[tuple[str, str]]:
    """Term and explanation of the statistics."""
    senses = {1: "higher is better", -1: "lower is better", 0: "neither sense is better in itself"}
    return [
        ("Measure", f"{comparison.metric.key} of results.json; {senses[comparison.metric.sense]}."),
        (
            "Intervals",
            "95 % t intervals over seeds. They cover what the seed decides (initial weights, order, "
            "augmentation), not the choice of the test images, unless a column says so. Tables end them "
            "at 0 and 100 %.",
        ),
        (
            "Differences",
            "Paired by seed. p (Holm): two-sided paired t test, adjusted by Holm over all pairs of choices, "
            "not those with the baseline alone; where all differences are equal, the sign-flip test. The "
            f"sign-flip test stands beside it unadjusted, exact up to {EXACT_PAIRS} pairs. Effect size d: "
            "mean difference in standard deviations of the difference.",
        ),
        (
            "Words",
            "Better and worse need an adjusted p below 0.05: with all choices equal, at most 5 % of reports "
            "hold any such word. No difference shown does not mean equal: the smallest difference that the "
            "same test shows in 80 % of repetitions stands there. "
            f"Below {LEAST_DECIDED} seeds nothing is decided.",
        ),
        (
            "Places",
            "From the same decisions: one more than the choices decided to be better, to all choices less "
            "those decided to be worse. All places lie in their intervals in 95 % of reports.",
        ),
    ]


def provenance(comparison: Comparison) -> list[tuple[str, str]]:
    """Term and value of what the runs were and where they ran."""
    results = [run.results for run in comparison.compared]
    seeds = sorted({seed for row in comparison.rows for seed in row.choice.runs})
    images = sorted({one.images_of for one in results})
    hashes = sorted({(one.data_sha256 or "unknown")[:12] for one in results})
    epochs = sorted({str(one.epochs if one.epochs is not None else "unknown") for one in results})
    recipes = [f"{key}={value}" for key, value in agreed(list(map(recipe, results))).items()]
    machine = [f"{key} {value}" for key, value in agreed([one.environment for one in results]).items()]
    times = sorted(one.finished for one in results if one.finished)
    return [
        ("Runs", f"{len(results)} compared, {len(comparison.runs)} found"),
        ("Seeds", ", ".join(map(str, seeds))),
        ("Data", f"{', '.join(images)}, sha256 {', '.join(hashes)}"),
        ("Epochs", ", ".join(epochs)),
        ("Recipe", ", ".join(recipes) or "unknown"),
        ("Machine and versions", ", ".join(machine) or "unknown"),
        ("Finished", f"{times[0]} to {times[-1]}" if times else "unknown"),
    ]


def agreed(dicts: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Key -> its value in all of ``dicts``, or its several values joined by "or"."""
    keys = dict.fromkeys(key for one in dicts for key in one)
    # Of a thousand runs nearly all values are the same, and told apart faster than they are written.
    values = {key: {repr(value := one.get(key)): value for one in dicts}.values() for key in keys}
    return {key: " or ".join(dict.fromkeys(map(as_text, found))) for key, found in values.items()}


def glossary(comparison: Comparison) -> list[tuple[str, str]]:
    """Name and definition of everything that the comparison's tables and charts show."""
    shown = [comparison.metric.quantity, *(one.quantity for one in comparison.measures)]
    return defined([*shown, *(one for one in comparison.quantities if one.headline and one.by_stage)])


def defined(quantities: Iterable[Quantity]) -> list[tuple[str, str]]:
    """Name and definition of each of ``quantities``, once; ``d px`` in a name stands for any distance."""
    found = {one.key: one for one in quantities if one.definition}
    return [
        (one.title.replace("<px>", "d"), f"{one.definition}{BETTER[one.better]}") for one in found.values()
    ]
