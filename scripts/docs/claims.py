"""Write docs/claims.md: the sentences of claims.yaml, each with estimates from the published runs.

usage: python scripts/docs/claims.py

The runs are docs/*/runs.csv; docs/claims.csv has, by seed, numbers of sweeps whose runs.csv is not published.
"""

import csv
import math
import re
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from scipy.stats import t

from cnnpool import tables

DOCS = Path(__file__).resolve().parents[2] / "docs"
CIFAR, JPEG = "CIFAR-10 (JPEG)", "image_folder cifar10-jpeg, airbench"
SWEEPS = {
    "mnist_few": ("MNIST, 1,000 images", "mnist, convnet, flatten, data.limit=1000"),
    "mnist_operators": ("MNIST", "mnist, convnet, flatten"),
    "mnist_readouts": ("MNIST", "mnist, convnet, 5 epochs"),
    "cifar_operators": (CIFAR, f"{JPEG}, flatten, data.crop=2, data.flip=true, model.width=24"),
    "cifar_plain": (CIFAR, f"{JPEG}, flatten, data.crop=0, data.flip=false, model.width=16"),
    "cifar_circular": (CIFAR, f"{JPEG}, gap"),
}
"""Folder of a published sweep -> its data set, and its setting as docs/claims.csv names it."""
DATA = ("digits", "MNIST, 1,000 images", "MNIST", CIFAR)
PAGE = """\
# What textbooks say, and what these runs say

**Numbers here are of networks trained with repeated epochs before version 0.3.0, being run again.**

An answer speaks for these data, networks and recipes alone: *so* where the whole 95 % interval of an estimate
lies where the sentence says, *the reverse* or *not so* where all of it lies elsewhere, *open* in between. It
names the places that deviate. Of {count} intervals some {wrong} may miss by chance.

{items}

## The estimates

Each is the mean over the settings of a data set (network, readout, padding, recipe) of their means over n
seeds, of the first choice less the second by seed. Where the intervals of two settings do not meet, brackets
after n hold the least and the greatest mean: there the estimate is no more than an average.

{table}

Written by `python scripts/docs/claims.py` from the `runs.csv` of the [published sweeps](results.md) and, for
settings without one, from [claims.csv](claims.csv); `conf/experiment/claims.yaml` has their commands.
"""


@dataclass(frozen=True)
class Sentence:
    """A sentence of a textbook and the place of its numbers, as claims.yaml explains."""

    key: str
    text: str
    measured: str
    rows: dict[str, tuple[float, float]]
    column: str = ""
    number: str = ""
    scale: float = 100.0


@dataclass(frozen=True)
class Estimate:
    """A number on one data set: its mean with a 95 % interval, and the same of each setting, of n seeds."""

    mean: float
    low: float
    high: float
    settings: list["Estimate"]
    n: int = 0

    def agrees(self, said: Sequence[float]) -> str:
        """``yes`` or ``no`` if the interval lies within ``said`` or outside, ``differs`` if the settings do
        both, else ``open``."""
        if {"yes", "no"} <= {one.agrees(said) for one in self.settings}:
            return "differs"
        if said[0] <= self.low and self.high <= said[1]:
            return "yes"
        return "no" if self.high < said[0] or self.low > said[1] else "open"

    def cell(self, sign: str) -> str:
        """The estimate as text; ``sign`` is ``+`` where it may be negative."""
        mean, low, high = (f"{x if sign else max(x, 0):{sign}.2f}" for x in (self.mean, self.low, self.high))
        if max(one.n for one in self.settings) < 2:
            return mean
        text = f"{mean} [{low}, {high}], n = {', '.join(str(one.n) for one in self.settings)}"
        if max(one.low for one in self.settings) <= min(one.high for one in self.settings) + 1e-9:
            return text
        means = [one.mean for one in self.settings]
        return f"{text} ({min(means):{sign}.2f} to {max(means):{sign}.2f})"


def estimate(settings: Sequence[Sequence[float]]) -> Estimate:
    """From the values by seed of every setting, which count alike; degrees of freedom after Welch and
    Satterthwaite."""
    mean = statistics.fmean(map(statistics.fmean, settings))
    spread = [(statistics.variance(one) / len(one), len(one) - 1) for one in settings if len(one) > 1]
    total, half = sum(square for square, _ in spread), 0.0
    if total > 0:
        freedom = total**2 / sum(square**2 / n for square, n in spread)
        half = float(t.ppf(0.975, freedom)) * math.sqrt(total) / len(settings)
    if len(settings) == 1:
        alone = Estimate(mean, mean - half, mean + half, [], len(settings[0]))
        return Estimate(mean, mean - half, mean + half, [alone])
    parts = [estimate([one]).settings[0] for one in settings]
    return Estimate(mean, mean - half, mean + half, parts)


Values = dict[tuple[str, str], dict[str, list[float]]]
"""(row, data set) -> setting -> the number of each seed, in the unit shown."""


def of_runs(sentence: Sentence, docs: Path) -> Values:
    """The numbers in the runs of every published sweep."""
    found: Values = defaultdict(dict)
    for folder, (data, setting) in SWEEPS.items():
        arms: dict[str, dict[str, float]] = defaultdict(dict)
        for run in csv.DictReader((docs / folder / "runs.csv").read_text("utf-8").splitlines()):
            if value := run.get(sentence.column):
                arms[run["choice"]][run["seed"]] = sentence.scale * float(value)
        # A choice of two rooms is called ``max / gap``.
        for readout in sorted({choice.partition(" / ")[2] for choice in arms}):
            for row in sentence.rows:
                names = (f"{one} / {readout}" if readout else one for one in row.split(" – "))
                first, *second = (arms.get(one.replace(" 2/2", ""), {}) for one in names)
                seeds = [seed for seed in first if all(seed in arm for arm in second)]
                values = [first[seed] - sum(arm[seed] for arm in second) for seed in seeds]
                if values:
                    found[row, data][f"{setting}, {readout}" if readout else setting] = values
    return found


def of_cases(sentence: Sentence, docs: Path) -> Values:
    """The numbers in docs/claims.csv, stages taken together."""
    found: dict[tuple[str, str], dict[str, dict[str, list[float]]]] = defaultdict(dict)
    for case in csv.DictReader((docs / "claims.csv").read_text("utf-8").splitlines()):
        if case["claim"] != sentence.key or not case["number"].startswith(sentence.number):
            continue
        where, _, choice = case["runs"].partition(", stage ")[0].partition(": ")
        few = ", 1,000 images" if "data.limit=1000" in where else ""
        data = {"digits": "digits", "mnist": f"MNIST{few}"}.get(where.split(",")[0], CIFAR)
        for row in sentence.rows.keys() & {"", choice, re.sub(r" \d*/\d", "", choice)}:
            seeds = found[row, data].setdefault(f"{where}: {choice}", defaultdict(list))
            for seed in (name for name in case if name.startswith("seed ") and case[name]):
                seeds[seed].append(sentence.scale * float(case[seed]))
    return {
        place: {name: [statistics.fmean(one) for one in seeds.values()] for name, seeds in settings.items()}
        for place, settings in found.items()
    }


def estimates(sentence: Sentence, docs: Path) -> dict[tuple[str, str], Estimate]:
    """By row and data set; a published sweep counts by its runs alone."""
    found = of_runs(sentence, docs)
    for place, settings in of_cases(sentence, docs).items():
        known = found.setdefault(place, {})
        known |= {name: one for name, one in settings.items() if name.rpartition(": ")[0] not in known}
    return {place: estimate(list(settings.values())) for place, settings in found.items()}


def answer(sentence: Sentence, found: Mapping[tuple[str, str], Estimate]) -> str:
    """The estimates in a few words, with their places where they say different things."""
    places: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for (row, data), one in found.items():
        places[one.agrees(sentence.rows[row])].append((row, data))
    one_sided = any(math.inf in map(abs, said) and 0 in said for said in sentence.rows.values())
    words = {"yes": "so", "no": "the reverse" if one_sided else "not so", "differs": "settings differ"}
    words["open"] = "open" if found else "no published run measures it"
    yes, no = len(places["yes"]), len(places["no"])
    most = "yes" if yes > 2 * no else "no" if no > 2 * yes else "" if yes else "open"
    parts = [f"{words[key]} for {_listed(places[key])}" for key in words if places[key] and key != most]
    if not most:
        word = "it depends"
    elif most != "open" and ((yes and no) or places["differs"]):
        word = f"mostly {words[most]}"
    else:
        word = words[most]
    # One kind alone is the answer, and needs no places.
    return word.capitalize() + (f"; {'; '.join(parts)}" if parts else "")


def _listed(places: Sequence[tuple[str, str]]) -> str:
    rows: dict[str, list[str]] = defaultdict(list)
    for row, data in sorted(places, key=lambda place: DATA.index(place[1])):
        rows[row].append(data)
    return ", ".join(f"{row} ({'; '.join(data)})".strip() for row, data in rows.items())


def lines(number: int, sentence: Sentence, found: Mapping[tuple[str, str], Estimate]) -> Iterator[list[str]]:
    """The sentence's rows of the table."""
    for row in sentence.rows:
        sign = "+" if " – " in row or sentence.scale == 1 else ""
        cells = [found[row, data].cell(sign) if (row, data) in found else "" for data in DATA]
        yield [f"{number} {row}".strip(), *cells]


def page(docs: Path = DOCS) -> str:
    """docs/claims.md."""
    items, rows, count = [], [], 0
    for number, entry in enumerate(yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8")), 1):
        sentence = Sentence(**entry)
        found = estimates(sentence, docs)
        count += sum(max(part.n for part in one.settings) > 1 for one in found.values())
        items.append(
            f"{number}. **{sentence.text}** {answer(sentence, found)}. Measured: {sentence.measured}."
        )
        rows += lines(number, sentence, found)
    table = tables.markdown(tables.from_rows(("", *DATA), rows, numbers=DATA), markup=True)
    return PAGE.format(count=count, wrong=round(0.05 * count), items="\n".join(items), table=table)


if __name__ == "__main__":
    (DOCS / "claims.md").write_text(page(), "utf-8")
    print(f"wrote {DOCS / 'claims.md'}")
