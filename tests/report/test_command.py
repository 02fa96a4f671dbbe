import csv
import json
import math
import os
import re
import subprocess
import sys
from urllib.parse import urlsplit

import pytest
from scipy import stats

from cnnpool.report import BOARD, main
from cnnpool.tensorboard.plugin import NAME

SEEDS = [0.90, 0.91, 0.92, 0.93, 0.94, 0.95, 0.96]


@pytest.fixture
def two(shelf):
    """Seven seeds of max, and of avg 1 to 1.6 points below."""
    return shelf.sweep(max=SEEDS, avg=[value - 0.01 - 0.001 * k for k, value in enumerate(SEEDS)])


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def error_of(capsys, *argv):
    assert main([str(word) for word in argv]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ") and "Traceback" not in err
    return err


def test_table_is_what_was_worked_out_by_hand(two, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert main([str(two.root)]) == 0
    # max: mean .93, sd sqrt(28e-4/6) = .0216, t(.975, 6) = 2.4469 -> +-.0200.
    # avg: less .013, sd sqrt(28e-6/6) = .00216 -> +-.0020; all seven signs alike: p = 2/2^7.
    lines = capsys.readouterr().out.split("\n")
    said, table = lines[: lines.index("")], lines[lines.index("") + 1 :]
    assert said[0] == "Test accuracy (7 seeds; max 93.00 %): avg is 1.30 points below [-1.50, -1.10]."
    headers = "choice;n;test accuracy (%), mean ± sd;95 % CI;difference (points) [95 % CI];p (Holm);verdict"
    assert [re.split(r"  +", line.strip()) for line in table[:4] if "--" not in line] == [
        headers.split(";"),
        ["max", "7", "93.00 ± 2.16", "[91.00, 95.00]", "–", "–", "baseline"],
        ["avg", "7", "91.70 ± 1.94", "[89.90, 93.50]", "-1.30 [-1.50, -1.10]", "< 0.001", "worse"],
    ]
    assert "Place among 2, simultaneous 95 % intervals: max 1, avg 2." in "\n".join(lines)


def test_csv_and_json_hold_the_numbers_unrounded(two, tmp_path):
    assert main([str(two.root), "--out", str(tmp_path / "r")]) == 0
    rows = list(csv.DictReader((tmp_path / "r" / "table.csv").read_text().splitlines()))
    assert [row["choice"] for row in rows] == ["max", "avg"]
    assert float(rows[1]["difference"]) == pytest.approx(-0.013)
    # Differences -.010, -.011, ..., -.016: mean -.013, variance 28e-6 / 6.
    t = 0.013 / math.sqrt(28e-6 / 6 / 7)
    assert float(rows[1]["p"]) == pytest.approx(2 * stats.t.sf(t, 6))
    assert rows[1]["p_holm"] == rows[1]["p"]
    assert float(rows[1]["superiority"]) == 0
    assert float(rows[0]["gradient.*.zero_fraction"]) == pytest.approx(0.75)
    assert rows[0]["difference"] == ""
    content = json.loads((tmp_path / "r" / "table.json").read_text())
    assert content["choices"][0]["mean"] == pytest.approx(0.93)
    assert content["baseline"] == "max"
    assert content["command"] == ["cnnpool", "compare", str(two.root), "--out", str(tmp_path / "r")]


def test_everything_is_written_and_by_the_same_runs_the_same_bytes(two, tmp_path, monkeypatch, figures):
    found = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        assert main([str(two.root), "--out", "r"]) == 0
        found.append(contents(tmp_path / name / "r"))
    assert found[0] == found[1]
    figures = {"accuracy", "differences", "learning", "gradient", "shift", "pareto"}
    drawn = {f"{name}.{kind}" for name in figures for kind in ("png", "svg")}
    tables = {"report.md", "report.html", "table.csv", "runs.csv", "table.tex", "table.json"}
    assert found[0].keys() == drawn | tables


def test_failed_and_unfinished_runs_are_listed_not_dropped(two, capsys):
    (two.root / "bad").mkdir()
    (two.root / "bad" / ".cnnpool").touch()
    (two.root / "bad" / "status.json").write_text('{"state": "failed", "error": "loss became NaN"}')
    assert main([str(two.root)]) == 0
    assert f"{two.root / 'bad'}: failed: loss became NaN" in capsys.readouterr().out
    assert "loss became NaN" in (two.root / "report" / "report.html").read_text()
    assert main([str(two.root), "--status"]) == 0
    assert "15 runs: 14 done, 1 failed" in capsys.readouterr().out
    assert "no finished run among 1 (1 failed)" in error_of(capsys, two.root / "bad")


def test_results_of_a_probe_beside_runs_are_left_out_with_a_note(two, capsys):
    probed = two.put("probe/max", precision="fp32", examined={"model": "outputs/max/seed0"})
    assert main([str(two.root)]) == 0
    note = f"results of cnnpool probe are left out beside runs that were trained: 1, such as {probed}; give"
    said = capsys.readouterr().out
    assert note in said and "max     7 " in said
    assert main([str(two.root), "--status"]) == 0
    assert "15 runs: 14 done, 1 probed" in capsys.readouterr().out
    assert main([str(probed), "--no-board"]) == 0
    assert note not in capsys.readouterr().out


def test_every_mistake_is_one_line_and_two(two, tmp_path, capsys, monkeypatch):
    root = two.root
    assert "does not exist" in error_of(capsys, tmp_path / "none")
    assert "did you mean 'pool'" in error_of(capsys, root, "--by", "poool")
    assert "did you mean" in error_of(capsys, root, "--metric", "test.acuracy")
    assert "is not among the choices" in error_of(capsys, root, "--baseline", "median")
    assert "is not KEY=VALUE" in error_of(capsys, root, "--where", "pool")
    assert "paired by seed" in error_of(capsys, root, "--by", "seed")
    said = error_of(capsys, root, "--seed", "0,1")
    assert "--seed KEY and --runs are for other programs" in said and "--where seed=0,1\n" in said
    assert main([str(root), "--seed", "none"]) == 0 and "tensorboard" not in capsys.readouterr().out
    (tmp_path / "file").touch()
    out = tmp_path / "file" / "r"
    said = f"error: {out} cannot be written: Not a directory; name another folder by compare --out or "
    assert error_of(capsys, root, "--out", out) == f"{said}choose.out\n"
    assert "--bi" in error_of(capsys, root, "--bi", "pool")
    assert "RUNS" in error_of(capsys)
    monkeypatch.setenv("CNNPOOL_TRACEBACK", "1")
    assert main([str(tmp_path / "none")]) == 2 and capsys.readouterr().err.startswith("Traceback")


def test_a_damaged_run_is_one_line_and_the_rest_is_compared(two, capsys):
    path = two.root / "max" / "seed0" / "results.json"
    path.write_text("{")
    assert main([str(two.root)]) == 0
    out, err = capsys.readouterr()
    assert out.count(f"{path} is damaged: ") == 1 and err == ""
    assert "avg: seed 0 without a partner" in out
    assert str(path) in (two.root / "report" / "report.md").read_text().replace("\\", "")
    assert main([str(two.root / "max" / "seed0")]) == 2
    assert capsys.readouterr().err.startswith(f"error: {path} is damaged: ")


def test_a_damaged_line_of_the_metrics_is_told_and_the_run_compared(two, capsys):
    path = two.root / "max" / "seed0" / "metrics.jsonl"
    whole = path.read_text()
    path.write_text("half a line\n" + whole)
    assert main([str(two.root)]) == 0
    out = capsys.readouterr().out
    assert out.count(f"{path} is damaged: line 1 of 4 left out") == 1 and "without a partner" not in out
    assert "line 1 of 4 left out" in (two.root / "report" / "report.html").read_text()
    path.write_text(whole)
    assert main([str(two.root)]) == 0 and "is damaged" not in capsys.readouterr().out
    two.put(pool="max", seed=9, steps=30, epochs=5)
    assert main([str(two.root)]) == 0
    said = f"{two.root / 'max' / 'seed9' / 'metrics.jsonl'} is damaged: it ends in epoch 2 of 5"
    assert capsys.readouterr().out.count(said) == 1


def test_a_folder_that_holds_no_report_is_refused_and_left_as_it_is(two, tmp_path, capsys):
    out = tmp_path / "mine"
    out.mkdir()
    for name in ("accuracy.png", "shift.svg", "table.csv", "notes.txt"):
        (out / name).write_text("mine")
    before = contents(out)
    said = f"error: --out {out} holds files that are not a report of cnnpool (accuracy.png and 3 more)"
    assert error_of(capsys, two.root, "--out", out).startswith(said)
    (out / "table.json").write_text('{"command": ["other"], "choices": []}')
    assert "not a report of cnnpool" in error_of(capsys, two.root, "--out", out)
    (out / "table.json").unlink()
    assert contents(out) == before


def test_a_report_is_replaced_and_nothing_else_in_its_folder_is_touched(two):
    out = two.root / "report"
    assert main([str(two.root)]) == 0
    first = contents(out)
    # A figure that the next report does not have stays too.
    others = {"notes.txt": b"mine", "differences.png": b"drawn"}
    for name, content in others.items():
        (out / name).write_bytes(content)
    assert main([str(two.root), "--where", "pool=max"]) == 0
    second = contents(out)
    assert others.items() <= second.items() and second["table.csv"] != first["table.csv"]
    # A report that was interrupted is known as one too: its numbers are written first.
    for name in second.keys() - {"table.json"}:
        (out / name).unlink()
    assert main([str(two.root)]) == 0 and contents(out).keys() == first.keys()


def test_a_name_that_is_not_utf_8_is_shown_as_an_escape(two, tmp_path, capsys):
    odd = os.fsdecode(b"caf\xe9")
    os.rename(two.root / "max", two.root / odd)
    (two.root / odd / "broken").mkdir()
    (two.root / odd / "broken" / ".cnnpool").touch()
    (two.root / odd / "broken" / "status.json").write_text('{"state": "failed", "error": "\\udcff"}')
    assert main([str(two.root / odd), str(two.root / "avg"), "--out", str(tmp_path / "r")]) == 0
    assert "caf\\udce9/broken: failed" in capsys.readouterr().out
    for name in ("report.md", "report.html", "runs.csv", "table.json"):
        assert "udce9" in (tmp_path / "r" / name).read_text(encoding="utf-8")
    assert json.loads((tmp_path / "r" / "table.json").read_text())["command"][2] == str(two.root / odd)


def test_help_imports_nothing_heavy_and_comparing_no_framework(shelf):
    shelf.sweep(max=[0.9, 0.8], avg=[0.7, 0.6])
    code = (
        "import sys; from cnnpool.report import main\n"
        "def heavy(*names): print(sorted({'torch', 'lightning', 'hydra', *names} & set(sys.modules)))\n"
        "try: main(['--help'])\n"
        "finally: heavy('numpy', 'scipy', 'matplotlib'); main(sys.argv[1:]); heavy('tensorboard')"
    )
    done = subprocess.run([sys.executable, "-c", code, str(shelf.root)], capture_output=True, text=True)
    helped, compared, _ = done.stdout.split("[]\n")
    assert "--baseline" in helped and "report: " in compared


def test_compare_names_the_folder_and_the_tab_and_writes_nothing_there(shelf, capsys):
    shelf.sweep(max=[0.9, 0.8], avg=[0.7, 0.6])
    before = {path for path in shelf.root.rglob("*") if path.is_file()}
    assert main([str(shelf.root)]) == 0
    assert f"tensorboard --logdir {shelf.root}\n      {BOARD}\n" in capsys.readouterr().out
    asked = ["--baseline", "avg", "--where", "seed=0,1", "--metric", "consistency"]
    assert main([str(shelf.root), *asked]) == 0
    state = ("where=seed%3D0%2C1", "metric=invariance.consistency.distinct", "baseline=avg")
    address = "".join(f"&p.downsampling.{part}" for part in state)
    assert f"      {BOARD}{address}\n" in capsys.readouterr().out
    assert main([str(shelf.root), "--metric", "consistency", "--metric", "accuracy,cost.flops"]) == 0
    shown = capsys.readouterr().out
    assert main([str(shelf.root), "--metric", "accuracy,test.accuracy", "--no-board"]) == 0
    assert capsys.readouterr().out.count("test accuracy (%), mean") == 1
    assert shown.startswith("Consistency (distinct)") and "Test accuracy (2 seeds" in shown
    assert "metric=invariance.consistency.distinct%2Ctest.accuracy%2Ccost.flops" in shown
    assert main([str(shelf.root), "--no-board"]) == 0 and "next:" not in capsys.readouterr().out
    assert (urlsplit(BOARD).hostname, urlsplit(BOARD).fragment) == ("localhost", NAME)
    after = {path for path in shelf.root.rglob("*") if path.is_file()}
    assert {path.parent.name for path in after - before} == {"report"}
