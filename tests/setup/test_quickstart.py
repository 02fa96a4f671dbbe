import importlib.util
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PATH = Path(__file__).parents[2] / "scripts" / "quickstart.py"


@pytest.fixture
def quickstart():
    spec = importlib.util.spec_from_file_location("quickstart", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_sweeps_compares_and_says_what_is_next(quickstart, monkeypatch, capsys):
    called = []

    def run(command):
        called.append(command)
        return 0

    monkeypatch.setattr(quickstart, "run", run)
    assert quickstart.main(["fit.epochs=1"]) == 0
    assert called[0][:2] == ["train", "-m"] and called[0][-1] == "fit.epochs=1"
    assert called[1] == ["compare", quickstart.RUNS]
    assert capsys.readouterr().out.endswith(quickstart.NEXT + "\n")


def test_a_failed_sweep_is_not_compared_and_gives_its_status(quickstart, monkeypatch):
    called = []

    def run(command):
        called.append(command)
        return 2

    monkeypatch.setattr(quickstart, "run", run)
    assert quickstart.main([]) == 2
    assert len(called) == 1


def test_ctrl_c_waits_for_the_command_which_answers_it(quickstart, monkeypatch):
    answers = "signal.signal(signal.SIGINT, lambda *_: sys.exit(130))"
    program = f"import signal, sys, time; {answers}; time.sleep(60)"
    monkeypatch.setattr(quickstart, "CNNPOOL", [sys.executable, "-c", program])
    wait, interrupted = subprocess.Popen.wait, []

    def interrupt(process, timeout=None):
        if not interrupted:
            interrupted.append(process)
            # It needs a moment until it answers signals.
            time.sleep(1)
            process.send_signal(signal.SIGINT)
            raise KeyboardInterrupt
        return wait(process, timeout)

    monkeypatch.setattr(subprocess.Popen, "wait", interrupt)
    assert quickstart.run([]) == 130
