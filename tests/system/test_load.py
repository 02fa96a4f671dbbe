from types import SimpleNamespace

import pytest

from cnnpool.system import load
from cnnpool.system.load import Stopwatch, busy

STAT = """cpu  9999 9999 9999 9999 0 0 0 0 0 0
cpu0 {0} 10 20 5000 70 3 4 5 0 0
cpu1 {1} 0 0 5000 0 0 0 0 0 0
cpu2 9999 0 0 0 0 0 0 0 0 0
intr 1 2 3
"""


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Two of three processors are ours; the test sets the time, our own work and the ticks of both."""
    now = SimpleNamespace(own=0.0, seconds=0.0)
    monkeypatch.setattr(load, "STAT", tmp_path / "stat")
    monkeypatch.setattr(load, "usable", lambda: {0, 1})
    monkeypatch.setattr(load.os, "sysconf", lambda _: 100)
    monkeypatch.setattr(load.os, "times", lambda: SimpleNamespace(user=now.own, system=0.0))
    monkeypatch.setattr(load.time, "perf_counter", lambda: now.seconds)

    def at(seconds, own, first, second):
        now.seconds, now.own = seconds, own
        load.STAT.write_text(STAT.format(first, second))

    at(0, 0, 0, 0)
    return at


def test_work_of_the_own_processors_is_added_up_and_idleness_is_not(machine):
    machine(0, 0, 100, 200)
    # 100 + 10 + 20 + 3 + 4 + 5 ticks of the first, 200 of the second; the third is not ours.
    assert busy() == pytest.approx(3.42)


def test_load_is_what_others_took_of_all_processors(machine):
    watch = Stopwatch()
    watch.start()
    # Ten seconds of two processors: 16 s worked, 10 of these by us.
    machine(10, 10, 1000, 600)
    watch.stop()
    assert (watch.seconds, watch.load) == (10, pytest.approx(6 / 20))
    machine(50, 10, 5000, 4600)
    watch.start()
    machine(60, 20, 6000, 4600)
    watch.lap()
    assert (watch.seconds, watch.load) == (20, pytest.approx(6 / 40))
    machine(70, 20, 7000, 5600)
    watch.stop()
    assert (watch.seconds, watch.load) == (30, pytest.approx(26 / 60))


def test_processes_that_share_the_work_are_no_others(machine):
    watch = Stopwatch(processes=2)
    watch.start()
    machine(10, 9, 1000, 800)
    watch.stop()
    assert watch.load == pytest.approx(0)


def test_where_the_system_does_not_say_the_load_is_unknown(tmp_path, monkeypatch):
    monkeypatch.setattr(load, "STAT", tmp_path / "stat")
    for content in (None, "", "cpu0 1 2\n", "cpu0 a b c d e f g h\n"):
        if content is not None:
            load.STAT.write_text(content)
        watch = Stopwatch()
        watch.start()
        watch.stop()
        assert watch.load is None and watch.seconds > 0
