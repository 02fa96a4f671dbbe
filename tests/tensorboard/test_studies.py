"""Studies of cnnpool choose, as the tab shows them."""

import time

import pytest

from cnnpool.choose.ledger import LIVE, Live, content_of
from cnnpool.run_folder import layout
from cnnpool.system.lock_file import lock
from cnnpool.tables import Column


@pytest.fixture
def study(shelf):
    """A function that writes a study of two candidates; its lock, held until it is released."""

    def made(name="choose/digits", **changes):
        folder = shelf.root / name
        folder.mkdir(parents=True, exist_ok=True)
        facts = {
            **{"said": "round 4 of at most 9", "rounds": 3, "planned": 9, "ended": 1, "asked": 2},
            **{"spent_s": 60.0, "budget_s": 600.0, "time": time.time(), "trained": [3, 3]},
            "candidates": [Column("candidate", ["max", "avg"], True), Column("seeds", ["3", "3"])],
            **{"left": [True, False], "gone": [("avg", "after round 3: worse than max")]},
        }
        (folder / LIVE).write_bytes(content_of(Live(**(facts | changes))))
        held = lock(folder / layout.LOCK)
        held.acquire()
        return held

    return made


def test_a_study_that_goes_on_is_shown_with_what_is_left_of_its_budget(shelf, tab, study):
    shelf.put()
    held = study(time=time.time() - 30)
    [found] = tab.json("/jobs")["studies"]
    # Time since it was written counts.
    assert found.pop("spent_s") == pytest.approx(90, abs=5)
    wanted = {
        **{"folder": "choose/digits", "state": "running", "said": "round 4 of at most 9", "budget_s": 600},
        **{"rounds": 3, "planned": 9, "ended": 1, "asked": 2, "trained": [3, 3], "left": [True, False]},
        "gone": [["avg", "after round 3: worse than max"]],
    }
    assert {key: found[key] for key in wanted} == wanted
    assert found["candidates"][0] == {"header": "candidate", "cells": ["max", "avg"], "words": True}
    held.release()


def test_a_study_is_followed_until_it_has_ended_or_is_gone(shelf, tab, study):
    held = study()
    first = tab.json("/jobs")
    held.release()
    second = tab.json("/jobs")
    done = study(verdict="Recommended: max.")
    third = tab.json("/jobs")
    assert [one["studies"][0]["state"] for one in (first, second, third)] == ["running", "stopped", "done"]
    assert first["version"] < second["version"] < third["version"]
    assert second["studies"][0]["spent_s"] == 60
    assert third["studies"][0]["verdict"] == "Recommended: max."
    done.release()
    (shelf.root / "choose/digits" / LIVE).unlink()
    assert tab.json("/jobs")["studies"] == []


def test_studies_that_go_on_come_first_then_the_latest_and_one_without_a_round_is_not_done(tab, study):
    assert not tab.plugin.is_active()
    study("one", time=100.0).release()
    study("two", time=200.0, rounds=0, verdict="No winner: keep what you have.").release()
    held = study("three", time=50.0)
    assert tab.plugin.is_active()
    found = [(one["folder"], one["state"]) for one in tab.json("/jobs")["studies"]]
    assert found == [("three", "running"), ("two", "stopped"), ("one", "stopped")]
    held.release()
