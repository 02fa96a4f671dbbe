"""docs/performance_operators.md: the table, and a line for each results file."""

import json
from pathlib import Path

from bench_results import result, results

from scripts.benchmarks import operators as page

DOCS = Path(__file__).parents[2] / "docs"


def speedup(median, q3=None):
    return {"median": median, "q1": median, "q3": q3 or median, "n": 5}


def test_a_line_tells_how_many_cases_are_slower_and_by_how_much():
    slow = result(shape=[1, 8, 8, 8], speedup=speedup(0.8, 0.9), ms={"ours": 0.020, "rival": 0.016})
    noisy = result(shape=[1, 8, 8, 8], speedup=speedup(0.99, 1.01))
    text = page.document({"a.json": results(result(), slow, noisy), "b.json": results(result())})
    assert (
        "Median of 3 cases: 1.0x; 1 take longer, by at most 4 us, down to 0.80x (max 2/2 on 1x8x8x8" in text
    )
    assert "Median of 1 cases: 4.0x; none takes longer than the rival." in text


def test_the_page_is_that_of_the_results_files():
    files = sorted((DOCS / "bench").glob("pool-*.json"))
    text = page.document({path.name: json.loads(path.read_text()) for path in files})
    assert (DOCS / "performance_operators.md").read_text() == text, "run scripts/docs/performance.py"
