import logging
import sys
import time

import pytest

from cnnpool.system import progress as module
from cnnpool.system.progress import Progress, clear_bars, duration


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(module, "SILENT_S", 0.05)
    monkeypatch.setattr(module, "REDRAWN_S", 0.01)
    monkeypatch.setattr(module, "LINES_S", 0.05)
    monkeypatch.delenv("LOCAL_RANK", raising=False)


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setattr(type(sys.stderr), "isatty", lambda stream: True, raising=False)


def wait_for(look):
    end = time.monotonic() + 30
    while not look():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_a_short_task_says_nothing(caplog, capsys, monkeypatch):
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(module, "SILENT_S", 30.0)
    with Progress("decoding", 3) as progress:
        progress.step(3)
    monkeypatch.setattr(module, "SILENT_S", 0.0)
    with Progress("epoch 1/5", silent_s=30.0):
        time.sleep(0.1)
    assert not caplog.records and capsys.readouterr() == ("", "")


def test_a_log_gets_a_line_now_and_then(caplog, capsys):
    caplog.set_level(logging.INFO)
    with Progress("decoding", 20_000, "images") as progress:
        progress.step(1234)
        wait_for(lambda: caplog.messages)
        time.sleep(0.1)
        progress.step(766)
        assert len(caplog.messages) == 2
    first, second, last = caplog.messages
    # A line that stays does not leave open whether the work ended.
    assert last == "decoding: done, 0 s"
    assert first.startswith("decoding: 1,234 of 20,000 images (6 %), 00:0")
    assert second.startswith("decoding: 2,000 of 20,000 images (10 %), ")
    assert capsys.readouterr() == ("", "")


def test_without_a_log_that_shows_it_standard_error_gets_the_lines(capsys, monkeypatch):
    monkeypatch.setattr(module.log, "isEnabledFor", lambda level: False)
    seen = []
    with Progress("comparing", 7, "runs"):
        wait_for(lambda: seen.append(capsys.readouterr().err) or "comparing: 0 of 7 runs" in "".join(seen))
    said = "".join(seen) + capsys.readouterr().err
    assert said == "comparing: 0 of 7 runs (0 %), ? left\ncomparing: done, 0 s\n"


def test_a_terminal_gets_one_bar_that_makes_way_and_is_wiped(caplog, capsys, terminal):
    caplog.set_level(logging.INFO)
    seen = []

    def has(text):
        seen.append(capsys.readouterr().err)
        return text in "".join(seen)

    clear_bars()
    assert not has("\r")
    with Progress("probing", 4, "probes") as progress:
        wait_for(lambda: has("probing:   0%"))
        time.sleep(0.02)
        progress.step()
        wait_for(lambda: has("1/4"))
        clear_bars()
        assert has("") or "".join(seen).endswith("\r")
    with Progress("drawing pictures"):
        wait_for(lambda: has("drawing pictures"))
    text = "".join(seen) + capsys.readouterr().err
    assert "\n" not in text and text.rpartition("\r")[2].strip() == "" and not module._drawn
    assert not caplog.records


def test_an_error_ends_it():
    with pytest.raises(ZeroDivisionError), Progress("dividing") as progress:
        progress.step(1 // 0)
    progress._timer.join(10)
    assert not progress._timer.is_alive()


def test_a_duration_is_rounded():
    known = {0.4: "0 s", 99: "99 s", 100: "1.7 min", 120: "2 min", 5900: "98 min", 7200: "2.0 h"}
    for seconds, text in known.items():
        assert duration(seconds) == text
