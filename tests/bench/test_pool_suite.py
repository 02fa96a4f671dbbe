"""The suite of pooling operators, from the command to the text."""

import json

import pytest
import torch
from bench_results import result

from cnnpool import bench
from cnnpool.bench import main, measure, pool
from cnnpool.bench.results import header, line
from cnnpool.bench.rivals import DUELS
from scripts.benchmarks.operators import document


def test_every_operator_is_measured_beside_its_rival_and_agrees_with_it():
    for operator, duel in DUELS.items():
        row = pool.measure(pool.Case(operator, (2, 2, 8, 8), "float32", "channels_last"), 3)
        assert row["rival"] == duel.rival
        if "missing" not in row:
            assert row["ms"].keys() == {"ours", "rival", "copy"} and row["speedup"]["n"] == 3


def test_a_compiled_rival_is_measured_with_its_backward_pass():
    row = pool.measure(pool.Case("blur 3/2", (2, 2, 8, 8), "float32", "contiguous"), 3, rival="compile")
    assert row["rival"].endswith(", torch.compile")
    assert row["ms"].keys() == {"ours", "rival", "copy"} and "forward" not in row


@pytest.mark.parametrize(("operator", "factor"), [("max 2/2", 1.01), ("stochastic", 1.4)])
def test_an_operator_that_disagrees_with_its_rival_is_not_measured(monkeypatch, operator, factor):
    right = DUELS[operator].ours(8)
    wrong = DUELS[operator]._replace(ours=lambda c: lambda x: factor * right(x))
    monkeypatch.setitem(DUELS, operator, wrong)
    with pytest.raises(AssertionError, match=operator):
        pool.measure(pool.Case(operator, (2, 8, 32, 32), "float32", "contiguous"), 3)


@pytest.mark.parametrize("threads", [1, 2])
def test_two_threads_are_measured_beside_one(threads):
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        row = pool.measure(pool.Case("max 2/2", (2, 2, 8, 8), "float32", "contiguous"), 3)
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert ("scaling" in row) == (threads > 1)
    assert row["single"].keys() == {"ours", "rival"} and row["ms"].keys() >= {"ours", "rival", "copy"}


def test_a_missing_rival_is_one_line_of_the_terminal(monkeypatch, capsys):
    def absent(channels):
        raise ImportError("No module named 'theirs'")

    monkeypatch.setitem(DUELS, "max 2/2", DUELS["max 2/2"]._replace(theirs=absent))
    as_it_is(monkeypatch)
    main(["pool", "--only", "max 2/2", "--shapes", "small"])
    assert capsys.readouterr().out.splitlines()[1:] == ["max 2/2: not measured: No module named 'theirs'"]


def as_it_is(monkeypatch):
    """Leave this process as it is, and note what a benchmark would have set."""
    settings = []
    monkeypatch.setattr(bench, "share_cores", lambda: settings.append("idle threads sleep"))
    monkeypatch.setattr(measure, "keep_memory", lambda: settings.append("freed memory stays"))
    monkeypatch.setattr(torch, "set_num_threads", lambda n: None)
    return settings


def test_command_writes_what_it_measured(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(pool.SHAPES["cpu"], "small", [(1, 2, 6, 6)])
    settings = as_it_is(monkeypatch)
    out = tmp_path / "max.json"
    arguments = ["pool", "--only", "max", "--shapes", "small", "--repeat", "3", "--out", str(out)]
    assert main(arguments) == 0
    written = json.loads(out.read_text(encoding="utf-8"))
    assert not written["machine"].keys() & {"gpu", "cuda", "triton"}
    assert written["suite"] == "pool" and written["command"].endswith(f"--repeat 3 --out {out}")
    cases = [(row["operator"], row["layout"], row["dtype"]) for row in written["rows"]]
    assert len(cases) == len(set(cases)) == 8, "two windows, layouts and types"
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 1 + 8 + 1 and "of 8 cases: " in document({"max.json": written})
    assert settings == ["idle threads sleep", "freed memory stays"]
    assert main([*arguments, "--plain"]) == 0
    written = json.loads(out.read_text(encoding="utf-8"))
    assert settings[2:] == [] and all(row["plain"] for row in written["rows"])
    assert ", plain script; `" in document({"max.json": written})


def test_what_is_stopped_has_written_what_it_measured(tmp_path, monkeypatch):
    def measure(case, *_):
        if case.layout == "channels_last":
            raise KeyboardInterrupt
        return {**case._asdict(), "rival": "none", "missing": "it"}

    monkeypatch.setattr(pool, "measure", measure)
    as_it_is(monkeypatch)
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
        (["--device", "meta"], "--device meta: choose cpu, cuda or cuda:N"),
        (["--device", "cuda:99"], "--device cuda:99: .*; choose from cpu"),
        (["train"], "invalid choice: .train. .choose from .pool"),
    ],
)
def test_mistakes_are_named(arguments, message):
    with pytest.raises(ValueError, match=message) as error:
        main(arguments)
    assert "\n" not in str(error.value)


def test_facts_name_the_gpu_that_was_used(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"some GPU, {device}")
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    facts = measure.facts(torch.device("cuda:1"))
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


def test_a_line_of_the_terminal_says_what_is_replayed_on_a_gpu():
    again = result(replayed={"speedup": {"median": 1.25}})
    for gpu, row, ends in (
        (False, result(), ("rival keeps", "16.0 MB")),
        (True, again, ("replayed", "1.25x")),
    ):
        head, shown = header(gpu), line(row)
        assert head.endswith(f"{ends[0]}\n") and shown.endswith(f"{ends[1]}\n") and len(head) == len(shown)
    assert line(result(replayed=None)).endswith("         -\n")
