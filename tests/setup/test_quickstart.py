import importlib.util
import subprocess
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
        called.append(command[3:])
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(quickstart.subprocess, "run", run)
    assert quickstart.main(["fit.epochs=1"]) == 0
    assert called[0][:2] == ["train", "-m"] and called[0][-1] == "fit.epochs=1"
    assert called[1] == ["compare", quickstart.RUNS]
    assert capsys.readouterr().out.endswith(quickstart.NEXT + "\n")


def test_a_failed_sweep_is_not_compared_and_gives_its_status(quickstart, monkeypatch):
    called = []

    def run(command):
        called.append(command)
        return subprocess.CompletedProcess(command, 2)

    monkeypatch.setattr(quickstart.subprocess, "run", run)
    assert quickstart.main([]) == 2
    assert len(called) == 1


def test_help_trains_nothing(quickstart, monkeypatch, capsys):
    monkeypatch.setattr(quickstart.subprocess, "run", None)
    assert quickstart.main(["--help"]) == 0
    assert "usage:" in capsys.readouterr().out
