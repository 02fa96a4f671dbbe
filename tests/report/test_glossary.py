import csv
import runpy
from pathlib import Path

import pytest

from cnnpool.probe import declared
from cnnpool.probe.consistency import PRESETS
from cnnpool.report import find, main
from cnnpool.report.comparison import compare
from cnnpool.report.document import glossary
from cnnpool.report.plots import draw
from cnnpool.report.plots.learning_curve import history
from cnnpool.report.plots.stages import spreads

ROOT = Path(__file__).parents[2]


def drawn(comparison):
    histories = {row.choice.label: history(list(row.choice.runs.values())) for row in comparison.rows}
    return list(draw(comparison, histories))


def test_the_page_is_what_the_script_writes():
    page = runpy.run_path(str(ROOT / "scripts" / "docs" / "glossary.py"))["glossary"]()
    assert (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8") == page
    for one in declared():
        key = [("<preset>" if part in PRESETS else part) for part in one.key.split(".")]
        assert f"`{'.'.join(key)}`" in page
    assert all(f"| `{name}` | {preset.source} |" in page for name, preset in PRESETS.items())


def test_everything_that_a_table_shows_is_defined_under_it(shelf):
    shelf.sweep(max=[0.9, 0.91], avg=[0.8, 0.81])
    comparison = compare(find([shelf.root]))
    words = dict(glossary(comparison))
    for one in (comparison.metric, *comparison.measures):
        assert words[one.quantity.title.replace("<px>", "d")].startswith(one.quantity.definition)
    assert words["test accuracy"].endswith("Higher is better.")
    assert "relative change at d px" in words and "<" not in "".join(words)
    assert main([str(shelf.root)]) == 0
    page = (shelf.root / "report" / "report.html").read_text()
    assert "Glossary" in page and words["FLOPs"] in page


def test_the_numbers_of_every_run_are_written(shelf):
    shelf.sweep(max=[0.9, 0.91], avg=[0.8])
    shelf.put(pool="avg", seed=1, test={})
    assert main([str(shelf.root)]) == 0
    with (shelf.root / "report" / "runs.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["choice"], row["seed"], row["test.accuracy"]) for row in rows] == [
        ("max", "0", "0.9"),
        ("max", "1", "0.91"),
        ("avg", "0", "0.8"),
        ("avg", "1", ""),
    ]
    assert rows[0]["gradient.*.zero_fraction"] == "0.75"


@pytest.mark.parametrize("values", [[0.0, 0.3], [0.9, 1.0]])
def test_no_interval_leaves_the_possible_values(shelf, values):
    for seed, value in enumerate(values):
        shelf.put(seed=seed, accuracy=value, gradient={"s1": {"zero_fraction": value}})
    comparison = compare(find([shelf.root]), metric="gradient.*.zero_fraction")
    one, summary = comparison.metric, comparison.rows[0].summary
    assert summary.low < 0 or summary.high > 1
    assert 0 <= one.within(summary.low) <= one.within(summary.high) <= 1
    [band] = spreads(comparison, ["gradient.s1.zero_fraction"]).values()
    _, low, high = band[:, 0]
    assert 0 <= low <= high <= 100
