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


def test_jobs_wait_run_and_are_done_while_their_sweep_goes_on(shelf, tab, begin, plan):
    with plan(2):
        first = tab.page()
        assert first.counts == {"waiting": 4}
        assert [said for _, _, said in first.jobs][:2] == ["pool=max seed=0", "pool=max seed=1"]
        shelf.put("digits/max/seed0")
        begin("digits/max/seed1", seed=1, epochs=[(1, 0.5)])
        begin("digits/avg/seed0", pool="avg", state="failed", error="out of memory")
        later = tab.page()
        assert later.counts == {"done": 1, "running": 1, "waiting": 1, "failed": 1}
        assert later.jobs == [
            ("digits/max/seed1", "running", "epoch 1 of 5, validation accuracy 50.00 %"),
            ("digits/avg/seed0", "failed", "out of memory"),
            ("digits/avg/seed1", "waiting", "pool=avg seed=1"),
        ]
    assert tab.page().counts == {"done": 1, "running": 1, "failed": 1}


def test_jobs_of_a_sweep_that_has_gone_do_not_wait(tab, plan):
    with pytest.raises(KeyboardInterrupt), plan(1):
        before = tab.page()
        raise KeyboardInterrupt
    after = tab.page()
    assert (before.counts, after.counts) == ({"waiting": 2}, {"not started": 2})
    said = "pool=max its sweep has ended; rerun the same command to resume"
    assert after.jobs[0] == ("digits/max/seed0", "not started", said)


def test_a_larger_sweep_takes_over_and_makes_the_tab_active(shelf, tab, plan):
    shelf.root.mkdir()
    assert not tab.plugin.is_active()
    stop(plan(1))
    with plan(3):
        assert tab.plugin.is_active() and tab.page().counts == {"waiting": 6}
    assert tab.page().counts == {}


def test_many_jobs_that_wait_are_counted_and_some_named(tab, plan):
    stop(plan(40, "one"))
    with plan(40, "two"):
        page = tab.page()
    assert page.counts == {"waiting": 80, "not started": 80}
    assert len(page.jobs) == 60 and "and 100 more" in page.text("#jobs")
