import json

import pytest

from cnnpool import cli
from cnnpool.choose.ledger import Ledger, held, opened

QUICK = [
    "data=digits", "data.limit=64", "model.width=2", "fit.epochs=1", "fit.progress=false",
    "choose.pools=max,avg", "choose.rounds=3", "choose.margin=0.9", "choose.out=study",
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
        (["choose.pools=max"], "choose.pools must be a list, each a text, at least 2 of them"),
        (["choose.pools=max,maxx"], "choose.pools=maxx: no pool/maxx; did you mean 'max'?"),
        (["choose.margin=5"], "choose.margin must be a number from 0 to 1, got 5"),
        (["choose.budget=2"], "choose.budget=2 is not a length of time"),
        (["choose=nosuch"], "choose=nosuch: no such file in conf/choose; choose from default"),
        (["data=nosuch"], "no data/nosuch"),
        (["data.val_size=0", "choose.tune=fit.lr:[0.1,0.2]"], "choose.tune needs validation images"),
        (
            ["probe=none", "choose.metric=consistency"],
            "choose.metric=consistency needs the probe of invariance",
        ),
        (["fit.epochs=0"], "fit.epochs must be a whole number from 1"),
        (["--budget=1h"], "unrecognized arguments: --budget=1h"),
    ],
)
def test_a_mistake_is_one_line_with_status_2_and_leaves_nothing(call, in_a_folder, arguments, said):
    status, out, err = call("data=digits", "choose.out=study", *arguments)
    assert (status, out) == (2, "")
    assert err.startswith("error: ") and err.count("\n") == 1 and said in err
    assert not list(in_a_folder.iterdir())


def test_help_needs_no_heavy_import(call):
    status, out, _ = call("--help")
    assert status == 0 and "choose.budget=2h" in out


def test_another_design_in_the_same_folder_is_refused(in_a_folder):
    opened(in_a_folder / "study", {"pools": ["max", "avg"], "margin": 0.1})
    with pytest.raises(ValueError, match=r"another design \(margin: 0.1 -> 0.2\): name another folder by"):
        opened(in_a_folder / "study", {"pools": ["max", "avg"], "margin": 0.2})


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"schema": 1, "spent_s": "x"}'])
def test_a_damaged_ledger_is_refused_with_a_remedy(in_a_folder, content):
    (in_a_folder / "study.json").write_text(content)
    with pytest.raises(ValueError, match=r"study\.json is damaged: delete it to go on"):
        opened(in_a_folder, {})


WRONG = [
    ("rounds", 2.5),
    ("rounds", 10**9),
    ("rounds", -1),
    ("rounds", True),
    ("spent_s", float("nan")),
    ("spent_s", -1e6),
    ("batch_s", float("inf")),
    ("batch_runs", 1.5),
    ("resolution", 7),
    ("sessions", None),
]


@pytest.mark.parametrize(("name", "value"), WRONG)
@pytest.mark.parametrize("sealed", [True, False])
def test_values_that_no_study_has_are_damage(in_a_folder, name, value, sealed):
    opened(in_a_folder, {})
    path = in_a_folder / "study.json"
    content = json.loads(path.read_text()) | {name: value}
    if not sealed:
        # As an earlier version wrote it.
        del content["checksum"]
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"study\.json is damaged: delete it to go on"):
        opened(in_a_folder, {})


def test_an_altered_ledger_is_damage_although_its_values_are_possible(in_a_folder):
    opened(in_a_folder, {}).save()
    path = in_a_folder / "study.json"
    path.write_text(path.read_text().replace('"spent_s": 0.0', '"spent_s": 5.0'))
    with pytest.raises(ValueError, match=r"study\.json is damaged"):
        opened(in_a_folder, {})


def test_a_study_in_use_is_left_as_it_is(call, in_a_folder):
    folder = in_a_folder / "study"
    with held(folder):
        status, _, err = call(*QUICK)
    assert status == 2 and err.count("\n") == 1 and "study is in use by another cnnpool choose" in err
    assert [path.name for path in folder.iterdir()] == [".lock"]


def test_the_ledger_remembers_the_time_of_earlier_calls(in_a_folder):
    first = opened(in_a_folder, {"margin": 0.1})
    first.spent_s, first.rounds = 12.5, 7
    first.save()
    again = opened(in_a_folder, {"margin": 0.1})
    assert (again.spent_s, again.rounds, again.sessions) == (12.5, 7, 2)
    assert isinstance(again, Ledger)


@pytest.mark.slow
def test_a_study_of_digits_ends_with_a_report_and_goes_on_where_it_was(call, in_a_folder):
    status, out, err = call(*QUICK)
    assert (status, err) == (0, "")
    assert "round 3: 2 of 2 candidates left" in out and "Recommended: " in out
    text = (in_a_folder / "study" / "choose.md").read_text()
    assert "cnnpool choose data=digits data.limit=64" in text
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
