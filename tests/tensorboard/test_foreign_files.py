"""Files that no run wrote, anywhere below the log folder: each is named, and the rest goes on."""

import json
import os

import pytest

from cnnpool.choose.live_file import FILE
from cnnpool.report import main
from cnnpool.tensorboard import index

HUGE = "1" + "0" * 400
STUDY = {
    **{"schema": 1, "said": "x", "rounds": 0, "planned": None, "ended": 0, "asked": 0, "spent_s": 0},
    **{"time": 0, "budget_s": 1, "candidates": [], "trained": [], "left": [], "gone": [], "verdict": ""},
}
LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
CONTENTS = {
    ".sweeps/x.json": f'{{"schema": 1, "time": {HUGE}, "jobs": {{}}}}',
    f"study/{FILE}": json.dumps(STUDY),
    "bad/seed0/results.json": f'{{"schema": 1, "seed": {HUGE}}}',
    "bad/seed1/status.json": f'{{"state": "failed", "time": {HUGE}}}',
    "bad/seed2/.hydra/config.yaml": LAUGHS,
    "bad/seed3/.hydra/config.yaml": "&a [*a]",
}
PIPES = ("pipe/seed0/results.json", "pipe/seed1/status.json", "pipe/seed2/metrics.jsonl")
OF_A_RUN = ("max/seed0/routing.npz", "max/seed0/status.json", "avg/seed0/metrics.jsonl")


@pytest.fixture
def littered(shelf):
    """Two choices of two seeds, and files of every kind that no run wrote."""
    shelf.sweep(max=[0.9, 0.8], avg=[0.7, 0.6])
    for name in (*CONTENTS, *PIPES, *OF_A_RUN):
        path = shelf.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        if name in CONTENTS:
            path.write_text(CONTENTS[name])
        else:
            os.mkfifo(path)
    return shelf.root


def test_the_tab_names_what_no_run_wrote_and_shows_the_rest(littered, tab):
    assert tab.json("/comparison")["tables"][0]["columns"][0]["cells"] == ["max", "avg"]
    for name in ("accuracy", "routing", "learning"):
        assert tab.get("/figure", name=name).status_code == 200
    found = {job["folder"]: job["reason"] for job in tab.json("/jobs")["unfinished"]}
    for name in (*CONTENTS, *PIPES[:2]):
        folder, _, file = name.partition("/.hydra/")
        folder = folder if file or not name.startswith(("bad", "pipe")) else os.path.dirname(name)
        assert os.path.basename(name) in found[folder] + folder and len(found[folder]) < 400
        assert any(word in found[folder] for word in ("damaged", "cannot be read", ": delete it"))


def test_compare_names_it_and_compares_the_rest(littered, capsys):
    assert main([str(littered)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    for name in ("bad/seed0/results.json", "bad/seed1/status.json", "pipe/seed0/results.json"):
        assert f"{littered / name} " in out
    assert f"{littered / OF_A_RUN[2]} cannot be read: it is not a regular file" in out


def test_a_log_folder_without_runs_is_not_scanned_at_each_listing(tab, monkeypatch):
    monkeypatch.setattr(index, "PAUSE_S", 3600.0)
    scans, real = [], index.scan
    monkeypatch.setattr(index, "scan", lambda root: (scans.append(root), real(root))[1])
    assert not any(tab.plugin.is_active() for _ in range(5)) and len(scans) == 1


def test_nothing_is_kept_of_keys_and_stages_that_no_run_has(shelf, tab):
    shelf.sweep(max=[0.9, 0.8], avg=[0.7, 0.6])
    whole = tab.json("/figure", name="gradient")["svg"]
    assert tab.json("/comparison", by="no_key")["refusal"].startswith("--by no_key: no run has")
    assert tab.json("/figure", name="gradient", stage="none")["svg"] == whole
    assert not any("no_key" in by for by in tab.plugin._palettes)
