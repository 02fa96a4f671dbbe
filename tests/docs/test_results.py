"""The numbers that README.md, docs/results.md and docs/provenance cite, recomputed from the published runs.

Independent of the code that made them: the standard library reads the files, scipy has the quantile of t.
"""

import base64
import csv
import itertools
import math
import re
import statistics
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import t

DOCS = Path(__file__).parents[2] / "docs"
# Of these no runs were kept.
WITHOUT_RUNS = ("fast", "finetune_recipe", "photographs")
PROVENANCE = [one for one in sorted(DOCS.glob("provenance/*.md")) if one.stem not in WITHOUT_RUNS]
PAGES = (DOCS.parent / "README.md", DOCS / "results.md", *PROVENANCE)
NUMBER = r"[+-]?\d+\.\d\d"
INTERVAL = re.compile(rf"({NUMBER})(?:(?!{NUMBER})[^\[\]|]){{0,60}}\[({NUMBER}), ({NUMBER})\\?\]")
MEAN_AND_SD = re.compile(rf"({NUMBER}) ± (\d+\.\d\d)")


def samples(path):
    """Every (group, metric) of a file of runs, with the value of each choice for each seed."""
    found = {}
    for row in csv.DictReader(path.read_text(encoding="utf-8").splitlines()):
        if "claim" in row:
            key = (row["claim"], row["runs"], row["number"])
            values = {name: float(value) for name, value in row.items() if name.startswith("seed ") and value}
            found[key, ""] = {"": values}
            continue
        choice = row["choice"] if "choice" in row else row["pool"]
        for name, value in row.items():
            if ("." in name or name == "accuracy") and value:
                at = found.setdefault((row.get("limit"), name), {})
                at.setdefault(choice, {})[row["seed"]] = float(value)
    return found


def interval(values):
    """Mean, standard deviation and the ends of the 95 % t interval, in per cent or points."""
    mean, sd, n = 100 * statistics.mean(values), 100 * statistics.stdev(values), len(values)
    half = float(t.ppf(0.975, n - 1)) * sd / math.sqrt(n)
    return mean, sd, mean - half, mean + half


def either(low, high):
    """The ends of the interval of a difference, and of its negative."""
    return [(low, high), (-high, -low)]


@cache
def known(path):
    """Means with their deviations, and ends of intervals of means and of paired differences."""
    means, ends = [], []
    for choices in samples(path).values():
        for values in choices.values():
            if len(values) > 1:
                mean, sd, low, high = interval(list(values.values()))
                means.append((mean, sd))
                # A claim's number is a difference already.
                ends += either(low, high)
        for one, other in itertools.combinations(choices.values(), 2):
            both = [one[seed] - other[seed] for seed in one if seed in other]
            if len(both) > 1:
                ends += either(*interval(both)[2:])
    answers = path.with_name("correct.csv")
    return means, ends + (over_images(answers) if answers.exists() else [])


@cache
def answers(path):
    """Choice -> the images that each seed got right, (seeds, images)."""
    bits = {}
    for row in csv.DictReader(path.read_text(encoding="utf-8").splitlines()):
        packed = np.frombuffer(base64.b64decode(row["bits"], validate=True), np.uint8)
        bits.setdefault(row["choice"], []).append(np.unpackbits(packed)[: int(row["images"])].astype(float))
    return {choice: np.array(rows) for choice, rows in bits.items()}


def errors(apart):
    """(squared standard error, degrees of freedom) of a mean over the seeds alone, and over images too."""
    seeds, images = apart.shape
    rest = apart - apart.mean(1, keepdims=True) - apart.mean(0) + apart.mean()
    # Squares of standard errors: of the seeds, of the images, and of what both of these contain.
    a, b = apart.mean(1).var(ddof=1) / seeds, apart.mean(0).var(ddof=1) / images
    r = (rest**2).sum() / ((seeds - 1) * (images - 1)) / apart.size
    both = a + max(0, b - r)
    parts = a**2 / (seeds - 1) + b**2 / (images - 1) + r**2 / ((seeds - 1) * (images - 1))
    return (a, seeds - 1), (both, max(seeds - 1, both**2 / parts))


def over_images(path):
    """Ends of the intervals of paired differences over seeds and test images, by the bits of each run."""
    ends = []
    for one, other in itertools.combinations(answers(path).values(), 2):
        apart = 100 * (one - other)
        half = max(float(t.ppf(0.975, freedom)) * math.sqrt(square) for square, freedom in errors(apart))
        ends += either(apart.mean() - half, apart.mean() + half)
    return ends


def sections(page):
    """(heading, text, files of runs that it or its provenance links) of each section; without any, all."""
    every = [path for name in ("runs", "sizes", "ceil", "claims") for path in DOCS.rglob(f"{name}.csv")]
    every = [path for path in every if not path.parent.name.startswith("choose_")]
    for part in re.split(r"^## ", page.read_text(encoding="utf-8"), flags=re.MULTILINE):
        heading, _, text = part.partition("\n")
        pages = re.findall(r"\((?:docs/)?(provenance/\w+\.md)\)", text)
        here = text + "".join((DOCS / name).read_text(encoding="utf-8") for name in pages)
        here = here.replace("docs/", "").replace("../", "")
        linked = {path for path in every if f"({path.relative_to(DOCS)})" in here}
        yield heading, re.sub(r"\s+", " ", text), sorted(linked) or every


def near(number, other):
    """Whether a number that is cited with two decimals is the other one, rounded."""
    return abs(float(number) - other) <= 0.005 + 1e-6


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_interval_that_is_cited_comes_from_the_runs(page):
    wrong, count, brackets = [], 0, 0
    for heading, text, files in sections(page):
        brackets += len(re.findall(rf"\[{NUMBER}, {NUMBER}", text))
        ends = [pair for path in files for pair in known(path)[1]]
        for number, low, high in INTERVAL.findall(text):
            count += 1
            middle = abs(float(low) + float(high)) / 2
            known_ends = any(near(low, one) and near(high, other) for one, other in ends)
            if not known_ends or abs(abs(float(number)) - middle) > 0.0101:
                wrong.append(f"{heading}: {number} [{low}, {high}]")
    assert count == brackets > 1
    assert wrong == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_mean_and_deviation_that_is_cited_comes_from_the_runs(page):
    wrong, count = [], 0
    for heading, text, files in sections(page):
        means = [pair for path in files for pair in known(path)[0]]
        for number, sd in MEAN_AND_SD.findall(text):
            count += 1
            if not any(near(number, one) and near(sd, other) for one, other in means):
                wrong.append(f"{heading}: {number} ± {sd}")
    assert count > 2 or page.name == "results.md"
    assert wrong == []


def test_the_generated_pages_are_those_of_the_published_runs():
    from scripts.docs import provenance

    text = (DOCS / "results.md").read_text("utf-8")
    assert provenance.results(text) == text, "run scripts/docs/provenance.py"
    assert len(text.split()) <= 2000
    for name in provenance.ORDERS:
        text = (DOCS / name).read_text("utf-8")
        assert provenance.ordered(name, text) == text
    pages = {entry["name"]: provenance.page(entry, shown) for entry, shown in provenance.sweeps()}
    assert {path.stem: path.read_text("utf-8") for path in DOCS.glob("provenance/*.md")} == pages


@pytest.mark.parametrize(
    ("page", "column"),
    [
        ("gradient_routing.md", "gradient.*.zero_fraction"),
        ("shift_invariance.md", "invariance.stages.*.relative_change.1"),
    ],
)
def test_the_order_of_a_figure_is_that_of_the_runs(page, column):
    found = {name: statistics.mean(of.values()) for name, of in published("mnist_operators", column).items()}
    text = (DOCS / page).read_text("utf-8").partition("least first (ten seeds): ")[2].partition(".\n")[0]
    cited = [part.split() for part in re.sub(r"\s+", " ", text).split(", ")]
    assert [name for name, _ in cited] == sorted(found, key=found.__getitem__)
    assert all(float(number) == round(found[name], 3) for name, number in cited)


def published(folder, column):
    return samples(DOCS / folder / "runs.csv")[None, column]


def test_the_arithmetic_that_choices_add_is_what_the_pages_say():
    def more(folder, one, other, column="cost.flops"):
        means = {name: statistics.mean(of.values()) for name, of in published(folder, column).items()}
        return 100 * (means[one] / means[other] - 1)

    readme, results = ((DOCS.parent / "README.md").read_text(), (DOCS / "results.md").read_text())
    assert "for 0.5 % more arithmetic" in readme
    assert round(more("cifar_operators/4", "max_blur", KEPT), 1) == 0.5 and "for 0.5 % more" in results
    assert round(more("mnist_operators", "conv_blur", "max")) == 79 and "for 79 % more" in results
    assert round(more("cifar_operators/4", KEPT.replace("true", "false"), KEPT)) == -17
    assert round(more("readouts", "gap", "flatten", "cost.parameters")) == -4
    assert "for 17 % less\narithmetic" in results and "4 % fewer parameters" in results


FINDINGS = {"mnist_few/100": "max", "mnist_operators": "max", "cifar_operators/4": "max", "finetune": "keep"}
KEPT = "max(ceil_mode=true, kernel_size=2)"  # The fair baseline of CIFAR-10


def test_the_table_of_findings_is_bold_where_a_difference_is_shown():
    page = PAGES[0].read_text(encoding="utf-8")
    table = page.partition("findings: begin")[2].partition("findings: end")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if "`" in line]
    cells = 0
    for column, (folder, base) in enumerate(FINDINGS.items(), 1):
        bits = answers(DOCS / folder / "correct.csv")
        base = KEPT if KEPT in bits else base
        p = {}
        for choice in bits.keys() - {base}:
            apart = bits[choice] - bits[base]
            tails = [
                t.sf(abs(apart.mean()) / math.sqrt(square), freedom) for square, freedom in errors(apart)
            ]
            p[choice] = 2 * max(tails)
        floor, shown = 0.0, set()
        for rank, choice in enumerate(sorted(p, key=p.__getitem__)):
            floor = max(floor, (len(p) - rank) * p[choice])
            shown |= {choice} if floor < 0.05 else set()
        for row in rows:
            name, cell = row[0].strip("`"), row[column]
            assert bool(cell) == (name in bits)
            if cell:
                cells += 1
                assert near(cell.strip("*"), 100 * (bits[name] - bits[base]).mean())
                assert cell.startswith("**") == (name in shown)
    assert (len(rows), cells) == (6, 20)


def test_the_figures_of_differences_have_the_intervals_of_the_tables():
    from scripts.docs import findings
    from scripts.docs.provenance import Table

    bits = answers(DOCS / "quickstart" / "correct.csv")
    drawn = findings.forest(findings.QUICKSTART).axes[0].containers
    for name, one in zip(("max_blur", "strided"), drawn, strict=True):
        apart = 100 * (bits[name] - bits["max"])
        half = max(float(t.ppf(0.975, freedom)) * math.sqrt(square) for square, freedom in errors(apart))
        ends = one.lines[2][0].get_segments()[0][:, 0].tolist()
        assert ends == pytest.approx([apart.mean() - half, apart.mean() + half])
    panels = findings.sizes({size: Table(folder, "max") for size, folder in findings.SIZES.items()}).axes
    means = {axes.get_title(): axes.lines[1].get_ydata() for axes in panels if axes.get_title()}
    every = [answers(DOCS / folder / "correct.csv") for folder in findings.SIZES.values()]
    assert means.keys() == every[0].keys() - {"max"}
    for name, drawn in means.items():
        assert drawn == pytest.approx([100 * (bits[name] - bits["max"]).mean() for bits in every])


def test_what_longer_training_changes_is_what_the_page_says():
    ends, p = {}, {}
    for choice in ("max_blur", "blur", "strided", "avg"):
        early, late = (answers(DOCS / "cifar_operators" / epochs / "correct.csv") for epochs in ("4", "16"))
        before, after = early[choice] - early[KEPT], late[choice] - late["max(ceil_mode=true)"]
        # Seeds 0 to 5 were trained for 16 epochs, 0 to 9 for four.
        change = 100 * (after - before[: len(after)])
        spread = errors(change)
        half = max(float(t.ppf(0.975, freedom)) * math.sqrt(square) for square, freedom in spread)
        tails = [t.sf(abs(change.mean()) / math.sqrt(square), freedom) for square, freedom in spread]
        ends[choice], p[choice] = (change.mean() - half, change.mean() + half), 2 * max(tails)
    low, high = ends["strided"]
    text = re.sub(r"\s+", " ", PAGES[1].read_text("utf-8"))
    assert f"a strided convolution gains {low:.2f} to {high:.2f} points" in text
    with (DOCS / "cifar_operators" / "4" / "rates.csv").open(encoding="utf-8") as file:
        tuned = {
            row["fit.lr"]: float(row["val.accuracy"])
            for row in csv.DictReader(file)
            if row["pool"] == "strided"
        }
    better = 100 * (tuned["0.06"] - tuned["0.03"])
    assert f"at twice its rate one seed was {better:.2f} better on validation images" in text
    assert f"`max_blur` loses {-ends['max_blur'][1]:.2f} to {-ends['max_blur'][0]:.2f}" in text
    first, second, third, _ = sorted(p, key=p.__getitem__)
    assert {first, second} == {"strided", "max_blur"} and third == "blur"
    assert 4 * p[first] < 0.05 and 3 * p[second] < 0.05 < 2 * p[third]


def test_the_findings_of_readme_are_those_of_the_results():
    found = (
        PAGES[0]
        .read_text("utf-8")
        .partition("## What was found\n")[2]
        .partition("compared with max pooling")[0]
    )
    numbers, results = re.findall(r"\d\.\d\d", found), (DOCS / "results.md").read_text("utf-8")
    assert len(numbers) == 7 and len(re.findall("^- ", found, re.MULTILINE)) == 7
    assert all(re.search(rf"[+-]{re.escape(number)} \[", results) for number in numbers)


def test_a_wrong_number_is_found(tmp_path):
    (tmp_path / "runs.csv").write_text("choice,seed,test.accuracy\na,0,0.5\na,1,0.7\nb,0,0.4\nb,1,0.5\n")
    means, ends = known(tmp_path / "runs.csv")
    # a: 60 ± 14.142; a less b: 10 and 20 points, mean 15, sd 7.071, half 12.706 * 7.071 / sqrt(2) = 63.531.
    assert any(near("60.00", mean) and near("14.14", sd) for mean, sd in means)
    assert any(near("-48.53", low) and near("78.53", high) for low, high in ends)
    assert not any(near("-48.52", low) for low, _ in ends)
