import json

import pytest

from scripts.benchmarks import __main__ as benchmarks
from scripts.benchmarks import figures, start


def test_commands_are_timed_in_processes_of_their_own(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(start, "STARTS", {"nothing": start.Start(["-m", "cnnpool", "--version"], 0.3)})
    out = tmp_path / "start.json"
    assert benchmarks.main(["start", "--repeat", "3", "--out", str(out)]) == 0
    (row,) = json.loads(out.read_text())["rows"]
    assert row["ratio"]["n"] == 3 and 0 < row["ours"] < row["rival"]
    assert "nothing" in capsys.readouterr().out
    assert "From the command to an answer" in figures.section(json.loads(out.read_text()))


def test_a_command_is_timed_until_it_writes_and_then_killed(monkeypatch):
    monkeypatch.setattr(start.time, "perf_counter", iter([1.0, 4.5]).__next__)
    code = "import time; open('said', 'w').write('x'); open('said').read(); time.sleep(600)"
    assert start.seconds(["-c", code], until="said") == 3.5


@pytest.mark.parametrize(("code", "until"), [("raise SystemExit(3)", ""), ("open('said', 'w')", "said")])
def test_a_command_that_fails_or_says_nothing_is_not_timed(code, until):
    with pytest.raises(RuntimeError, match="ended with status"):
        start.seconds(["-c", code], until=until)
