"""The report as blocks, the same for Markdown and HTML: ``compose`` writes what it says."""

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cnnpool.quantity import Quantity
from cnnpool.report.columns import (
    image_columns,
    main_columns,
    measure_tables,
    pair_columns,
    ranking,
)
from cnnpool.report.comparison import Comparison
from cnnpool.report.notes import MARK
from cnnpool.report.pairwise import LEAST_DECIDED
from cnnpool.report.plots import Plot
from cnnpool.report.runs import recipe
from cnnpool.report.statistics import EXACT_PAIRS
from cnnpool.tables import Column

BETTER = {"higher": " Higher is better.", "lower": " Lower is better.", None: ""}


@dataclass(frozen=True)
class Heading:
    text: str


@dataclass(frozen=True)
class Paragraph:
    text: str


@dataclass(frozen=True)
class Items:
    """A list; each item may open with a term."""

    items: list[tuple[str, str]]


@dataclass(frozen=True)
class Table:
    columns: list[Column]

    @property
    def rows(self) -> list[tuple[str, ...]]:
        return list(zip(*(column.cells for column in self.columns), strict=True))


@dataclass(frozen=True)
class Code:
    text: str


Block = Heading | Paragraph | Items | Table | Code | Plot


def compose(comparison: Comparison, plots: Sequence[Plot], argv: Sequence[str]) -> tuple[str, list[Block]]:
    """The report's title and its blocks.

    Args:
        comparison: what it is about.
        plots: the figures, already drawn.
        argv: the arguments of the command that made it.
    """
    blocks: list[Block] = [Paragraph(summary(comparison)), Table(main_columns(comparison))]
    blocks += [Paragraph(ranking(comparison))]
    if comparison.notes:
        blocks += [Heading("Warnings"), Items([("", note) for note in comparison.notes])]
    if len(comparison.rows) > 1:
        blocks += [Heading(f"Against {comparison.baseline.choice.label}"), Table(pair_columns(comparison))]
    if images := image_columns(comparison):
        blocks += [Heading("With other test images"), Paragraph(OVER_IMAGES), Table(images)]
    if comparison.measures:
        blocks += [
            Heading("What else was measured"),
            Paragraph("Means over the seeds of each choice, as many as above."),
            *map(Table, measure_tables(comparison)),
        ]
        blocks += [Paragraph(f"{MARK} {comparison.loaded}.")] * bool(comparison.loaded)
    blocks += [Heading("Glossary"), Items(glossary(comparison))]
    blocks += [Heading("Figures"), *plots] if plots else []
    blocks += [Heading("How the numbers were made"), Items(method(comparison))]
    blocks += [Heading("What ran"), Items(provenance(comparison))]
    blocks += [Heading("Made by"), Code(f"cnnpool compare {shlex.join(argv)}".rstrip())]
    return title(comparison), blocks


def title(comparison: Comparison) -> str:
    """The measure, the data and the keys that make a choice."""
    data = ", ".join(sorted({run.results.images_of for run in comparison.compared}))
    return f"{comparison.metric.title} on {data} by {', '.join(comparison.by)}"


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
    times = sorted(one.finished for one in results if one.finished)
    environment = agreed([one.environment for one in results])
    hashes = sorted({(one.data_sha256 or "unknown")[:12] for one in results})
    return [
        ("Runs", f"{len(results)} compared, {len(comparison.runs)} found"),
        ("Seeds", ", ".join(map(str, seeds))),
        (
            "Data",
            f"{', '.join(sorted({one.images_of for one in results}))}, sha256 {', '.join(hashes)}",
        ),
        (
            "Epochs",
            ", ".join(sorted({str(one.epochs if one.epochs is not None else "unknown") for one in results})),
        ),
        (
            "Recipe",
            ", ".join(f"{key}={value}" for key, value in agreed(list(map(recipe, results))).items())
            or "unknown",
        ),
        (
            "Machine and versions",
            ", ".join(f"{key} {value}" for key, value in environment.items()) or "unknown",
        ),
        ("Finished", f"{times[0]} to {times[-1]}" if times else "unknown"),
    ]


def agreed(dicts: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Key -> its value in all of ``dicts``, or its several values joined by "or"."""
    keys = dict.fromkeys(key for one in dicts for key in one)
    # Of a thousand runs nearly all values are the same, and told apart faster than they are written.
    values = {key: {repr(value := one.get(key)): value for one in dicts}.values() for key in keys}
    return {key: " or ".join(dict.fromkeys(map(_plain, found))) for key, found in values.items()}


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


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
