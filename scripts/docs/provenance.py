"""Write docs/provenance, a page for each published sweep, and what other pages say of their numbers.

usage: python scripts/docs/provenance.py

provenance.yaml says how a sweep was run; the numbers are those of its runs.csv, correct.csv and rates.csv.
"""

import csv
import statistics
import textwrap
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import yaml

from cnnpool.report.measure import ACCURACY
from cnnpool.report.pairwise import decide
from cnnpool.report.statistics import LEVEL, summarise
from scripts.docs import pages
from scripts.docs.claims import correct
from scripts.docs.pages import DOCS

MEASURES = {
    "accuracy": ACCURACY,
    "consistency": "invariance.consistency.distinct",
    "consistency, all shifts": "all_shifts.consistency",
    "under corruptions": "corruptions.accuracy",
}
"""Word of a table's head -> column of runs.csv, a fraction."""
COSTS = {"FLOPs": "cost.flops", "parameters": "cost.parameters"}
NOTE = """\
± is the standard deviation over the seeds. Intervals are 95 %: of accuracies they cover other seeds and other
test images, of all else other seeds. *Better* and *worse* are shown after Holm's correction over the
comparisons of one column."""


@dataclass(frozen=True)
class Table:
    """The choices of a folder of published runs, each compared with ``base`` by keys of ``MEASURES``."""

    folder: str
    base: str
    title: str = ""
    measures: Sequence[str] = ("accuracy", "consistency")
    costs: Sequence[str] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    """Choice in the files -> its name on the pages."""
    short: Sequence[str] = ()
    """Measures of the table in results.md; none without one."""

    def of(self, column: str) -> dict[str, dict[int, float]]:
        """Name -> seed -> number of every run that has one, ``base`` first."""
        found: dict[str, dict[int, float]] = {self.base: {}}
        for run in csv.DictReader((DOCS / self.folder / "runs.csv").read_text("utf-8").splitlines()):
            if value := run.get(column):
                name = self.names.get(run["choice"], run["choice"])
                found.setdefault(name, {})[int(run["seed"])] = float(value)
        return found

    def beside(self, measure: str) -> dict[str, "Beside"]:
        """Name -> its difference to ``base``, of every other choice."""
        values, bits = self.of(MEASURES[measure]), []
        if measure == "accuracy":
            right = correct(DOCS / self.folder, lambda choice: self.names.get(choice, choice))
            bits = [right[name] for name in values]
        decided, found = decide(list(values.values()), bits, named=True), {}
        for place, (name, of) in enumerate(values.items()):
            if place:
                pair, base = decided.between(place, 0), values[self.base]
                alone = summarise([of[seed] - base[seed] for seed in of.keys() & base.keys()])
                half = pair.crossed.half if pair.crossed else alone.high - alone.mean
                found[name] = Beside(100 * pair.mean, 100 * half, pair.adjusted < LEVEL)
        return found

    def markdown(self, *, short: bool = False) -> str:
        """The most accurate first; ``short`` without deviations and intervals."""
        measures, by_name = self.short if short else self.measures, defaultdict(list)
        head = ["choice"]
        for measure in measures:
            found = self.beside(measure)
            head += [f"{measure} (%)", f"to {self.base} (points)"]
            for name, values in self.of(MEASURES[measure]).items():
                difference = found[name].text(short=short) if name in found else ""
                by_name[name] += [_mean(values, short), difference]
        for cost in self.costs:
            head.append(cost)
            for name, values in self.of(COSTS[cost]).items():
                by_name[name].append(_size(cost, statistics.fmean(values.values())))
        accuracy = self.of(ACCURACY)
        order = sorted(by_name, key=lambda name: -statistics.fmean(accuracy[name].values()))
        return pages.table(head, [[name, *by_name[name]] for name in order])


class Beside(NamedTuple):
    """A choice less the base, in points: the mean, half its interval, and whether a difference is shown."""

    mean: float
    half: float
    shown: bool

    @property
    def ends(self) -> tuple[float, float]:
        return self.mean - self.half, self.mean + self.half

    def text(self, *, short: bool) -> str:
        mean = f"{round(self.mean, 2) + 0.0:+.2f}"
        if short:
            return f"**{mean}**" if self.shown else mean
        low, high = self.ends
        verdict = ", better" if self.mean > 0 else ", worse"
        return f"{mean} [{low:+.2f}, {high:+.2f}]{verdict * self.shown}"


def _mean(values: Mapping[int, float], short: bool) -> str:
    percent = [100 * value for value in values.values()]
    return f"{statistics.fmean(percent):.2f}" + ("" if short else f" ± {statistics.stdev(percent):.2f}")


def _size(cost: str, value: float) -> str:
    if cost != "FLOPs":
        return f"{value:,.0f}"
    return f"{value / 1e6:.1f} M" if value >= 1e7 else f"{value / 1e6:.2f} M"


def rates(path: str) -> str:
    """The validation accuracies by which a rate was chosen, a row for each choice and the best one bold."""
    found: dict[str, dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    for run in csv.DictReader((DOCS / path).read_text("utf-8").splitlines()):
        value = 100 * float(run["val.accuracy"])
        found[run.get("pool") or run["readout"]][float(run["fit.lr"])].append(value)
    every = sorted({rate for by_rate in found.values() for rate in by_rate})
    rows = []
    for name, by_rate in found.items():
        means = {rate: statistics.fmean(values) for rate, values in by_rate.items()}
        most = max(len(values) for values in by_rate.values())
        best = max(mean for rate, mean in means.items() if len(by_rate[rate]) == most)
        rows.append([name, *(_rate(by_rate.get(rate, []), best) for rate in every)])
    return pages.table(["choice", *map(str, every)], rows)


def _rate(values: Sequence[float], best: float) -> str:
    if not values:
        return ""
    mean = statistics.fmean(values)
    text = f"**{mean:.2f}**" if mean == best else f"{mean:.2f}"
    return text if len(values) == 1 else f"{text} (n = {len(values)})"


def sweeps() -> Iterator[tuple[Mapping[str, str], list[Table]]]:
    """Every entry of provenance.yaml, with its tables."""
    for entry in yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8")):
        yield entry, [Table(**one) for one in entry.get("tables", ())]


def page(entry: Mapping[str, str], shown: Sequence[Table]) -> str:
    """docs/provenance/NAME.md."""
    parts = [f"# {entry['title']}", entry["setting"].strip()]
    if shown:
        parts.append(NOTE)
    for one in shown:
        files = (
            f"[Runs](../{one.folder}/runs.csv), [images that each got right](../{one.folder}/correct.csv)."
        )
        parts += [f"## {one.title or 'Results'}", one.markdown(), files]
    for path in entry.get("rates", ()):
        parts += [f"## Search of rates: {path}", f"Validation accuracy (%); [every run](../{path})."]
        parts.append(rates(path))
    if notes := entry.get("notes"):
        parts += ["## Notes", notes.strip()]
    parts += ["## How it was run", f"```\n{entry['commands'].strip()}\n```", entry["made"].strip()]
    parts.append("[Results](../results.md). Written by `python scripts/docs/provenance.py`.")
    return "\n\n".join(parts) + "\n"


ORDERS = {
    "gradient_routing.md": (
        "routed",
        "gradient.*.zero_fraction",
        "Share without gradient, mean over the stages",
    ),
    "shift_invariance.md": (
        "moved",
        "invariance.stages.*.relative_change.1",
        "Relative change under 1 px, mean over the stages",
    ),
}
"""Page -> the place of its sentence, column and words of it."""


def ordered(page: str, text: str) -> str:
    """The text of a page of ``ORDERS`` with its sentence: choices on MNIST by the mean of a column."""
    place, column, words = ORDERS[page]
    found = Table("mnist_operators", "max").of(column)
    means = {name: statistics.fmean(values.values()) for name, values in found.items()}
    each = ", ".join(f"{name} {means[name]:.3f}" for name in sorted(means, key=means.__getitem__))
    sentence = f"{words}, least first (ten seeds): {each}."
    return pages.filled(text, place, textwrap.fill(sentence, 120))


def results(text: str) -> str:
    """docs/results.md with its tables as the runs have them."""
    for _, shown in sweeps():
        for one in shown:
            if one.short:
                text = pages.filled(text, one.folder, one.markdown(short=True))
    return text


def main() -> None:
    (DOCS / "provenance").mkdir(exist_ok=True)
    for entry, shown in sweeps():
        pages.write(f"provenance/{entry['name']}.md", page(entry, shown))
    pages.write("results.md", results((DOCS / "results.md").read_text("utf-8")))
    for name in ORDERS:
        pages.write(name, ordered(name, (DOCS / name).read_text("utf-8")))


if __name__ == "__main__":
    main()
