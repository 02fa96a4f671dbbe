from types import SimpleNamespace

from cnnpool.system import load
from cnnpool.system.load import Stopwatch


def test_load_is_what_others_took_of_all_processors(monkeypatch):
    taken, own = iter((100.0, 120.0)), iter((0.0, 4.0))
    monkeypatch.setattr(load, "busy", lambda: next(taken))
    monkeypatch.setattr(load, "usable", lambda: {0, 1, 2, 3})
    monkeypatch.setattr(load.os, "times", lambda: SimpleNamespace(user=next(own), system=1.0))
    watch = Stopwatch(processes=2)
    watch.start()
    watch.stop()
    # Of 20 s two processes like this one took 4 each.
    assert watch.taken == 12
    watch.seconds = 10.0
    assert watch.load == 12 / 40
