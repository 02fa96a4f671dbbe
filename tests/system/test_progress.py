import logging
import sys
import time

import pytest

from cnnpool.system import progress as module
from cnnpool.system.progress import CLEAR, Progress, duration, loading, make_way


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(module, "SILENT_S", 0.05)
    monkeypatch.setattr(module, "REDRAWN_S", 0.01)
    monkeypatch.setattr(module, "LINES_S", (0.05, 30.0))
    monkeypatch.delenv("LOCAL_RANK", raising=False)


def wait_for(look):
    end = time.monotonic() + 30
    while not look():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_a_short_task_says_nothing(caplog, capsys, monkeypatch):
    monkeypatch.setattr(module, "SILENT_S", 30.0)
    caplog.set_level(logging.INFO)
    with Progress("decoding", 3) as progress:
        progress.step(3)
    assert not caplog.records and capsys.readouterr() == ("", "")


def test_a_log_gets_a_line_now_and_then(caplog, capsys):
    caplog.set_level(logging.INFO)
    with Progress("decoding", 20_000, "images") as progress:
        progress.step(1234)
        wait_for(lambda: len(caplog.messages) == 2)
        time.sleep(0.2)
    assert len(caplog.messages) == 2
    assert all(line.startswith("decoding: 1,234 of 20,000 images (6 %)") for line in caplog.messages)
    assert capsys.readouterr() == ("", "")


def test_the_time_left_falls_until_the_next_step(monkeypatch):
    now = 100.0
    monkeypatch.setattr(module.time, "monotonic", lambda: now)
    progress = Progress("probing", 5, "probes")
    now = 110.0
    progress.step()
    assert str(progress) == "probing: 1 of 5 probes (20 %), 40 s left"
    now = 120.0
    assert str(progress) == "probing: 1 of 5 probes (20 %), 30 s left"
    # A step that takes longer than those before: nothing is known.
    now = 151.0
    assert str(progress) == "probing: 1 of 5 probes (20 %)"
    progress.step()
    assert str(progress) == "probing: 2 of 5 probes (40 %), 76 s left"


def test_without_a_log_that_shows_it_standard_error_gets_the_lines(capsys, monkeypatch):
    monkeypatch.setattr(module.log, "isEnabledFor", lambda level: False)
    seen = ""
    with Progress("comparing", 7, "runs"):

        def has_line():
            nonlocal seen
            seen += capsys.readouterr().err
            return "comparing: 0 of 7 runs (0 %)\n" in seen

        wait_for(has_line)


def test_who_is_to_be_patient_waits_longer(caplog):
    caplog.set_level(logging.INFO)
    with Progress("epoch 1/5", silent_s=30.0):
        time.sleep(0.2)
    assert not caplog.records


def test_a_line_on_the_terminal_makes_way_for_others(capsys, monkeypatch):
    monkeypatch.setattr(type(sys.stderr), "isatty", lambda stream: True, raising=False)
    monkeypatch.setattr(module, "REDRAWN_S", 30.0)
    make_way()
    assert capsys.readouterr().err == ""
    with Progress("probing"):
        wait_for(module._drawn.is_set)
        make_way()
        assert capsys.readouterr().err == f"{CLEAR}probing{CLEAR}"
    assert capsys.readouterr().err == ""


def test_a_terminal_gets_one_line_that_is_redrawn_and_wiped(caplog, capsys, monkeypatch):
    monkeypatch.setattr(type(sys.stderr), "isatty", lambda stream: True, raising=False)
    caplog.set_level(logging.INFO)
    seen = ""

    def has(text):
        nonlocal seen
        seen += capsys.readouterr().err
        return text in seen

    with Progress("probing", 4) as progress:
        wait_for(lambda: has(f"{CLEAR}probing: 0 of 4 (0 %){CLEAR}"))
        progress.step()
        wait_for(lambda: has("probing: 1 of 4 (25 %), 0 s left"))
    assert has("") and seen.endswith(CLEAR) and "\n" not in seen
    assert not caplog.records


def test_imports_are_announced_on_a_terminal_alone(capsys, monkeypatch):
    with loading("torch"):
        time.sleep(0.2)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(type(sys.stderr), "isatty", lambda stream: True, raising=False)
    said = []
    with loading("torch"):
        wait_for(lambda: said.append(capsys.readouterr().err) or "loading torch" in "".join(said))


def test_without_a_total_it_only_says_that_it_goes_on(caplog):
    caplog.set_level(logging.INFO)
    with Progress("compiling kernels"):
        wait_for(lambda: caplog.messages)
    assert caplog.messages[0] == "compiling kernels"
    progress = Progress("reading", unit="runs")
    progress.step(1500)
    assert str(progress) == "reading: 1,500 runs"


def test_only_the_first_process_of_a_training_speaks(caplog, monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "1")
    caplog.set_level(logging.INFO)
    with Progress("decoding"):
        time.sleep(0.2)
    assert not caplog.records


def test_an_error_ends_it(caplog):
    with pytest.raises(ZeroDivisionError), Progress("dividing") as progress:
        progress.step(1 // 0)
    assert not progress._thread.is_alive()


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (99, "99 s"), (120, "2 min"), (5900, "98 min"), (7200, "2.0 h")]
)
def test_a_duration_is_rounded(seconds, text):
    assert duration(seconds) == text
