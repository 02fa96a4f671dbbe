"""The suite of pooling operators, from the command to the page."""

import json

import pytest

from cnnpool.bench import machine, main, page, pool, targets
from cnnpool.bench.rivals import DUELS


def result(**changes):
    speedup = {"median": 4.0, "q1": 3.5, "q3": 4.5, "n": 5}
    row = {
        "operator": "max 2/2",
        "shape": targets.LARGE,
        "layout": "contiguous",
        "dtype": "float32",
        "rival": "F.max_pool2d",
        "ms": {"ours": 0.5, "rival": 2.0, "copy": 0.25},
        "speedup": speedup,
        "over_bound": {**speedup, "median": 2.0},
        "kept": {"ours": 2_000_000, "rival": 16_000_000},
    }
    return {**row, **changes}


def results(*rows, threads=1):
    facts = {"processor": "some chip", "threads": threads, "cores": 2, "load": 0.1, "torch": "2.9"}
    facts |= {"date": "2026-01-01", "commit": "abc"}
    return {"suite": "pool", "command": "cnnpool bench", "machine": facts, "rows": list(rows)}


@pytest.mark.parametrize("operator", DUELS)
def test_every_operator_is_measured_beside_its_rival_and_agrees_with_it(operator):
    duel = DUELS[operator]
    try:
        duel.theirs(2)
    except ImportError:
        pytest.skip(f"{duel.rival} is not installed")
    case = pool.Case(operator, (2, 2, 8, 8), "float32", "channels_last")
    row = pool.measure(case, 3)
    assert row["ms"].keys() == {"ours", "rival", "copy"} and row["speedup"]["n"] == 3
    assert row["rival"] == duel.rival


@pytest.mark.parametrize(("operator", "factor"), [("max 2/2", 1.01), ("stochastic", 1.4)])
def test_an_operator_that_disagrees_with_its_rival_is_not_measured(monkeypatch, operator, factor):
    right = DUELS[operator].ours(8)
    wrong = DUELS[operator]._replace(ours=lambda c: lambda x: factor * right(x))
    monkeypatch.setitem(DUELS, operator, wrong)
    with pytest.raises(AssertionError, match=operator):
        pool.measure(pool.Case(operator, (2, 8, 32, 32), "float32", "contiguous"), 3)


def test_a_rival_that_is_not_installed_is_said_to_be_missing(monkeypatch):
    def absent(channels):
        raise ImportError("No module named 'rival'")

    monkeypatch.setitem(DUELS, "max 2/2", DUELS["max 2/2"]._replace(theirs=absent))
    row = pool.measure(pool.Case("max 2/2", (2, 2, 8, 8), "float32", "contiguous"), 3)
    assert row["missing"] == "No module named 'rival'" and "ms" not in row
    assert "not installed" in page.document([results(row)]) and page.line(row)


def test_command_writes_what_it_measured(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(pool.SHAPES, "small", [(1, 2, 6, 6)])
    monkeypatch.setattr(machine, "prepare", lambda threads: None)
    out = tmp_path / "max.json"
    arguments = ["pool", "--only", "max", "--shapes", "small", "--repeat", "3", "--out", str(out)]
    assert main(arguments) == 0
    written = json.loads(out.read_text(encoding="utf-8"))
    assert written["suite"] == "pool" and written["command"].endswith(f"--repeat 3 --out {out}")
    cases = [(row["operator"], row["layout"], row["dtype"]) for row in written["rows"]]
    assert len(cases) == len(set(cases)) == 8, "two windows, layouts and types"
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 1 + 8 + 1 and "F.max_pool2d" in page.document([written])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "maxx"], "no operator 'maxx'"),
        (["--threads", "0"], "--threads"),
        (["--repeat", "2"], "--repeat 3"),
        (["--out", "nowhere/results.json"], "no such folder"),
    ],
)
def test_mistakes_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        main(arguments)


def test_page_tells_of_targets_and_of_what_is_slower():
    slow = result(shape=[1, 8, 8, 8], speedup={"median": 0.8, "q1": 0.7, "q3": 0.9, "n": 5})
    slow["ms"] = {"ours": 0.020, "rival": 0.016, "copy": 0.001}
    text = page.document([results(result(), slow), results(result(), threads=2)])
    assert "| max 2/2 | contiguous | float32 | 8x | 4.0x | 4.0x |" in text
    assert "In 1 of 2 cases ours takes longer than the rival, by at most 4 us: down to 0.80x" in text
    assert "In none of 1 cases" in text and "2 threads, some chip" in text
    assert "| **4.00x** (3.50 to 4.50, 5) | 2.0x | 2.0 MB | 16.0 MB |" in text


def test_files_of_as_many_threads_share_a_column_of_targets():
    other = result(operator="lp p=3", speedup={"median": 7.0, "q1": 6.5, "q3": 7.5, "n": 5})
    said = targets.table([results(result()), results(other)])
    assert said.count("1 thread") == 1
    assert "| max 2/2 | contiguous | float32 | 8x | 4.0x |" in said
    assert "| lp p=3 | contiguous | float32 | 6x | 7.0x |" in said


def test_a_row_within_noise_is_not_called_slower():
    noisy = result(speedup={"median": 0.99, "q1": 0.9, "q3": 1.01, "n": 5})
    assert targets.slower(results(noisy)) == []


def test_a_target_is_excused_only_where_it_is_missed():
    target = next(target for target in targets.TARGETS if target.because)
    case = {"operator": target.operator, "layout": target.layout, "dtype": target.dtype}
    for median, excused in ((target.times + 1, False), (target.times - 1, True)):
        row = result(**case, speedup={"median": median, "q1": 1.0, "q3": 9.0, "n": 5})
        assert (target.because in targets.table([results(row)])) == excused
