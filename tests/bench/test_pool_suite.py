"""The suite of pooling operators, from the command to the text."""

import json

import pytest
import torch
from bench_results import result

from cnnpool import bench
from cnnpool.bench import header, line, main, measure, pool
from cnnpool.bench.pool import DUELS
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


def test_the_step_of_a_learnt_power_takes_its_gradient_too(monkeypatch):
    wanted = []
    monkeypatch.setattr(torch.autograd, "grad", lambda outputs, inputs, grad: wanted.append(len(inputs)))
    x = torch.rand(1, 2, 4, 4)
    for name in ("gem learnt", "gem p=3"):
        ours = DUELS[name].ours(2)
        learnt = [ours.power(x.device)] if isinstance(ours, pool.Learnt) else []
        pool._step(ours, learnt, x)()
    assert wanted == [2, 1]


def test_mistakes_are_named():
    for arguments, message in (
        (["--only", "maxx"], "no operator 'maxx'"),
        (["--threads", "0"], "--threads"),
        (["--repeat", "2"], "--repeat 3, got --repeat 2$"),
        (["--out", "nowhere/results.json"], "no such folder"),
        (["--out", "/dev/null"], "--out /dev/null: not a file"),
        (["--device", "meta"], "--device meta: choose cpu, cuda or cuda:N"),
        (["--device", "cuda:99"], "--device cuda:99: .*; choose from cpu"),
        (["train"], "invalid choice: .train. .choose from .pool"),
    ):
        with pytest.raises(ValueError, match=message) as error:
            main(arguments)
        assert "\n" not in str(error.value)


def test_a_line_of_the_terminal_says_what_is_replayed_on_a_gpu():
    again = result(replayed={"speedup": {"median": 1.25}})
    for gpu, row, ends in (
        (False, result(), ("rival keeps", "16.0 MB")),
        (True, again, ("replayed", "1.25x")),
    ):
        head, shown = header(gpu), line(row)
        assert head.endswith(f"{ends[0]}\n") and shown.endswith(f"{ends[1]}\n") and len(head) == len(shown)
    assert line(result(replayed=None)).endswith("         -\n")


needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def test_a_row_says_why_nothing_was_replayed(monkeypatch):
    def replays(steps):
        raise RuntimeError("rival: it waits")

    monkeypatch.setattr(pool, "replays", replays)
    row = pool._replayed({}, 3, torch.device("cuda"))
    assert row == {"replayed": None, "not_replayed": "rival: it waits"}


@needs_gpu
@pytest.mark.parametrize("operator", ["max 2/2", "gem learnt", "stochastic"])
def test_operators_of_a_gpu_are_replayed(operator):
    row = pool.measure(pool.Case(operator, (2, 8, 16, 16), "float32", "contiguous"), 3, torch.device("cuda"))
    assert row["replayed"]["ms"].keys() == {"ours", "rival", "copy"}
    assert 0 < row["replayed"]["ms"]["ours"] < row["ms"]["ours"]


@needs_gpu
def test_after_a_failed_recording_a_gpu_still_draws_and_records():
    x = torch.ones(8, device="cuda", requires_grad=True)
    with pytest.raises(RuntimeError, match="waits: "):
        measure.replays({"waits": lambda: x.sum().item()})
    assert torch.rand(8, device="cuda").sum() > 0
    assert torch.cuda.current_stream() == torch.cuda.default_stream()
    total = torch.zeros(1, device="cuda")
    measure.replays({"adds": lambda: total.add_(torch.autograd.grad((2 * x).sum(), x)[0].sum())})["adds"]()
    assert total.item() == 16 * (measure.WARM_UP + measure.STEPS)
