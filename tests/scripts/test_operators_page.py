"""docs/performance_operators.md: the table, and a line for each results file."""

import json
from pathlib import Path

from bench_results import result, results

from scripts.benchmarks import operators as page

DOCS = Path(__file__).parents[2] / "docs"


def speedup(median, q3=None):
    return {"median": median, "q1": median, "q3": q3 or median, "n": 5}


def test_a_row_holds_every_layout_and_dtype_by_threads():
    two = results(result(speedup=speedup(7.0)), result(dtype="bfloat16", speedup=speedup(9.0)), threads=2)
    text = page.document({"pool-1.json": results(result()), "pool-2.json": two})
    assert "| max 2/2 | F.max\\_pool2d | 4.0x / 7.0x | – / 9.0x | – / – | – / – | 2.0 MB | 16.0 MB |" in text
    assert "1 thread, some chip; `cnnpool bench`" in text and "2 threads, some chip" in text


def test_other_runtimes_and_settings_have_a_line_and_no_cell():
    files = {
        "pool-1.json": results(result()),
        "pool-compile.json": results(result(rival="F.max_pool2d, torch.compile", speedup=speedup(2.0))),
        "pool-plain.json": results(result(plain=True, speedup=speedup(3.0))),
    }
    text = page.document(files)
    table, lines = text.split("## The results files")
    assert "| 4.0x |" in table and "2.0x" not in table and "3.0x" not in table
    assert "some chip, against torch.compile; " in lines and "some chip, plain script; " in lines


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
