"""Write docs/claims.md: the sentences of claims.yaml, each with estimates from the published runs.

usage: python scripts/docs/claims.py

The runs are docs/*/runs.csv. A sentence that no published run measures is left out.
"""

import csv
import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from scipy.stats import t

from cnnpool.report.measure import ACCURACY
from cnnpool.report.statistics import Bits, Crossed, of_table, stacked
from cnnpool.run_folder.results import unpacked
from scripts.docs.pages import DOCS, table, write

SWEEPS = {
    "mnist_few/200": "MNIST, 1,000 images, 200 steps",
    "mnist_few/one_rate/1000": "MNIST, 1,000 images, 1,000 steps",
    "mnist_few/one_rate/5000": "MNIST, 1,000 images, 5,000 steps",
    "mnist_operators": "MNIST",
    "cifar_operators/4": "CIFAR-10 (JPEG)",
}
"""Folder of a published sweep -> its data set."""
PAGE = """\
# What textbooks say, and what these runs say

A verdict speaks for these data, networks and recipes alone: *so* where the whole 95 % interval of an estimate
lies where the sentence says, *the reverse* or *not so* where all of it lies elsewhere, *open* in between.
Intervals of test accuracies cover other test images too, all others other seeds alone. Each stands for
itself; [results.md](results.md) corrects for their number, and shows fewer. After 200 steps, on
all of MNIST and on CIFAR-10 each choice has its own learning rate; elsewhere all have one, chosen for none.
MNIST alone means all 55,000 images, three epochs; CIFAR-10 four epochs, where max keeps odd borders, as all
others do but avg, beside which it drops them too.

{items}

## The estimates

Each is the mean over n seeds, of the first choice minus the second, by seed.

{table}

Written by `python scripts/docs/claims.py` from the `runs.csv` of the [published sweeps](results.md).
"""
HEAD = ("", "textbooks say", "these runs", "but", "measured")


@dataclass(frozen=True)
class Sentence:
    """A sentence of a textbook and the place of its numbers, as claims.yaml explains."""

    text: str
    measured: str
    rows: dict[str, tuple[float, float]]
    column: str
    scale: float = 100.0


@dataclass(frozen=True)
class Estimate:
    """A number on one data set: its mean over ``n`` seeds, with a 95 % interval."""

    mean: float
    low: float
    high: float
    n: int

    def agrees(self, said: Sequence[float]) -> str:
        """``yes`` or ``no`` if the interval lies within ``said`` or outside, else ``open``."""
        if said[0] <= self.low and self.high <= said[1]:
            return "yes"
        return "no" if self.high < said[0] or self.low > said[1] else "open"

    def cell(self, sign: str) -> str:
        """The estimate as text; ``sign`` is ``+`` where it may be negative."""
        mean, low, high = (f"{x if sign else max(x, 0):{sign}.2f}" for x in (self.mean, self.low, self.high))
        return mean if self.n < 2 else f"{mean} [{low}, {high}], n = {self.n}"


def estimate(values: Sequence[float], both: Crossed | None = None) -> Estimate:
    """From the number of each seed, in per cent, and its error over test images too, if known."""
    mean, half = statistics.fmean(values), 0.0
    if len(values) > 1:
        square, freedom = error(values, both)
        half = float(t.ppf(0.975, freedom)) * math.sqrt(square)
    return Estimate(mean, mean - half, mean + half, len(values))


def error(values: Sequence[float], both: Crossed | None) -> tuple[float, float]:
    """The square of a mean's standard error and its degrees of freedom, over images too if they are known."""
    known = [(statistics.variance(values) / len(values), len(values) - 1.0)]
    if both is not None:
        known.append((100**2 * both.error**2, both.freedom))
    return max(known, key=lambda one: float(t.ppf(0.975, one[1])) * math.sqrt(one[0]))


def of_runs(sentence: Sentence, docs: Path) -> dict[tuple[str, str], tuple[list[float], Crossed | None]]:
    """Row and data set -> the numbers in the runs of its sweep, in the unit shown, for ``estimate``."""
    found = {}
    for folder, data in SWEEPS.items():
        arms: dict[str, dict[int, float]] = defaultdict(dict)
        for run in csv.DictReader((docs / folder / "runs.csv").read_text("utf-8").splitlines()):
            if value := run.get(sentence.column):
                arms[plain(run["choice"])][int(run["seed"])] = sentence.scale * float(value)
        bits = correct(docs / folder) if sentence.column == ACCURACY else {}
        for row in sentence.rows:
            names = [one.replace(" 2/2", "") for one in row.split(" – ")]
            if "avg" in names:
                names = [one if (beside := f"{one} beside avg") not in arms else beside for one in names]
            first, *second = (arms.get(one, {}) for one in names)
            seeds = [seed for seed in first if all(seed in arm for arm in second)]
            values = [first[seed] - sum(arm[seed] for arm in second) for seed in seeds]
            answers = [stacked(bits.get(one, {}), seeds) for one in names]
            if values:
                both = of_table(*answers) if all(one is not None for one in answers) else None
                found[row, data] = values, both
    return found


def correct(folder: Path, named: Callable[[str], str] | None = None) -> dict[str, dict[int, Bits]]:
    """Choice, ``plain`` or ``named``, -> seed -> which test images its run got right, if published."""
    named = named or plain
    found: dict[str, dict[int, Bits]] = defaultdict(dict)
    if (answers := folder / "correct.csv").exists():
        for run in csv.DictReader(answers.read_text("utf-8").splitlines()):
            record = {"images": int(run["images"]), "bits": run["bits"]}
            found[named(run["choice"])][int(run["seed"])] = unpacked(record)
    return found


def plain(choice: str) -> str:
    """The name of max pooling where a sweep has two: that which keeps odd borders, and that beside avg."""
    kept = choice.replace("(ceil_mode=true, kernel_size=2)", "")
    return kept.replace("(ceil_mode=false, kernel_size=2)", " beside avg")


def estimates(sentence: Sentence, docs: Path) -> dict[tuple[str, str], Estimate]:
    """By row and data set."""
    return {place: estimate(*one) for place, one in of_runs(sentence, docs).items()}


def answer(sentence: Sentence, found: Mapping[tuple[str, str], Estimate]) -> str:
    """The estimates in a few words, with their places where they say different things."""
    places: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for (row, data), one in found.items():
        places[one.agrees(sentence.rows[row])].append((row, data))
    one_sided = any(math.inf in map(abs, said) and 0 in said for said in sentence.rows.values())
    other = "the reverse" if one_sided else "not so"
    words = {"yes": "so", "no": other, "open": "open"}
    yes, no, undecided = (len(places[key]) for key in ("yes", "no", "open"))
    most = "yes" if yes > 2 * no else "no" if no > 2 * yes else "" if yes else "open"
    most = "open" if undecided >= max(yes, no) else most
    others = [key for key in words if places[key] and key != most]
    parts = [f"{words[key]} for {_listed(places[key], found)}" for key in others]
    if not most:
        word = "it depends"
    elif most != "open" and ((yes and no) or undecided):
        word = f"mostly {words[most]}"
    else:
        word = words[most]
    # One kind alone is the answer, and needs no places.
    return word.capitalize() + (f"; {'; '.join(parts)}" if parts else "")


def _listed(places: Sequence[tuple[str, str]], every: Iterable[tuple[str, str]]) -> str:
    """Rows with their data sets, but for rows of which it is all."""
    rows: dict[str, list[str]] = defaultdict(list)
    for row, data in places:
        rows[row].append(data)
    whole = {row for row in rows if len(rows[row]) == sum(row == name for name, _ in every)}
    return ", ".join(row if row in whole else f"{row} ({'; '.join(rows[row])})".strip() for row in rows)


def lines(number: int, sentence: Sentence, found: Mapping[tuple[str, str], Estimate]) -> Iterator[list[str]]:
    """The sentence's rows of the table."""
    for row in sentence.rows:
        sign = "+" if " – " in row or sentence.scale == 1 else ""
        cells = [found[row, data].cell(sign) if (row, data) in found else "" for data in SWEEPS.values()]
        if any(cells):
            yield [f"{number} {row}".strip(), *cells]


def page(docs: Path = DOCS) -> str:
    """docs/claims.md."""
    items, rows = [], []
    for entry in yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8")):
        sentence = Sentence(**entry)
        if found := estimates(sentence, docs):
            number = len(items) + 1
            verdict, _, others = answer(sentence, found).partition("; ")
            items.append([str(number), sentence.text, f"**{verdict}**", others, sentence.measured])
            rows += lines(number, sentence, found)
    data = list(SWEEPS.values())
    return PAGE.format(items=table(HEAD, items), table=table(("", *data), rows, data))


if __name__ == "__main__":
    write("claims.md", page())
