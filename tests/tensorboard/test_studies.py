"""Studies of cnnpool choose, as the tab shows them."""

import re
import time

from cnnpool.choose.ledger import LIVE


def said(page):
    """The state and folder of each study, and the whole text."""
    return [
        " ".join(one.get_text(" ", strip=True).split()) for one in page.soup.select("#choose h3")
    ], page.text("#choose")


def test_a_study_that_goes_on_is_shown_with_what_is_left_of_its_budget(shelf, tab, study):
    shelf.put()
    # Time since it was written counts.
    with study(time=time.time() - 30, intervals=[[90.0, 80.0, 95.0], [70.0, None, None]]):
        page = tab.page()
    heads, text = said(page)
    assert heads == ["running choose/digits"]
    assert "1 of 2 candidates are left. Round 4 of at most 9: 1 of 2 runs have ended." in text
    assert "Rounds 3 of at most 9 complete" in text and "avg: after round 3: worse than max" in text
    spent = int(re.search(r"Budget (\d+) s of 10 min, 8\.[45] min left", text)[1])
    assert 89 <= spent <= 95
    table = page.soup.select_one("#choose table")
    assert page.rows("#choose table")["candidate"] == ["max", "avg"]
    assert [row.get("class") for row in table.select("tbody tr")] == [None, ["faint"]]
    # Both have a mean, and one an interval.
    assert [len(row.select(".mean")) for row in table.select("tbody tr")] == [1, 1]
    assert len(table.select(".whisker")) == 1


def test_a_study_is_followed_until_it_has_ended_or_is_gone(shelf, tab, study):
    with study():
        first = said(tab.page())
    second = said(tab.page())
    study(verdict="Recommended: max.")
    third = said(tab.page())
    assert [heads for heads, _ in (first, second, third)] == [
        ["running choose/digits"], ["stopped choose/digits"], ["done choose/digits"]
    ]  # fmt: skip
    assert "Stopped: rerun the same command to resume." in second[1] and "Budget 60 s of 10 min" in second[1]
    assert "Recommended: max." in third[1] and "candidates are left" not in third[1]
    (shelf.root / "choose/digits" / LIVE).unlink()
    assert said(tab.page()) == ([], "")


def test_studies_that_go_on_come_first_then_the_latest_and_one_without_a_round_is_not_done(tab, study):
    assert not tab.plugin.is_active()
    study("one", time=100.0)
    study("two", time=200.0, rounds=0, verdict="No winner: keep what you have.")
    with study("three", time=50.0):
        assert tab.plugin.is_active()
        assert said(tab.page())[0] == ["running three", "stopped two", "stopped one"]
