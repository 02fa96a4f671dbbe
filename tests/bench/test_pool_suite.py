"""The suite of pooling operators, from the command to the page."""

import json

import pytest
import torch

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
    monkeypatch.setitem(pool.SHAPES["cpu"], "small", [(1, 2, 6, 6)])
    monkeypatch.setattr(machine, "prepare", lambda threads, device: torch.device(device))
    out = tmp_path / "max.json"
    arguments = ["pool", "--only", "max", "--shapes", "small", "--repeat", "3", "--out", str(out)]
    assert main(arguments) == 0
    written = json.loads(out.read_text(encoding="utf-8"))
    assert not written["machine"].keys() & {"gpu", "cuda", "triton"}
    assert written["suite"] == "pool" and written["command"].endswith(f"--repeat 3 --out {out}")
    cases = [(row["operator"], row["layout"], row["dtype"]) for row in written["rows"]]
    assert len(cases) == len(set(cases)) == 8, "two windows, layouts and types"
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 1 + 8 + 1 and "F.max_pool2d" in page.document([written])


def test_what_is_stopped_has_written_what_it_measured(tmp_path, monkeypatch):
    def measure(case, *_):
        if case.layout == "channels_last":
            raise KeyboardInterrupt
        return {**case._asdict(), "rival": "none", "missing": "it"}

    monkeypatch.setattr(pool, "measure", measure)
    monkeypatch.setattr(machine, "prepare", lambda threads, device: torch.device(device))
    out = tmp_path / "max.json"
    with pytest.raises(KeyboardInterrupt):
        main(["pool", "--only", "max", "--shapes", "small", "--out", str(out)])
    assert len(json.loads(out.read_text(encoding="utf-8"))["rows"]) == 2, "one map in two types"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "maxx"], "no operator 'maxx'"),
        (["--threads", "0"], "--threads"),
        (["--repeat", "2"], "--repeat 3"),
        (["--out", "nowhere/results.json"], "no such folder"),
        (["--out", "/dev/null"], "--out /dev/null: not a file"),
        (["--device", "tpu"], "--device tpu: choose cpu, cuda or cuda:N"),
        (["--device", "meta"], "--device meta: choose cpu, cuda or cuda:N"),
        (["--device", "cuda:99"], "--device cuda:99: .*; choose from cpu"),
        (["train", "--device", "cuda"], "--device cuda: the suite train is for the CPU"),
    ],
)
def test_mistakes_are_named(arguments, message):
    with pytest.raises(ValueError, match=message) as error:
        main(arguments)
    assert "\n" not in str(error.value)


def test_maps_of_a_gpu_are_larger():
    def shapes(name):
        return list(dict.fromkeys(case.shape for case in pool.cases(name, ["max"], torch.device("cuda:1"))))

    assert shapes("small") == [(1, 8, 8, 8), (128, 64, 32, 32)]
    assert shapes("default") == [*shapes("small"), (64, 64, 112, 112), (128, 256, 28, 28)]
    assert shapes("all") == [*shapes("default"), (32, 16, 14, 14), (256, 512, 8, 8), (8, 96, 55, 57)]


def test_facts_name_the_gpu_that_was_used(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"some GPU, {device}")
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    facts = machine.facts(torch.device("cuda:1"))
    assert (facts["gpu"], facts["cuda"]) == ("some GPU, cuda:1", "12.8")
    assert {"triton", "torch", "processor", "commit"} <= facts.keys()


@pytest.mark.parametrize("side", ["ours", "theirs"])
def test_a_learnt_power_is_made_once_where_the_map_is(monkeypatch, side):
    made, full = [], torch.full
    monkeypatch.setattr(torch, "full", lambda *a, **o: made.append(o["device"].type) or full(*a, **o))
    function, x = getattr(DUELS["gem learnt"], side)(2), torch.rand(1, 2, 4, 4)
    assert function(x).requires_grad, "by the power alone"
    function(x)
    assert function(x.to("meta")).device.type == "meta" and made == ["cpu", "meta"]


def gpu_results(*rows):
    made = results(*rows)
    made["machine"] |= {"gpu": "NVIDIA H100", "cuda": "12.8", "triton": "3.6.0"}
    return made


def test_operators_on_a_gpu_have_sections_of_their_own():
    again = {"median": 1.25, "q1": 1.2, "q3": 1.3, "n": 5}
    replayed = {"ms": {"ours": 0.4, "rival": 0.5, "copy": 0.2}, "speedup": again}
    replayed["over_bound"] = {**again, "median": 1.5}
    slow = {**replayed, "ms": {"ours": 0.0075, "rival": 0.005, "copy": 0.002}}
    slow["speedup"] = {"median": 0.67, "q1": 0.6, "q3": 0.7, "n": 5}
    rows = result(replayed=replayed), result(operator="lp p=3", replayed=slow)
    failed = result(operator="stochastic", rival="F", replayed=None, not_replayed="rival: it waits")
    absent = {key: rows[0][key] for key in ("operator", "shape", "layout", "rival")}
    absent |= {"dtype": "bfloat16", "missing": "No module"}
    text = page.document([gpu_results(*rows, failed, absent), results(result())])
    of_cpu, of_gpu = text.split("## Operators, NVIDIA H100\n")
    assert "## Operators, 1 thread, some chip" in of_cpu and "over bound" in of_cpu
    assert "torch 2.9, cuda 12.8, triton 3.6.0; 1 thread, some chip, 2 cores" in of_gpu
    assert "*Replayed*: a CUDA graph of the\nsame step" in of_gpu
    assert "In none of 3 cases" in of_gpu
    assert (
        "Replayed: In 1 of 2 cases ours takes longer than the rival, by at most 2.5 us: down to 0.67x"
        in of_gpu
    )
    assert "| rival, ms | faster (quartiles, n) | replayed faster | replayed over bound | kept |" in of_gpu
    case = "| 128x64x32x32 | contiguous | float32 | 0.5 | 2 | **4.00x** (3.50 to 4.50, 5)"
    assert f"{case} | 1.25x | 1.50x | 2.0 MB | 16.0 MB |" in of_gpu
    assert f"{case} | - | - | 2.0 MB | 16.0 MB |\n\nNot replayed: rival: it waits\n" in of_gpu
    assert "| 128x64x32x32 | contiguous | bfloat16 | - | not installed |" in of_gpu
    assert page.SLOWER not in of_gpu


def test_targets_are_those_of_the_cpu():
    fast = result(speedup={"median": 90.0, "q1": 80.0, "q3": 99.0, "n": 5}, replayed=None)
    text = page.document([gpu_results(fast), results(result())])
    assert "| max 2/2 | contiguous | float32 | 8x | 4.0x |" in text
    assert "90.0x" not in text and "**90.00x**" in text


@pytest.mark.parametrize("gpu", [False, True])
def test_a_line_of_the_terminal_says_what_is_replayed_on_a_gpu(gpu):
    again = {"speedup": {"median": 1.25}}
    row = result(replayed=again) if gpu else result()
    ends = ("replayed", "1.25x") if gpu else ("rival keeps", "16.0 MB")
    head, line = page.header(gpu), page.line(row)
    assert head.endswith(f"{ends[0]}\n") and line.endswith(f"{ends[1]}\n") and len(head) == len(line)
    if gpu:
        assert page.line(result(replayed=None)).endswith("         -\n")


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
    assert targets.slower([noisy]) == []


def test_a_target_is_excused_only_where_it_is_missed():
    target = next(target for target in targets.TARGETS if target.because)
    case = {"operator": target.operator, "layout": target.layout, "dtype": target.dtype}
    for median, excused in ((target.times + 1, False), (target.times - 1, True)):
        row = result(**case, speedup={"median": median, "q1": 1.0, "q3": 9.0, "n": 5})
        assert (target.because in targets.table([results(row)])) == excused
