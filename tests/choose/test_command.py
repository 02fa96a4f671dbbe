import json
import math
from functools import partial
from pathlib import Path

import pytest
from short_studies import shared_jobs_of

from cnnpool import cli, data
from cnnpool.choose import candidates, command
from cnnpool.choose.drive import Clock, Driver
from cnnpool.choose.ledger import held, opened
from cnnpool.choose.options import parse

QUICK = [
    "data=digits", "data.limit=640", "data.batch_size=16", "model.width=4", "fit.epochs=1",
    "fit.progress=false", "choose.pools=max,avg", "choose.rounds=3", "choose.margin=0.9", "choose.out=study",
]  # fmt: skip


@pytest.fixture
def call(capfd):
    def run(*arguments):
        with pytest.raises(SystemExit) as stop:
            cli.main(["choose", *arguments])
        out, err = capfd.readouterr()
        return stop.value.code or 0, out, err

    return run


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["choose=few"], "choose=few: expected choose.KEY=VALUE"),
        (["data.val_size=0", "choose.tune=fit.lr:[0.1,0.2]"], "choose.tune needs validation images"),
        (["choose.tune=fit.lr:[0.1,x]"], "error: choose.tune with max: fit.lr must be a number"),
        (["probe=none", "choose.metric=consistency"], "consistency needs the probe of invariance"),
        (["choose.metric=balanced_accuracy"], "the runs do not measure it; did you mean 'val.accuracy'?"),
        (["fit.lr=x"], "error: fit.lr must be a number above 0 and finite, got 'x'"),
        (["budget=30s"], "error: budget=30s: did you mean choose.budget?"),
        (["data.val_size=5000"], "error: data.val_size=5000 of 1437 training images leaves none"),
        (["choose.metric=acc"], "choose.metric=acc: the runs do not measure it; did you mean 'accuracy'?"),
        (["choose.metric=cost.load"], "load by others has no better direction, so it cannot decide"),
        (["probe=none", "choose.limit=1.5"], "choose.limit=1.5 needs a probe of FLOPs, or choose.cost=time"),
        (["choose.cost=test.accuracy"], "choose.cost=test.accuracy: a low test accuracy is not better"),
    ],
)
def test_a_mistake_is_one_line_with_status_2_and_leaves_nothing(call, in_a_folder, arguments, said):
    status, out, err = call("data=digits", "choose.out=study", "choose.pools=max,avg", *arguments)
    assert (status, out) == (2, "")
    assert err.startswith("error: ") and err.count("\n") == 1 and said in err
    assert not list(in_a_folder.iterdir())


WRONG = [{"rounds": 2.5}, {"rounds": 10**9}, {"spent_s": math.nan}, {"spent_s": -1e6}, {"sessions": None}]


def test_a_damaged_ledger_is_refused_with_a_remedy(in_a_folder):
    opened(in_a_folder, {})
    path = in_a_folder / "study.json"
    whole = json.loads(path.read_text())
    altered = [*(whole | change for change in WRONG), [], {}]
    for content in ["", *map(json.dumps, altered)]:
        path.write_text(content)
        with pytest.raises(ValueError, match=r"study\.json is damaged: delete it to continue"):
            opened(in_a_folder, {})


def test_a_study_in_use_is_left_as_it_is(call, in_a_folder):
    folder = in_a_folder / "study"
    with held(folder):
        status, _, err = call(*QUICK)
    assert status == 2 and err.count("\n") == 1 and "study is in use by another cnnpool choose" in err
    assert [path.name for path in folder.iterdir()] == [".lock"]


@pytest.fixture
def studied(call, bench, monkeypatch):
    """A function that runs the command with runs that cost no training: its status and output."""

    def run(runs, *arguments):
        monkeypatch.setattr(command, "Driver", partial(Driver, run=runs))
        return call("data=digits", "choose.out=study", *arguments)

    return run


def alike(pool, seed, settings):
    return 0.9 + 0.0001 * math.sin(seed + len(pool))


def test_a_cost_that_was_measured_decides_among_the_best_and_nothing_is_said_of_others(studied, bench):
    arguments = ["choose.pools=strided,avg", "choose.margin=0.05"]
    status, out, _ = studied(bench(alike, flops=None), "probe=none", "choose.out=other", *arguments)
    assert status == 0 and "Recommended: " in out and "FLOPs is not known" in out
    assert "it has the best mean" in out and "least FLOPs" not in out
    status, out, _ = studied(bench(alike), *arguments)
    assert status == 0
    assert "Recommended: avg. Of 2 candidates left, avg is shown to lose less than 5.00 points" in out
    assert "strided has the highest mean. Of those for which this is shown, it takes the least FLOPs" in out


def test_a_candidate_over_the_limit_is_out(studied, bench):
    arguments = ["choose.pools=max,avg,strided", "choose.limit=1.5", "choose.margin=0.05"]
    runs = bench(alike)
    status, out, _ = studied(runs, *arguments)
    assert [seed for pool, seed in runs.ran if pool == "strided"] == [0]
    assert status == 0 and "out: over the limit: 2.00 times the FLOPs of the cheapest candidate" in out


def test_without_a_winner_the_command_says_what_is_missing_and_what_to_type(studied, bench, monkeypatch):
    def scattered(pool, seed, settings):
        return 0.9 + 0.01 * math.sin(5 * seed * ord(pool[0]))

    runs = bench(scattered)
    monkeypatch.setattr("cnnpool.choose.drive.fits", lambda study, number: len(runs.ran) < 8)
    status, out, _ = studied(runs, "choose.pools=max,avg", "choose.budget=30min")
    assert status == 0 and "No candidate is shown to be the best. If you must choose: " in out
    assert "rounds in all, if means and spread do not change. Raise choose.budget" in out
    assert "to continue from here, to at most the 50 rounds planned at its start, or choose a larger" in out
    (line,) = (line for line in out.splitlines() if line.startswith("next: "))
    assert "choose data=digits choose.out=study choose.pools=max,avg choose.budget=31min" in line


def test_few_validation_images_are_warned_of(studied, bench):
    limit = ["data.val_size=50", "choose.pools=max,avg", "choose.margin=0.05"]
    _, _, err = studied(bench(alike), *limit)
    assert err.startswith("warning: ") and err.count("\n") == 1
    assert "validation images decide: one of them is " in err and "raise data.val_size" in err
    assert "validation images decide" in Path("study/choose.md").read_text()
    _, _, err = studied(
        bench(alike), "data.limit=300", "fit.max_steps=99", "choose.pools=max,avg", "choose.out=other"
    )
    assert "warning: a run takes 10 training steps, in batches of 128: networks may learn little in" in err


def test_the_network_is_composed_twice_and_each_candidate_once(monkeypatch):
    asked = []
    monkeypatch.setattr(candidates, "jobs_of", lambda one: asked.append(one) or shared_jobs_of(one))
    command.prepare(parse(["choose.pools=max,avg,strided"]), candidates.Network(("data=digits",)))
    assert len(asked) == 2 + 3


def test_images_are_read_before_the_budget_is_counted(studied, bench, monkeypatch):
    happened, build = [], data.build

    class Counted(Clock):
        def __enter__(self):
            happened.append("clock")
            return super().__enter__()

    monkeypatch.setattr(
        data, "build", lambda *args, **options: happened.append("read") or build(*args, **options)
    )
    monkeypatch.setattr(command, "Clock", Counted)
    studied(bench(alike), "choose.pools=max,avg", "choose.margin=0.05")
    assert happened == ["read", "clock"]


@pytest.mark.slow
def test_a_study_of_digits_ends_with_a_report_and_goes_on_where_it_was(call, in_a_folder):
    status, out, err = call(*QUICK)
    assert (status, err) == (0, "")
    assert "round 3: 2 of 2 candidates left" in out and "Recommended: " in out
    text = (in_a_folder / "study" / "choose.md").read_text()
    assert "cnnpool choose data=digits data.limit=640" in text
    runs = sorted((in_a_folder / "study" / "runs").rglob("results.json"))
    assert len(runs) == 6
    before = [path.stat().st_mtime_ns for path in runs]
    status, again, _ = call(*QUICK, "launch=processes")
    assert status == 0 and [path.stat().st_mtime_ns for path in runs] == before
    assert (
        out.partition("Recommended")[2].splitlines()[0] == again.partition("Recommended")[2].splitlines()[0]
    )
    assert json.loads((in_a_folder / "study" / "study.json").read_text())["sessions"] == 2
    status, _, err = call(*QUICK, "fit.epochs=2")
    assert status == 2 and "another design (fit.epochs: 1 -> 2)" in err
