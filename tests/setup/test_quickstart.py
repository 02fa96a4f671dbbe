import importlib.util
import sys
from pathlib import Path

import pytest

from cnnpool import cli

PATH = Path(__file__).parents[2] / "scripts" / "quickstart.py"


@pytest.fixture
def quickstart():
    spec = importlib.util.spec_from_file_location("quickstart", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("status", "commands"), [(0, ["train", "compare"]), (2, ["train"]), (130, ["train"])]
)
def test_it_sweeps_then_compares_unless_the_sweep_failed(quickstart, monkeypatch, capsys, status, commands):
    called = []

    def main(words):
        called.append(words)
        sys.exit(status)

    monkeypatch.setattr(cli, "main", main)
    assert quickstart.main(["fit.epochs=1"]) == status
    assert [words[0] for words in called] == commands
    assert called[0] == ["train", "-m", "experiment=quickstart", "fit.epochs=1"]
    assert called[1:] in ([], [["compare", quickstart.RUNS, "--baseline", "max"]])
    assert capsys.readouterr().out.startswith("$ cnnpool train -m experiment=quickstart fit.epochs=1\n")


def test_a_short_quickstart_ends_with_a_comparison_and_a_report(quickstart, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    assert quickstart.main(["pool=max,avg", "seed=0,1,2", "fit.epochs=1", "launch=local"]) == 0
    out = capfd.readouterr().out
    assert out.count("next:") == 1
    assert "Test accuracy (3 seeds; max " in out and out.count("[") > 6
    assert (tmp_path / "outputs/quickstart/digits/report/report.html").exists()
