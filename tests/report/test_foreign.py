"""Runs of other programs: their files as their writers make them, groups, seeds, values, and the verdicts."""

import csv
import json
import logging
import math
import os
from itertools import product

import numpy as np
import pytest
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from scipy import stats
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from tensorboard.util.tensor_util import make_tensor_proto
from torch.utils.tensorboard import SummaryWriter

import cnnpool
from cnnpool.report import main
from cnnpool.report.foreign import Value, likely, read
from cnnpool.report.scalars import read as read_logs

ACCURACIES = {"a": [0.5, 0.6, 0.55, 0.62, 0.58, 0.6], "b": [0.61, 0.66, 0.62, 0.7, 0.63, 0.69]}


def events(folder, points, tag="val_acc"):
    with SummaryWriter(folder) as writer:
        for step, value in points:
            writer.add_scalar(tag, value, step)


def rows(path, *lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(line + "\n" for line in lines))
    return path


def table(path, groups=ACCURACIES, names=("group", "seed", "acc")):
    lines = [f"{group},{seed},{x}" for group, some in groups.items() for seed, x in enumerate(some)]
    return rows(path, ",".join(names), *lines)


def text(capsys, *words, status=0):
    assert main([*map(str, words), "--no-board"] if status == 0 else [*map(str, words)]) == status
    captured = capsys.readouterr()
    return captured.out if status == 0 else captured.err


def values(paths, metric, **options):
    found = {}
    for run in read(paths, metric, **options):
        if run.found:
            found.setdefault(run.parts.get("group"), {})[run.seed] = run.measured[metric]
    return found


def test_paired_and_unpaired_verdicts_are_those_of_scipy(tmp_path):
    first, second = (np.array(ACCURACIES[name]) for name in "ab")
    found = cnnpool.compare(table(tmp_path / "runs.csv"), "acc")
    t = stats.ttest_rel(second, first)
    row = found[1]
    assert [one["choice"] for one in found] == ["a", "b"] and found.comparison.paired
    assert (row["p_holm"], row["pairs"]) == (pytest.approx(t.pvalue), 6)
    assert (row["difference_ci_low"], row["difference_ci_high"]) == pytest.approx(t.confidence_interval())
    # Other numbers in the second group: no pairs, and groups may be of any size.
    lines = [f"a,{seed},{x}" for seed, x in enumerate(first)]
    lines += [f"b,{9 + i},{x}" for i, x in enumerate(second[:5])]
    found = cnnpool.compare(rows(tmp_path / "apart.csv", "group,seed,acc", *lines), "acc")
    t, row = stats.ttest_ind(second[:5], first, equal_var=False), found[1]
    assert not found.comparison.paired and "not paired" in found.comparison.understood
    assert row["p"] == pytest.approx(t.pvalue)
    assert (row["difference_ci_low"], row["difference_ci_high"]) == pytest.approx(t.confidence_interval())
    wins = [(x > y) + (x == y) / 2 for x in second[:5] for y in first]
    assert row["superiority"] == pytest.approx(np.mean(wins)) and row["p_sign_flip"] is None
    assert "not paired" in repr(found) and "Welch" in repr(found)


def test_a_margin_is_tested_from_both_sides_and_the_runs_needed_have_the_power(tmp_path):
    first, second = (np.array(ACCURACIES[name]) for name in "ab")
    path, d = table(tmp_path / "runs.csv"), second - first
    (_, row) = cnnpool.compare(path, "acc", margin=0.2)
    assert row["verdict"] == "better"
    same = {"a": first.tolist(), "b": (first + np.array([0.01, -0.01, 0.02, -0.02, 0.015, -0.01])).tolist()}
    (_, row) = cnnpool.compare(table(tmp_path / "same.csv", same), "acc", margin=0.02)
    d0 = np.array(same["b"]) - first
    ends = ((0.02, "less"), (-0.02, "greater"))
    sides = [stats.ttest_1samp(d0, end, alternative=word).pvalue for end, word in ends]
    assert (max(sides) < 0.05) == (row["verdict"] == "differs by less than 0.0200") and max(sides) < 0.05
    assert "no difference" in cnnpool.compare(tmp_path / "same.csv", "acc", margin=0.005)[1]["verdict"]
    # So many pairs have 80 % power against this difference, one fewer has not; counted by the noncentral t.
    n = cnnpool.compare(path, "acc")[1]["needed"]
    size = d.mean() / d.std(ddof=1)

    def power(n):
        edge = stats.t.ppf(0.975, n - 1)
        return stats.nct.sf(edge, n - 1, size * math.sqrt(n))

    assert power(n) >= 0.8 > power(n - 1)


def test_the_writers_of_torch_lightning_and_keras_are_read_alike(tmp_path):
    for seed in (0, 1, 2):
        events(tmp_path / "torch" / f"seed_{seed}", [(1, 0.25), (2, 0.5 + seed)])
        for logger in (
            TensorBoardLogger(tmp_path / "lit_tb", version=seed),
            CSVLogger(tmp_path / "lit_csv", name="lightning_logs", version=seed),
        ):
            logger.log_metrics({"train_loss": 9.0}, step=0)
            logger.log_metrics({"val_acc": 0.25, "epoch": 0}, step=1)
            logger.log_metrics({"val_acc": 0.5 + seed, "epoch": 1}, step=2)
            logger.finalize("success")
        for half, shift in (("train", 9.0), ("validation", 0.0)):
            keras(tmp_path / "keras" / f"seed_{seed}" / half, [(1, 0.25), (2, 0.5 + seed + shift)])
    wanted = {0: 0.5, 1: 1.5, 2: 2.5}
    for kind in ("torch", "lit_tb", "lit_csv"):
        (found,) = values([tmp_path / kind], "val_acc").values()
        assert found == wanted
    (found,) = values([tmp_path / "keras"], "validation/epoch_accuracy").values()
    assert found == wanted


def keras(folder, points):
    """Tensor events of the scalars plugin, whose metadata stand in the first event alone."""
    writer = EventFileWriter(str(folder), filename_suffix=".v2")
    for place, (step, number) in enumerate(points):
        tensor = make_tensor_proto(np.float32(number))
        value = Summary.Value(tag="epoch_accuracy", tensor=tensor)
        if not place:
            value.metadata.plugin_data.plugin_name = "scalars"
        image = Summary.Value(tag="image", tensor=make_tensor_proto(np.zeros(3, np.float32)))
        writer.add_event(Event(step=step, wall_time=step, summary=Summary(value=[image, value])))
    writer.close()


def test_a_step_logged_twice_counts_once_and_a_cut_file_is_named(tmp_path):
    folder = tmp_path / "a" / "seed_0"
    events(folder, [(1, 0.1), (2, 0.2), (3, 0.9)])
    # Resumed from step 1: another file, with other values of the same steps.
    os.rename(next(folder.iterdir()), folder / "events.out.tfevents.1.host")
    events(folder, [(2, 0.3), (3, 0.4)])
    (log,) = read_logs(folder, sorted(os.listdir(folder)))
    assert (log.series["val_acc"][0].tolist(), log.problem) == ([1, 2, 3], "")
    assert log.series["val_acc"][1].tolist() == pytest.approx([0.1, 0.3, 0.4])
    last = folder / sorted(os.listdir(folder))[-1]
    last.write_bytes(last.read_bytes()[:-3])
    (log,) = read_logs(folder, sorted(os.listdir(folder)))
    assert log.series["val_acc"][1].tolist() == pytest.approx([0.1, 0.3, 0.9])
    assert log.problem == f"{last}: cut or damaged after 2 records"


def test_mlflow_and_wandb_are_grouped_by_their_parameters(tmp_path):
    for place, (lr, seed) in enumerate([(lr, seed) for lr in (0.1, 0.2) for seed in (0, 1, 2)]):
        run = tmp_path / "mlruns" / "1" / f"{place:032x}"
        for name, content in (("lr", lr), ("seed", seed)):
            rows(run / "params" / name, str(content))
        rows(run / "metrics" / "val" / "acc", f"10 {lr + seed} 1", f"11 {lr + seed + 5} 2")
        rows(run / "meta.yaml", f"status: {1 if place == 5 else 3}", f"run_name: bold-fox-{place}")
        rows(run / "artifacts" / "table.csv", "group,val/acc", "q,1")
        files = tmp_path / "wandb" / f"run-2026_1-{place}" / "files"
        rows(files / "wandb-summary.json", json.dumps({"val": {"acc": lr + seed}, "_step": 9, "ok": True}))
        config = [f"{name}:\n  value: {x}" for name, x in (("lr", lr), ("seed", seed), ("wandb_version", 1))]
        rows(files / "config.yaml", *config)
    by_lr = {}
    for run in read([tmp_path / "mlruns"], "val/acc"):
        if run.found:
            by_lr.setdefault(run.parts["lr"], {})[run.seed] = run.measured["val/acc"]
        else:
            assert (run.state, run.reason) == ("unfinished", "running") and run.folder.name.endswith("5")
    assert by_lr == {"0.1": {s: 0.1 + s + 5 for s in range(3)}, "0.2": {s: 0.2 + s + 5 for s in range(2)}}
    found = cnnpool.compare(tmp_path / "wandb", "val.acc")
    assert [(one["choice"], one["mean"]) for one in found] == [
        ("lr=0.1", pytest.approx(1.1)),
        ("lr=0.2", pytest.approx(1.2)),
    ]
    assert found.comparison.understood.startswith("2 groups by lr, 3 runs each, paired by the seed.")


@pytest.mark.parametrize(
    ("layout", "groups"),
    [
        ("{g}/lightning_logs/version_{s}", {"a", "b"}),
        ("{g}-seed{s}", {"a", "b"}),
        ("{g}_v{s}/logs", {"a", "b"}),
        ("runs/{s}/{g}", {"a", "b"}),
        ("{g}18/run-{s}/version_0", {"a18", "b18"}),
        ("fold_1/{g}/seed{s}/version_7", {"a", "b"}),
    ],
)
def test_groups_and_seeds_are_read_from_the_folders(tmp_path, layout, groups):
    for group, some in ACCURACIES.items():
        for seed, x in enumerate(some[:3]):
            rows(tmp_path / layout.format(g=group, s=seed) / "metrics.csv", "step,acc", f"1,{x}")
    found = cnnpool.compare(tmp_path, "acc")
    assert {one["choice"] for one in found} == groups and {one["seeds"] for one in found} == {"0 1 2"}
    assert found[0]["mean"] == pytest.approx(np.mean(ACCURACIES["a"][:3]))
    said = "2 groups, 3 runs each, paired by the number in the folder's name."
    assert found.comparison.understood.startswith(said)


def test_a_pattern_names_the_parts_and_what_does_not_fit_is_named(tmp_path, capsys):
    for lr in ("0.1", "0.2"):
        for seed in range(3):
            rows(tmp_path / "net" / f"lr{lr}" / f"s{seed}" / "log.csv", "step,acc", f"1,{float(lr) + seed}")
    rows(tmp_path / "old" / "log.csv", "step,acc", "1,0")
    for by in ("{group}/lr{lr}/s{seed}", r"(?P<group>\w+)/lr(?P<lr>[0-9.]+)/s(?P<seed>\d)"):
        found = cnnpool.compare(tmp_path, "acc", by=by)
        assert [one["choice"] for one in found] == ["net / lr=0.1", "net / lr=0.2"]
        assert any(f"old does not fit --by {by}" in note for note in found.comparison.notes)
    for by, message in (
        ("{nothing}/here{seed}", "no path fits it, such as net/lr0.1/s0"),
        ("lr0.1/s{seed}", "name a part that makes a group, such as {group}"),
        ("(?P<a>[", "unterminated character set"),
        ("lrr", "no run has this key"),
    ):
        assert message in text(capsys, tmp_path, "--by", by, status=2)


def test_runs_without_a_number_are_not_paired_and_two_of_one_number_are_refused(tmp_path, capsys):
    for group in "ab":
        for place in range(4):
            rows(tmp_path / group / f"May0{place}_10-00-0{place}_host" / "m.csv", "step,acc", f"1,{place}")
    found = cnnpool.compare(tmp_path, "acc")
    assert [(one["choice"], one["n"]) for one in found] == [("a", 4), ("b", 4)]
    assert "not paired, since no number says" in found.comparison.understood
    for name in ("a/x", "a/y"):
        rows(tmp_path / "twice" / name / "seed_1" / "m.csv", "step,acc", "1,1")
    err = text(capsys, tmp_path / "twice", "--by", r"(?P<group>a)/./seed_(?P<seed>\d)", status=2)
    assert "two runs of 'a' with seed 1" in err and "a/x/seed_1" in err and "a/y/seed_1" in err


def test_the_value_of_a_run_is_the_last_the_best_or_a_mean(tmp_path, capsys):
    curve = ["step,val_loss,note", "1,4,x", "2,1,x", "3,2,x", "4,3,x"]
    for group in "ab":
        for seed in range(3):
            rows(tmp_path / group / f"seed_{seed}" / "metrics.csv", *curve)
    asked = (capsys, tmp_path, "--metric", "val_loss")
    for options, mean, said in (
        ([], "3.0000 ± 0.0000", "Each run counts by its last value; by name, lower val_loss is better"),
        (["--best", "min"], "1.0000 ± 0.0000", "by its minimum, which is optimistic"),
        (["--mean-of-last", "2"], "2.5000 ± 0.0000", "by the mean of its last 2 points; by name, lower"),
        (["--last", "--best", "max"], "3.0000 ± 0.0000", "its last value; higher val_loss is better."),
    ):
        found = text(*asked, *options)
        assert mean in found and said in " ".join(found.split())
    assert "the mean of the last 0 points: name 1 or more" in text(*asked, "--mean-of-last", "0", status=2)
    assert "--margin -1: not a positive number" in text(*asked, "--margin=-1", status=2)
    assert "did you mean 'val_loss'?" in text(capsys, tmp_path, "--metric", "val_los", status=2)
    assert {Value().better(tag) for tag in ("val/top1_error", "NLL", "valErr", "testloss", "val_wer")} == {
        "lower"
    }
    assert {Value().better(tag) for tag in ("val_acc", "answer_accuracy", "inferred_acc")} == {"higher"}


def test_the_metric_is_one_of_most_logs_on_other_data_than_the_training(tmp_path, capsys):
    assert likely([*["train_acc"] * 6, *["val_acc"] * 6, *["test_acc"] * 2]) == "val_acc"
    for group, part, seed in product("ab", ("train", "validation"), range(3)):
        events(tmp_path / group / f"seed_{seed}" / part, [(0, 0.5)], "epoch_accuracy")
    assert "validation/epoch_accuracy" in text(capsys, tmp_path)
    lines = [f"{m},{o},{k},0.{k}" for m, o, k in product("ab", ("sgd", "adam"), range(1, 4))]
    found = cnnpool.compare(rows(tmp_path / "x.csv", "model,optimizer,time,accuracy", *lines), "accuracy")
    assert [one["n"] for one in found] == [3] * 4


def test_diverged_damaged_and_empty_runs_are_named_and_the_rest_goes_on(tmp_path, capsys):
    for seed in range(4):
        rows(tmp_path / "a" / f"seed_{seed}" / "metrics.csv", "step,acc,loss", f"1,0.{seed},", f"2,,{seed}")
        last = "nan" if seed == 3 else f"0.{seed + 3}"
        rows(tmp_path / "b" / f"seed_{seed}" / "metrics.csv", "step,acc", "1,0.1", f"2,{last}")
    rows(tmp_path / "b" / "seed_4" / "metrics.csv", "step,acc", "1,0.9", "2")
    (tmp_path / "a" / "seed_5").mkdir()
    (tmp_path / "a" / "seed_5" / "events.out.tfevents.1.host").write_bytes(b"")
    (tmp_path / "a" / "seed_6").mkdir()
    os.mkfifo(tmp_path / "a" / "seed_6" / "events.out.tfevents.1.host")
    rows(tmp_path / "a" / "seed_7" / "metrics.csv", "step,loss", "1,0.5")
    rows(tmp_path / "b" / "seed_5" / "metrics.csv", "step,acc", "1,0.5")
    found = text(capsys, tmp_path, "--metric", "acc", "--all")
    for named in (
        "b: acc is NaN for seed 3; left out of all means",
        "not judged: 1 seed without a number",
        f"seed_4: done: {tmp_path}/b/seed_4/metrics.csv: line 3 left out: not 2 columns",
        "tfevents.1.host is empty",
        "it is not a regular file",
        "seed_7: unfinished: no acc in it",
        f"b: 2 of 6 runs end before step 2, such as {tmp_path}/b/seed_4 at step 1, ",
    ):
        assert named in found
    numbers = csv.DictReader((tmp_path / "report" / "runs.csv").read_text().splitlines())
    assert [one["acc"] for one in numbers if one["choice"] == "a"] == ["0.0", "0.1", "0.2", "0.3"]
    # Its own report is no log of the next comparison.
    assert "acc (4 to 5 runs" in text(capsys, tmp_path, "--metric", "acc")


def test_several_metrics_have_a_table_each_corrected_by_itself(tmp_path, capsys):
    lines = [f"{g},{s},{x},{1 - x}" for g, some in ACCURACIES.items() for s, x in enumerate(some)]
    path = rows(tmp_path / "runs.csv", "model,seed,acc,loss", *lines)
    found = cnnpool.compare(path, "acc,loss")
    wanted = [("acc", "a"), ("acc", "b"), ("loss", "a"), ("loss", "b")]
    assert [(one["metric"], one["choice"]) for one in found] == wanted
    assert [one["p_holm"] for one in found if one["choice"] == "b"] == pytest.approx([found[1]["p"]] * 2)
    assert {one["verdict"] for one in found if one["choice"] == "b"} == {"better"}
    assert text(capsys, path, "--metric", "acc,loss").count("verdict") == 2


def test_the_tables_of_a_report_are_read_again_with_the_same_numbers(shelf, tmp_path, caplog):
    for pool, some in ACCURACIES.items():
        for seed, x in enumerate(some):
            shelf.put(pool=pool, seed=seed, accuracy=x)
    assert main([str(shelf.root), "--out", str(tmp_path / "out"), "--no-board"]) == 0
    own = cnnpool.compare(shelf.root)
    again = cnnpool.compare(tmp_path / "out" / "runs.csv", "test.accuracy")
    for key in ("choice", "n", "mean", "sd", "difference", "p", "p_holm", "superiority", "verdict"):
        assert [one[key] for one in own] == [one[key] for one in again], key
    # Beside runs of cnnpool others are left out, in a line.
    table(shelf.root / "other" / "runs.csv")
    with caplog.at_level(logging.WARNING):
        assert cnnpool.compare(shelf.root) == own
    assert "other, are left out: cnnpool's own runs are compared" in caplog.text
    with pytest.raises(ValueError, match="is a run of cnnpool: --best"):
        cnnpool.compare(shelf.root, best="max")


def test_csv_files_may_be_a_run_each_or_hold_the_steps_of_many(tmp_path):
    for group, some in ACCURACIES.items():
        for seed, x in enumerate(some):
            rows(tmp_path / "each" / f"{group}_seed{seed}.csv", "Epoch;acc", "1;0", f"2;{x}")
    lines = [f"{g},{s},{k},{x * k}" for g, xs in ACCURACIES.items() for s, x in enumerate(xs) for k in (0, 1)]
    rows(tmp_path / "long.csv", "model,seed,epoch,acc", *lines)
    whole = cnnpool.compare(table(tmp_path / "runs.csv"), "acc")
    for path in (tmp_path / "each", tmp_path / "long.csv"):
        for one, same in zip(cnnpool.compare(path, "acc"), whole, strict=True):
            assert [one[key] == same[key] for key in ("choice", "mean", "p")] == [True] * 3
