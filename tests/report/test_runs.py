import json

import pytest

from cnnpool.report.plots.learning_curve import history
from cnnpool.report.runs import find, finished


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


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "Expecting value"),
        ('{"schema": 1', "Expecting"),
        ("[1]", "not a JSON object"),
        ('{"schema": 2}', "schema 2 where this version reads 1"),
        ('{"schema": 1}', "pool: Field required"),
        ("[" * 100_000, "recursion"),
    ],
)
def test_damaged_results_are_named_with_their_file(shelf, text, why):
    path = shelf.put(seed=0) / "results.json"
    path.write_text(text)
    with pytest.raises(ValueError, match="is damaged") as caught:
        finished(find([shelf.root]))
    assert str(path) in str(caught.value)
    assert why in str(caught.value)


@pytest.mark.parametrize(
    "changes", [{"seed": "0"}, {"seed": True}, {"test": [1]}, {"overrides": "x"}, {"pool": {}}]
)
def test_entries_of_the_wrong_kind_are_damage(shelf, changes):
    path = shelf.put(seed=0)
    content = json.loads((path / "results.json").read_text())
    (path / "results.json").write_text(json.dumps(content | changes))
    assert find([shelf.root])[0].state == "damaged"


def test_a_half_written_line_costs_only_itself(shelf):
    path = shelf.put(seed=0) / "metrics.jsonl"
    path.write_bytes(
        b'{"step": 1, "epoch": 0, "val/accuracy": 0.5}\n'
        b'{"step": 2, "epoch": 1, "train/loss": 0.5}\n'
        b'{"step": 2, "epoch": 1, "val/accu{"step": 2, "epoch": 1, "val/accuracy": 0.7}\n'
        b'{"step": 3, "epoch": 2, "val/accuracy": 0.8}\n'
        b'{"step": 3, "epoch": 2, "val/accuracy": 0.9}\n\xff\n[1]\n{"step": 4, "epo'
    )
    found = history(find([shelf.root]))
    assert (found.epochs, found.accuracy[0].tolist()) == ([0, 2], [0.5, 0.9])


def test_no_metrics_is_an_empty_curve(shelf):
    (shelf.put(seed=0) / "metrics.jsonl").unlink()
    found = history(find([shelf.root]))
    assert (found.epochs, found.runs) == ([], 0)


def test_paths_that_hold_no_run_are_refused(tmp_path):
    with pytest.raises(ValueError, match="does not exist"):
        find([tmp_path / "nowhere"])
    with pytest.raises(ValueError, match="no run found"):
        find([tmp_path])
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="is not a folder"):
        find([tmp_path / "file"])


def test_runs_share_one_description_of_their_numbers(shelf):
    for seed in range(3):
        shelf.put(seed=seed)
    shelf.put(seed=3, quantities={"test.accuracy": {"title": "accuracy", "definition": "d"}})
    counted = []
    runs = sorted(find([shelf.root], lambda: counted.append(1)), key=lambda run: run.seed)
    assert runs[0].results.quantities is runs[1].results.quantities is runs[2].results.quantities
    assert runs[3].results.quantities == {"test.accuracy": {"title": "accuracy", "definition": "d"}}
    assert len(counted) == 4
