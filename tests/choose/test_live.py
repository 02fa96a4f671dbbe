import json
import signal
from argparse import Namespace
from functools import partial

import pytest

from cnnpool.choose import command
from cnnpool.choose.command import Display
from cnnpool.choose.drive import Clock, Driver
from cnnpool.choose.ledger import LIVE, content_of, read_live
from cnnpool.choose.verdict import Ending
from cnnpool.run_folder.errors import DamagedError
from cnnpool.system.signals import Stopped


def worse_by_a_tenth(pool, seed, settings):
    """avg is a tenth below max in every round but for a thousandth; strided fails."""
    if pool == "strided":
        return RuntimeError("no such stride")
    return {"max": 0.9, "avg": 0.8}[pool] + 0.001 * (seed % 2 if pool == "avg" else 0)


@pytest.fixture
def followed(make_study, bench):
    """A study driven to its end, and what its file said whenever it was written."""

    def run(accuracy, **options):
        study = make_study(**options)
        path, seen = study.ledger.folder / LIVE, []
        with Display(study) as live, Clock(study) as clock:

            def watch(view, batch):
                live.show(view, batch)
                seen.append(read_live(path))

            view, reason = Driver(study, clock, watch, bench(accuracy)).drive()
            live.end(Ending(view, reason, ["cnnpool", "choose"]))
            seen.append(read_live(path))
        return study, seen, path

    return run


def test_a_study_says_what_runs_who_is_in_and_who_has_gone_why(followed):
    _, seen, _ = followed(worse_by_a_tenth, pools=("max", "avg", "strided"), rounds=8)
    first = seen[0]
    assert (first.said, first.rounds, first.planned, first.requested) == ("0 rounds done", 0, None, 0)
    assert list(first.left) == [True] * 3 and first.verdict == ""
    in_round = next(one for one in seen if one.requested)
    assert (in_round.said, in_round.ended, in_round.requested) == ("round 1", 0, 3)
    assert [one.ended for one in seen if one.said == "round 1"] == [0, 1, 2, 3]
    last = seen[-1]
    assert 3 <= last.rounds < 8 and last.planned == 8
    assert last.candidates[1].cells == [str(last.rounds), str(last.rounds), "0"]
    assert list(map(len, last.dots)) == [last.rounds, last.rounds, 0]
    names = last.candidates[0]
    assert names.cells == ["max", "avg", "strided"] and list(last.left) == [True, False, False]
    gone = dict(last.gone)
    assert gone["avg"].startswith(f"after round {last.rounds}: no better than the best, shown by max, ")
    assert gone["strided"] == "no such stride"
    assert last.verdict.startswith(
        "Recommended: max. Every other candidate is shown to be no better than the best"
    )


def test_a_signal_while_the_report_is_written_is_one_line(make_study, bench, monkeypatch, capsys):
    def stopped(*arguments):
        raise Stopped(signal.SIGTERM)

    monkeypatch.setattr(command, "Driver", partial(Driver, run=bench(worse_by_a_tenth)))
    monkeypatch.setattr(command.page, "write", stopped)
    study = make_study()
    monkeypatch.setattr(command, "prepare", lambda *_: study)
    asked = Namespace(overrides=[], config_dir=None, config_name="train", words=["data=digits"])
    assert command.choose(asked) == 128 + signal.SIGTERM
    said = "stopped by SIGTERM; rerun the same command to resume: cnnpool choose data=digits\n"
    # A busy machine also says how far the composing of the jobs is.
    assert capsys.readouterr().err.endswith(said)
    assert read_live(study.ledger.folder / LIVE).verdict.startswith("Recommended: max.")


CHANGES = [
    *({"schema": 2}, {"said": 1}, {"rounds": -1}, {"rounds": True}, {"planned": "x"}, {"time": float("inf")}),
    *({"candidates": [1]}, {"left": [1, 0]}, {"left": [True]}, {"gone": [["avg"]]}, {"verdict": None}),
]


def test_a_value_that_no_study_has_is_damage_in_one_line(followed):
    _, _, path = followed(worse_by_a_tenth)
    whole = json.loads(path.read_text())
    assert json.loads(content_of(read_live(path))) == whole
    for text in ("", "[]", *(json.dumps(whole | change) for change in CHANGES)):
        path.write_text(text)
        with pytest.raises(DamagedError, match=r"^[^\n]*study\.live\.json is damaged: [^\n]+$"):
            read_live(path)
