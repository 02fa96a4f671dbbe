"""Damaged files, anywhere below the log folder: each is named, and the rest goes on."""

import json

import pytest

from cnnpool.choose.ledger import LIVE
from cnnpool.report import main
from cnnpool.tensorboard import index

HUGE = "1" + "0" * 400
STUDY = {
    **{"schema": 1, "said": "x", "rounds": 0, "planned": None, "ended": 0, "requested": 0, "spent_s": 0},
    **{"time": 0, "budget_s": 1, "candidates": [], "left": [], "gone": [], "verdict": ""},
}
CONTENTS = {
    ".sweeps/x.json": '{"schema": 1, "jobs": {"a": 1}}',
    f"study/{LIVE}": json.dumps(STUDY),
    "bad/seed0/results.json": f'{{"schema": 1, "seed": {HUGE}}}',
    "bad/seed1/status.json": f'{{"state": "failed", "time": {HUGE}}}',
    "bad/seed2/.hydra/config.yaml": "a: b: c",
}


@pytest.fixture
def littered(shelf):
    """Two choices of two seeds, and damaged files of every kind, a picture of a run among them."""
    shelf.sweep(max=[0.9, 0.8], avg=[0.7, 0.6])
    for name, content in (CONTENTS | {"max/seed0/routing.npz": "PK"}).items():
        path = shelf.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        if name.startswith("bad"):
            (shelf.root / "/".join(name.split("/")[:2]) / ".cnnpool").touch()
    return shelf.root


def test_the_tab_and_compare_name_damaged_files_and_show_the_rest(littered, tab, capsys):
    page = tab.page()
    assert page.choices == ["max", "avg"]
    assert tab.get("/figure", name="routing").status_code == 200
    found = {folder: said for folder, _, said in page.jobs}
    for name in CONTENTS:
        folder, _, file = name.partition("/.hydra/")
        folder = folder if file or not name.startswith("bad") else name.rpartition("/")[0]
        assert name.rpartition("/")[2] in found[folder] + folder and len(found[folder]) < 400
        assert any(word in found[folder] for word in ("damaged", ": delete it"))
    assert main([str(littered)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert all(f"{littered / name} " in out for name in list(CONTENTS)[2:4])


def test_a_log_folder_without_runs_is_not_scanned_at_each_listing(tab, monkeypatch):
    monkeypatch.setattr(index, "PAUSE_S", 3600.0)
    scans, real = [], index.scan
    monkeypatch.setattr(index, "scan", lambda roots: (scans.append(roots), real(roots))[1])
    assert not any(tab.plugin.is_active() for _ in range(5)) and len(scans) == 1
