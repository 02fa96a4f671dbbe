"""The benchmark scripts, and docs/performance.md and docs/performance_operators.md, which they write."""

import dataclasses
import json
import subprocess
from pathlib import Path

import pytest
import torch
from bench_results import result, results

from cnnpool import data
from scripts.benchmarks import __main__ as benchmarks
from scripts.benchmarks import figures, front, images, memory, networks, start, train
from scripts.benchmarks import operators as page

RATIO = {"median": 2.0, "q1": 1.9, "q3": 2.1, "n": 3}


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(networks, "SIZE", 64)
    monkeypatch.setattr(networks, "BATCH", 2)


@pytest.mark.parametrize("case", networks.CASES, ids=lambda case: case.title)
def test_with_filters_of_ours_and_of_timm_a_network_answers_alike(case, small):
    pytest.importorskip("timm")
    ours, theirs = (networks.network(case, side).eval() for side in ("ours", "timm"))
    replaced = [m for m in ours.modules() if isinstance(m, networks.FILTERS)]
    assert replaced and not [m for m in theirs.modules() if isinstance(m, networks.FILTERS)]
    images, _ = networks._batch()
    with torch.no_grad():
        torch.testing.assert_close(ours(images), theirs(images), rtol=1e-4, atol=1e-5)


def test_the_first_table_takes_a_plain_script_apart_from_training():
    def results(suite, *rows, threads=1):
        machine = {"threads": threads, "date": "2026-01-01", "commit": "abc"}
        return {"suite": suite, "machine": machine, "rows": list(rows)}

    def operator(speed, **more):
        case = {"operator": "max 2/2", "layout": "contiguous", "dtype": "float32", "shape": [128, 64, 32, 32]}
        return case | {"rival": "F.max_pool2d", "speedup": RATIO | {"median": speed}} | more

    step = {"against": "as published", "ratio": RATIO | {"median": 1.04}}
    step["case"] = "ResNet-18, max_blur in place of its max pooling: training step"
    trained = {"case": "images/s, convnet, batch 128, max, 1 thread", "against": "torch's", "ratio": RATIO}
    single = {"median_ms": 8.0, "p90_ms": 9.0, "page_faults": 12.0}
    files = [
        results("kernels", trained, threads=2),
        results("pool", operator(99.0, scaling=RATIO | {"median": 1.7}), threads=2),
        results("pool", operator(14.0, over_bound=RATIO | {"median": 1.4})),
        results("pool", operator(6.0, plain=True, single={"ours": single})),
        results("networks", step),
    ]
    lines = front.table(files).splitlines()[2:]
    figures = ["**2x**", "**14x** (14 to 14, 1)", "**14x** (1.9 to 2.1, 3) | F.max_pool2d | 1.4 |", "**99x**"]
    figures += ["**1.7x**", "**6x**", "**1.04** (1.9 to 2.1, 3) of its time"]
    assert len(lines) == 7 and all(figure in line for figure, line in zip(figures, lines, strict=True))
    assert "| 1, 2026" in lines[0] and "| 2, 2026" in lines[3] and "one thread" in lines[4]
    assert "on 1 thread: ours 8.0 ms (90th percentile 9.0), 12 page faults." in front.singles(files)


def test_a_row_is_said_and_written_with_its_ratio():
    turns = [1.8, 2.2, 2.0], [1.0, 1.0, 1.0], "another"
    row = figures.row("one thing", "s", *turns, figures.Wanted(1.5))
    assert "one thing" in figures.line(row) and "[1.90 2.10] 3" in figures.line(row)
    figure = "| one thing | 2 | 1 (another) | s | **2** (1.9 to 2.1, 3) |"
    assert f"{figure} at least 1.5, reached |" in figures.table([row])
    bound = figures.row("one thing", "s", *turns)
    assert f"{figure}  |" in figures.table([bound]) and "wanted" not in bound
    assert figures.line(bound).rstrip().endswith("[1.90 2.10] 3")


def test_a_target_is_one_of_the_ratio_or_of_our_own_figure():
    for wanted, words, reached in [
        (figures.Wanted(2), "at least 2", True),
        (figures.Wanted(2.5), "at least 2.5", False),
        (figures.Wanted(1.9, most=True), "at most 1.9", False),
        (figures.Wanted(0.5, most=True, unit="s"), "at most 0.5 s", False),
        (figures.Wanted(1, most=True, unit="s"), "at most 1 s", True),
    ]:
        row = figures.row("one thing", "s", [1.0] * 3, [0.5] * 3, "another", wanted)
        assert (row["wanted"], row["reached"]) == (words, reached)


def few(case, root):
    whole = data.build("digits", val_size=0)
    part = torch.arange(case.steps * case.batch_size)
    source = dataclasses.replace(whole.source, batch_size=case.batch_size)
    return dataclasses.replace(whole, train=whole.train.take(part), source=source)


def test_a_run_and_the_bare_loop_are_timed_on_the_same_images(monkeypatch):
    monkeypatch.setattr(train, "_dataset", few)
    case = train.Case("tiny", "sprint", 2, 8, 6)
    assert min(timed(case, None) for timed in (train._speed, train._bare, train._automatic)) > 0
    row = train._batches(case, None, 3)
    assert row["rival"] > 0 and row["wanted"] == "at most 0.1 ms"


def test_a_folder_is_measured_from_memory_and_from_disk(monkeypatch):
    monkeypatch.setattr(images, "CASES", (images.Case("small", "", size=48, resize=64, batch_size=4),))
    rows = list(images.rows(8, repeat=3))
    assert len(rows) == 6 and all(row["ours"] > 0 and row["rival"] > 0 for row in rows)
    shares = [row for row in rows if not row["unit"]]
    assert len(shares) == 2 and all(row["ours"] <= 1 and row["rival"] <= 1 for row in shares)
    assert "from disk" in figures.line(rows[-1])


def test_peak_memory_is_that_of_the_whole_process_and_a_failed_run_is_said(tmp_path, monkeypatch):
    script = "b = bytearray(256 << 20); b[::4096] = b'1' * len(b[::4096])"
    monkeypatch.setattr(memory, "PROGRAM", ["-c", script])
    assert 256 < memory.peak([], tmp_path) < 256 + 1024
    monkeypatch.setattr(memory, "PROGRAM", ["-c", "raise SystemExit(3)"])
    with pytest.raises(subprocess.CalledProcessError, match="status 3"):
        memory.peak([], tmp_path)


def test_commands_are_timed_in_processes_of_their_own(monkeypatch, tmp_path, capsys):
    nothing = start.Start(["-c", ""], 0.3, rival=["-m", "cnnpool", "--version"])
    monkeypatch.setattr(start, "STARTS", {"nothing": nothing})
    out = tmp_path / "start.json"
    benchmarks.main(["start", "--repeat", "3", "--out", str(out)])
    (row,) = json.loads(out.read_text())["rows"]
    assert row["ratio"]["n"] == 3 and 0 < row["ours"] < row["rival"]
    assert "nothing" in capsys.readouterr().out
    assert "From the command to an answer" in figures.section(json.loads(out.read_text()))


@pytest.mark.parametrize(("code", "until"), [("raise SystemExit(3)", ""), ("open('said', 'w')", "said")])
def test_a_command_that_fails_or_says_nothing_is_not_timed(code, until):
    with pytest.raises(RuntimeError, match="ended with status"):
        start.seconds(["-c", code], until=until)


DOCS = Path(__file__).parents[2] / "docs"


def speedup(median, q3=None):
    return {"median": median, "q1": median, "q3": q3 or median, "n": 5}


def test_a_line_tells_how_many_cases_are_slower_and_by_how_much():
    slow = result(shape=[1, 8, 8, 8], speedup=speedup(0.8, 0.9), ms={"ours": 0.020, "rival": 0.016})
    noisy = result(shape=[1, 8, 8, 8], speedup=speedup(0.99, 1.01))
    text = page.document({"a.json": results(result(), slow, noisy), "b.json": results(result())})
    slowest = "1 take longer, by at most 4 us, down to 0.80x (max 2/2 on 1x8x8x8"
    assert f"Median of 3 cases: 1.0x; {slowest}" in text
    assert "Median of 1 cases: 4.0x; none takes longer than the rival." in text


def test_the_page_is_that_of_the_results_files():
    files = sorted((DOCS / "bench").glob("pool-*.json"))
    text = page.document({path.name: json.loads(path.read_text()) for path in files})
    assert (DOCS / "performance_operators.md").read_text() == text, "run scripts/docs/performance.py"
