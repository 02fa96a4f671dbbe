"""Jobs of a sweep that have not begun, as the tab shows them."""

import pytest

from cnnpool.run_folder.plan import planned


@pytest.fixture
def plan(shelf):
    """A function: what a sweep of max and avg over so many seeds plans, as a block."""

    def made(seeds, study="digits"):
        root = shelf.root / study
        asked = [(pool, seed) for pool in ("max", "avg") for seed in range(seeds)]
        runs = [(root / pool / f"seed{seed}", [f"pool={pool}", f"seed={seed}"]) for pool, seed in asked]
        return planned(dict(runs))

    return made


def stop(plan):
    with pytest.raises(KeyboardInterrupt), plan:
        raise KeyboardInterrupt


def told(content):
    return [(job["folder"], job["state"], job["reason"]) for job in content["unfinished"]]


def test_jobs_wait_run_and_are_done_while_their_sweep_goes_on(shelf, tab, begin, plan):
    with plan(2):
        first = tab.json("/jobs")
        assert first["counts"] == {"waiting": 4}
        assert [job["asked"] for job in first["unfinished"]][:2] == ["pool=max seed=0", "pool=max seed=1"]
        shelf.put("digits/max/seed0")
        begin("digits/max/seed1", seed=1, epochs=[(1, 0.5)])
        begin("digits/avg/seed0", pool="avg", state="failed", error="out of memory")
        later = tab.json("/jobs")
        assert later["counts"] == {"done": 1, "running": 1, "waiting": 1, "failed": 1}
        assert told(later) == [
            ("digits/avg/seed0", "failed", "out of memory"),
            ("digits/max/seed1", "running", ""),
            ("digits/avg/seed1", "waiting", ""),
        ]
    assert tab.json("/jobs")["counts"] == {"done": 1, "running": 1, "failed": 1}


def test_jobs_of_a_sweep_that_has_gone_do_not_wait(tab, plan):
    with pytest.raises(KeyboardInterrupt), plan(1):
        before = tab.json("/jobs")
        raise KeyboardInterrupt
    after = tab.json("/jobs")
    assert (before["counts"], after["counts"]) == ({"waiting": 2}, {"not started": 2})
    assert after["version"] > before["version"] and after["results"] == before["results"]
    assert told(after)[0] == ("digits/max/seed0", "not started", "its sweep has ended")


def test_a_larger_sweep_takes_over_and_makes_the_tab_active(shelf, tab, plan):
    shelf.root.mkdir()
    assert not tab.plugin.is_active()
    stop(plan(1))
    with plan(3):
        assert tab.plugin.is_active() and tab.json("/jobs")["counts"] == {"waiting": 6}
    assert tab.json("/jobs")["counts"] == {}


def test_many_jobs_that_wait_are_counted_and_some_named_those_that_go_on_first(tab, plan):
    stop(plan(40, "one"))
    with plan(40, "two"):
        content = tab.json("/jobs")
    assert content["counts"] == {"waiting": 80, "not started": 80}
    assert len(content["unfinished"]) == 60 and {one["state"] for one in content["unfinished"]} == {"waiting"}
