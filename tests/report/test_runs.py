import json

import pytest

from cnnpool.report.plots.learning_curve import history
from cnnpool.report.runs import find


def test_runs_are_found_at_any_depth_and_only_once(shelf):
    first = shelf.put("a/b/seed0", seed=0)
    shelf.put("c/seed1", seed=1)
    runs = find([shelf.root, first, shelf.root / "a"])
    assert sorted(run.seed for run in runs) == [0, 1]
    assert {run.state for run in runs} == {"done"}


def test_states_tell_failed_running_and_unfinished_apart(shelf):
    shelf.put(seed=0)
    for name, state in (
        ("failed", {"state": "failed", "error": "loss became NaN"}),
        ("running", {"state": "running"}),
    ):
        (shelf.root / name).mkdir()
        (shelf.root / name / "status.json").write_text(json.dumps(state))
    (shelf.root / "begun" / ".hydra").mkdir(parents=True)
    (shelf.root / "begun" / ".hydra" / "config.yaml").write_text("seed: 0\n")
    (shelf.root / "logged").mkdir()
    (shelf.root / "logged" / "metrics.jsonl").write_text("")
    states = {run.folder.name: (run.state, run.reason) for run in find([shelf.root])}
    assert states == {
        "seed0": ("done", ""),
        "failed": ("failed", "loss became NaN"),
        "running": ("running", ""),
        "begun": ("unfinished", "no results.json"),
        "logged": ("unfinished", "no results.json"),
    }


def test_no_metrics_is_an_empty_curve(shelf):
    (shelf.put(seed=0) / "metrics.jsonl").unlink()
    found = history(find([shelf.root]))
    assert (found.epochs, len(found.each)) == ([], 0)


def test_paths_that_hold_no_run_are_refused(tmp_path):
    with pytest.raises(ValueError, match="does not exist"):
        find([tmp_path / "nowhere"])
    with pytest.raises(ValueError, match="no run found"):
        find([tmp_path])
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="is not a folder"):
        find([tmp_path / "file"])
