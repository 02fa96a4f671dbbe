"""Runs of other programs: tables, and logs as their writers make them; what is named, and what is refused."""

import csv
import itertools
import logging
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

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
from cnnpool.report import foreign, main
from cnnpool.report.foreign import Asked
from cnnpool.report.logs import event_log
from cnnpool.report.plots.choices import forest

ACCURACIES = {"a": [0.5, 0.6, 0.55, 0.62, 0.58, 0.6], "b": [0.61, 0.66, 0.62, 0.7, 0.63, 0.69]}
PATTERN = "{group}/seed_{seed}"
NAMED = {"by": "group", "seed": "seed"}


def each(groups=ACCURACIES):
    """Group, seed and value of every run."""
    return [(group, seed, x) for group, some in groups.items() for seed, x in enumerate(some)]


def events(folder, points, tag="val_acc", **options):
    with SummaryWriter(folder, **options) as writer:
        for step, value in points:
            writer.add_scalar(tag, value, step)


def rows(path, *lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(line + "\n" for line in lines))
    return path


def table(path, groups=ACCURACIES):
    return rows(path, "group,seed,acc", *(f"{group},{seed},{x}" for group, seed, x in each(groups)))


def columns(groups=ACCURACIES):
    return dict(zip(("group", "seed", "acc"), map(list, zip(*each(groups), strict=True)), strict=True))


def text(capsys, *words, status=0):
    assert main([*map(str, words), *["--no-board"] * (status == 0)]) == status
    captured = capsys.readouterr()
    return captured.out if status == 0 else captured.err


def means(path, metric, **options):
    return {one["choice"]: pytest.approx(one["mean"]) for one in cnnpool.compare(path, metric, **options)}


def each_run(root, write):
    for group, seed, x in each():
        write(root / group / f"seed_{seed}", x)
    return root


WANTED = {group: np.mean(some) for group, some in ACCURACIES.items()}


def test_paired_and_unpaired_verdicts_are_those_of_scipy(tmp_path):
    first, second = (np.array(ACCURACIES[name]) for name in "ab")
    found = cnnpool.compare(table(tmp_path / "runs.csv"), "acc", **NAMED)
    t, row = stats.ttest_rel(second, first), found[1]
    assert [one["choice"] for one in found] == ["a", "b"] and found.comparison.paired
    assert (row["p_holm"], row["pairs"]) == (pytest.approx(t.pvalue), 6)
    assert (row["difference_ci_low"], row["difference_ci_high"]) == pytest.approx(t.confidence_interval())
    # Other seeds in the second group, or none at all: no pairs, and groups may be of any size.
    lines = [f"a,{seed},{x}" for seed, x in enumerate(first)]
    lines += [f"b,{9 + i},{x}" for i, x in enumerate(second[:5])]
    path = rows(tmp_path / "apart.csv", "group,seed,acc", *lines)
    for seed, why in (("seed", "their seeds differ"), ("none", "no seed says which belong together")):
        found = cnnpool.compare(path, "acc", by="group", seed=seed)
        t, row = stats.ttest_ind(second[:5], first, equal_var=False), found[1]
        assert not found.comparison.paired and f"not paired, since {why}" in found.comparison.understood
        assert row["p"] == pytest.approx(t.pvalue)
        assert (row["difference_ci_low"], row["difference_ci_high"]) == pytest.approx(t.confidence_interval())
        wins = [(x > y) + (x == y) / 2 for x in second[:5] for y in first]
        assert row["superiority"] == pytest.approx(np.mean(wins))
        assert (row["pairs"], row["seeds"]) == (None, "9 10 11 12 13" if seed == "seed" else None)
    # Nothing is said of pairs, of seeds that are rows, or of a margin that nobody named.
    shown = found._repr_html_()
    assert not re.search("<b>seed|>pairs<|TOST|Glossary|without options", shown)
    assert "made by cnnpool 0." in shown
    [other] = cnnpool.compare(path, "acc", by="group", seed="none", baseline="b").comparison.rows[1:]
    [named] = forest(found.comparison, [(other, other.versus.differences, other.versus.summary)])
    assert (named.name, other.versus.summary.n) == ("a (n=6)", 5)
    # With a third group, the line that pairs the two that can be.
    path = rows(tmp_path / "odd.csv", "group,seed,acc", *lines, *(f"c,{i},{x}" for i, x in enumerate(second)))
    found = cnnpool.compare(path, "acc", by="group", seed="seed")
    assert found.comparison.notes == ["a, c alone are paired by seed: --where group=a,c"]
    assert cnnpool.compare(path, "acc", by="group", seed="seed", where="group=a,c").comparison.paired


def test_a_row_without_a_number_is_named_by_its_place_where_it_has_no_seed():
    [*_, last] = table = [{"group": group, "acc": x} for group, _, x in each()]
    last["acc"] = math.nan
    found = cnnpool.compare(table, "acc", by="group", seed="none")
    assert found.comparison.notes == ["b: acc is NaN for row 11; left out of all means"]
    assert found[1]["verdict"] == "not judged: 1 run without a number"
    # Such rows, as here, have columns without any cell.
    assert cnnpool.compare(found, "mean", by="choice", seed="none")[0]["choice"] == "choice=a"


@pytest.mark.parametrize(
    ("key", "done", "note"),
    [
        ("State", ["finished"] * 9, ": --where State=finished compares the others alone"),
        ("status", ["FINISHED"] * 9, ": --where status=FINISHED compares the others alone"),
        # A run of which nothing is known is kept; without a line that keeps all the others, there is none.
        ("state", ["", *["done"] * 8], ": --where state=,done compares the others alone"),
        ("state", ["a,b", *["done"] * 8], ""),
        ("state", [""] * 9, ""),
    ],
)
def test_runs_that_did_not_finish_are_counted_with_the_line_that_leaves_them_out(key, done, note):
    table = columns() | {key: ["failed", "CRASHED", *done, "failed"]}
    found = cnnpool.compare(table, "acc", **NAMED)
    assert found.comparison.notes == [f"{key} is failed for 2, CRASHED for 1 of 12 runs{note}"]
    assert [one["n"] for one in found] == [6, 6]
    if note:
        found = cnnpool.compare(table, "acc", **NAMED, where=note.split()[2])
        assert [one["n"] for one in found] == [4, 5] and key not in "".join(found.comparison.notes)


def test_what_only_sounds_like_an_end_or_is_the_choice_is_no_note():
    table = columns() | {"state": ["running shoes", *["errors=0"] * 11]}
    assert cnnpool.compare(table, "acc", **NAMED).comparison.notes == []
    table["state"] = ["fine" if one == "a" else "crashed" for one in table["group"]]
    assert cnnpool.compare(table, "acc", by="state", seed="seed").comparison.notes == []


def test_percent_have_two_decimals_each():
    table = {"group": [*"aaabbb"], "seed": [0, 1, 2, 0, 1, 2], "acc": [86.1, 85, 84, 80, 81, 82]}
    said = str(cnnpool.compare(table | {"err": table["acc"]}, "acc,err", by="group", seed="seed"))
    assert "85.03 ± 1.05" in said and "81.00 ± 1.00" in said and "[-9.13, +1.06]" in said
    assert "more measure" not in said


def test_a_margin_is_tested_from_both_sides_and_the_runs_needed_have_the_power(tmp_path):
    first, second = (np.array(ACCURACIES[name]) for name in "ab")
    path, d = table(tmp_path / "runs.csv"), second - first
    (_, row) = cnnpool.compare(path, "acc", **NAMED, margin=0.2)
    assert row["verdict"] == "better"
    same = {"a": first.tolist(), "b": (first + np.array([0.01, -0.01, 0.02, -0.02, 0.015, -0.01])).tolist()}
    (_, row) = cnnpool.compare(table(tmp_path / "same.csv", same), "acc", **NAMED, margin=0.02)
    d0 = np.array(same["b"]) - first
    ends = ((0.02, "less"), (-0.02, "greater"))
    sides = [stats.ttest_1samp(d0, end, alternative=word).pvalue for end, word in ends]
    assert (max(sides) < 0.05) == (row["verdict"] == "differs by less than 0.0200") and max(sides) < 0.05
    found = cnnpool.compare(tmp_path / "same.csv", "acc", **NAMED, margin=0.005)
    assert "no difference" in found[1]["verdict"]
    # So many pairs have 80 % power against this difference, one fewer has not; counted by the noncentral t.
    n = cnnpool.compare(path, "acc", **NAMED)[1]["needed"]
    size = d.mean() / d.std(ddof=1)

    def power(n):
        edge = stats.t.ppf(0.975, n - 1)
        return stats.nct.sf(edge, n - 1, size * math.sqrt(n))

    assert power(n) >= 0.8 > power(n - 1)


def test_the_runs_needed_of_each_do_not_depend_on_how_many_there_are():
    # Means 0 and 0.9, each group with a standard deviation of 1.
    six, many = (np.resize([-1.0, 1.0], n) * math.sqrt((n - 1) / n) for n in (6, 200))
    needed = []
    for base, shift in ((six, 0.9), (many, 0.9), (many, -0.9)):
        rows = {"group": ["a"] * len(base) + ["b"] * len(six), "acc": [*base, *(six + shift)]}
        (_, row) = cnnpool.compare(rows, "acc", by="group", seed="none")
        assert row["difference_sd"] == pytest.approx(math.sqrt(2))
        needed.append(row["needed"])

    # Two independent groups of 21 have 80 % power, of 20 not.
    def power(n):
        return stats.nct.sf(stats.t.ppf(0.975, 2 * n - 2), 2 * n - 2, 0.9 * math.sqrt(n / 2))

    assert needed == [21, 21, 21] and power(21) >= 0.8 > power(20)


def test_a_group_too_small_for_a_verdict_leaves_the_others_their_pairs():
    groups = {"a": [0.7, 0.78, 0.85, 0.91], "b": [0.721, 0.799, 0.8705, 0.93], "c": [0.72]}
    verdicts = [row["verdict"] for row in cnnpool.compare(columns(groups), "acc", **NAMED)]
    assert verdicts == ["baseline", "better", "too few seeds (1, at least 3 are needed)"]


def test_a_value_that_is_no_number_is_a_run_that_diverged_in_any_precision():
    found = columns({"a": [0.9, 0.91, 0.92, 0.93], "b": [0.95, 0.96, 0.97, math.nan]})
    for kind in (float, np.float32, np.float64):
        own = found | {"acc": list(map(kind, found["acc"]))}
        assert cnnpool.compare(own, "acc", **NAMED)[1]["verdict"] == "not judged: 1 seed without a number"


def test_a_mapping_of_columns_and_a_frame_are_the_table_that_a_csv_file_is(tmp_path):
    whole = cnnpool.compare(table(tmp_path / "runs.csv"), "acc", **NAMED)

    class Frame:
        columns = ("group", "seed", "acc")

        def __getitem__(self, name):
            return np.array(columns()[name])

    dicts = [{"group": group, "seed": seed, "acc": x} for group, seed, x in each()]
    for data in (columns(), Frame(), dicts):
        assert cnnpool.compare(data, "acc", **NAMED) == whole
    some = {name: column[:9] for name, column in columns().items()}
    lacking = some | {"acc": [*some["acc"][:8], None]}
    assert means(lacking, "acc", **NAMED)["b"] == np.mean(ACCURACIES["b"][:2])
    for data, said in (
        (some | {"group": [*some["group"][:8], math.nan]}, "row 8: group is missing"),
        ([("a", 0, 1.0)], "or a list of a dict for each row"),
        (some | {"acc": [1.0]}, "of one length"),
    ):
        with pytest.raises(ValueError, match=said):
            cnnpool.compare(data, "acc", **NAMED)


@pytest.mark.parametrize("missing", ["metric", "by", "seed"])
def test_what_is_not_named_is_listed_with_the_line_to_type(tmp_path, capsys, missing, monkeypatch):
    path = table(tmp_path / "runs.csv")
    options = {"metric": "acc", "by": "group", "seed": "seed"}
    given = [word for key, value in options.items() if key != missing for word in (f"--{key}", value)]
    err = text(capsys, path, *given, status=2)
    for said in (f"{path} holds 12 runs", "group: 2 values, a, b", "seed: 6 values, 0, 1, 2"):
        assert said in err
    line = f"cnnpool compare {path} --metric acc --by group --seed seed"
    assert f"\ntype: {line}\n" in err
    assert main([*line.split()[2:], "--no-board"]) == 0
    with pytest.raises(ValueError, match="type: compare\\(table, metric='acc', by='group', seed='seed'\\)"):
        cnnpool.compare(columns(), **{key: value for key, value in options.items() if key != missing})
    curves = rows(tmp_path / "chart.csv", "Step,a - acc,a - acc__MIN", "1,0.5,0.5", "2,0.6,0.6")
    suggested = "if its rows are steps, as Step suggests: give a table with a row a run"
    assert suggested in text(capsys, curves, "--metric", "acc", status=2) and suggested not in err
    root = each_run(tmp_path / "logs", lambda folder, x: events(folder, [(1, x)]))
    with SummaryWriter(root / "a" / "seed_0") as writer:
        writer.add_scalars("loss", {"train": 0.1, "val": 0.2}, 1)
    err = text(capsys, root, "--metric", "val_acc", status=2)
    for said in (f"{root} holds 12 runs: ", "val_acc: logged by 12 runs", " by 1 run\n", f"runs: {root}/a/"):
        assert said in err
    assert f"\ntype: cnnpool compare {root} --metric val_acc --runs '{PATTERN}'\n" in err
    monkeypatch.setattr(foreign, "HEADS", 5)
    err = text(capsys, root, "--metric", "val_acc", status=2)
    assert f"{root} holds 12 runs, of which 5 were read for this list: " in err and "by 5 runs" in err
    assert "did you mean 'val_acc'?" in text(capsys, root, "--metric", "val_ac", "--runs", PATTERN, status=2)
    for group in ("a", "b"):
        for seed in range(6):
            (root / group / f"seed_{seed}").rename(root / group / f"seed{seed}")
    counted = "--mean-of-last 1 --where group=a"
    err = text(capsys, root, "--metric", "val_acc", *counted.split(), status=2)
    line = f"cnnpool compare {root} --metric val_acc --runs '{{group}}/seed{{seed}}' {counted}"
    assert f"\ntype: {line}\n" in err
    assert main([*shlex.split(line)[2:], "--no-board"]) == 0


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ('"0,91"', 'acc: "0,91" is not a number: decimal commas? give --decimal ,'),
        ("91 %", 'acc: "91 %" is not a number: leave out any % or unit, or all of it'),
        ("1_000", 'acc: "1_000" is not a number'),
        ("True", 'acc: "True" is not a number'),
    ],
)
def test_what_is_not_a_number_is_named_with_its_place(tmp_path, capsys, cell, said):
    path = rows(tmp_path / "runs.csv", "group,seed,acc", "a,0,0.5", "b,0,0.5", f"b,1,{cell}")
    err = text(capsys, path, "--metric", "acc", "--by", "group", "--seed", "seed", status=2)
    assert f"error: {path}, line 4, {said}" in err
    # A row that is left out is not judged.
    assert means(path, "acc", **NAMED, where=["seed=0"]) == {"a": 0.5, "b": 0.5}
    assert means(path, "acc", **NAMED, where=["group=a", "group=c"]) == {"a": 0.5}
    log = rows(tmp_path / "logs" / "a" / "seed_0" / "log.csv", "step,acc", "1,0.5", f"2,{cell}")
    err = text(capsys, tmp_path / "logs", "--metric", "acc", "--runs", PATTERN, status=2)
    assert f"{log}, line 3, {said}" in err


def test_decimal_commas_are_read_where_they_are_named(tmp_path):
    lines = [f"{group};{seed};{x}".replace(".", ",") for group, seed, x in each()]
    path = rows(tmp_path / "runs.csv", "group;seed;acc", *lines)
    assert means(path, "acc", **NAMED, decimal=",") == WANTED
    log = rows(tmp_path / "a" / "seed_0" / "log.csv", "epoch;acc", "0,5;0,1", "1,5;0,2")
    assert means(tmp_path, "acc", runs=PATTERN, decimal=",") == {"a": 0.2}
    with pytest.raises(ValueError, match=f'{log}, line 2, acc: "0,1" is not a number: decimal commas'):
        cnnpool.compare(tmp_path, "acc", runs=PATTERN)


@pytest.mark.parametrize(
    ("lines", "options", "said"),
    [
        ("a,0,1 a,0,2", {}, "runs of 'a' with seed 0: .*line 2 and .*line 3; they have the same settings"),
        ("a,0,1 a,x,2", {}, 'line 3, seed: "x" is not a whole number from 0; --seed none'),
        ("a,0,1 a,,2", {}, "line 3: seed is missing"),
        ("a,0,1 a,1", {}, "line 3 has 2 cells, and the header has 3"),
        ("a,0,1", {"by": "grup"}, r"line 2: grup is missing; did you mean 'group'\?"),
        ("", {}, "it has no rows below a header"),
        ("a,0,1", {"where": ["seed=7"]}, "--where seed=7: no run has it; seed is one of 0"),
        ("a,0,1", {"where": ["sed=7"]}, r"--where sed: no run has this key; did you mean 'seed'\?"),
        ("group,seed,acc,acc a,0,1,2", {}, "2 columns are called acc"),
        ("group,seed,t,acc a,0,5,1 a,0,6,2 a,0,7,3", {}, r"\(t: 5 or 7\): keep one by --where t=7, "),
        ("group,epoch,acc a,0,1 a,1,2", {"seed": "epoch"}, "--seed epoch: that numbers steps of a run"),
    ],
)
def test_rows_that_are_no_runs_are_refused_with_their_places(tmp_path, lines, options, said):
    header = ["group,seed,acc"][: not lines.startswith("group")]
    path = rows(tmp_path / "runs.csv", *header, *lines.split())
    with pytest.raises(ValueError, match=said):
        cnnpool.compare(path, "acc", **NAMED | options)


CURVES = {
    "one a choice": ("t", [(g, k) for g in "ab" for k in range(9)]),
    "several a choice": ("t", [(g, k) for g in "ab" for _ in range(3) for k in range(1, 9)]),
    "stopped early": ("t", [("a", k) for k in range(9)] + [("b", k) for k in range(5)]),
    "beside a last row": ("epoch", [("a", k) for k in range(9)] + [("b", 8)]),
    "in any order": ("t", [(g, 7 * k % 9) for k in range(9) for g in "ab"]),
    "of fractions": ("t", [(g, k / 10) for g in "ab" for k in range(8)]),
    "one after the other": ("round", [("a", k) for k in range(9)] + [("b", k) for k in range(9, 18)]),
    "begun elsewhere": ("round", [("a", 5 * k % 9) for k in range(9)] + [("b", k) for k in range(4, 12)]),
}


@pytest.mark.parametrize("kind", CURVES)
def test_rows_of_a_curve_are_no_runs_without_seeds(tmp_path, kind):
    name, steps = CURVES[kind]
    path = rows(tmp_path / "long.csv", f"group,{name},acc", *(f"{g},{k},{0.5 + k / 100}" for g, k in steps))
    runs = "; if it numbers runs: --seed t$" if name == "t" else "$"
    for said in (
        rf"they differ in {name}\n  {name}: [0-8.]+ \([0-9]x, such as {path}, line [2-9]\); ",
        f"tell them apart: --by group,{name}, or mix them knowingly: --allow {name}\n",
        f"  if it numbers steps of a run: keep the last row{runs}",
    ):
        with pytest.raises(ValueError, match=said):
            cnnpool.compare(path, "acc", by="group", seed="none")
    found = cnnpool.compare(path, "acc", by="group", seed="none", allow=[name])
    assert sum(one["n"] for one in found) == len(steps)


@pytest.mark.parametrize("cell", ["{place}", "{stamp}", "r{seed}", "9", "{x}"])
def test_columns_that_number_no_steps_are_no_curve(tmp_path, cell):
    lines = [
        f"{cell.format(place=place, stamp=1.7e9 + place / 8, seed=seed, x=x)},{group},{x}"
        for place, (group, seed, x) in enumerate(each())
    ]
    path = rows(tmp_path / "runs.csv", ",group,acc", *lines)
    assert means(path, "acc", by="group", seed="none") == WANTED


def test_the_writers_of_torch_lightning_and_keras_are_read_alike(tmp_path):
    def torch(folder, x):
        events(folder, [(1, 0.25), (2, x)])

    def lightning(logger):
        def write(folder, x):
            one = logger(folder, version=0)
            one.log_metrics({"train_loss": 9.0}, step=0)
            one.log_metrics({"val_acc": 0.25, "epoch": 0}, step=1)
            one.log_metrics({"val_acc": x, "epoch": 1}, step=2)
            one.finalize("success")

        return write

    for place, write in enumerate((torch, lightning(TensorBoardLogger), lightning(CSVLogger))):
        each_run(tmp_path / str(place), write)
        assert means(tmp_path / str(place), "val_acc", runs=PATTERN) == WANTED

    def keras(folder, x):
        for half, value in (("train", 9.0), ("validation", x)):
            tensors(folder / half, [(1, 0.25), (2, value)])

    each_run(tmp_path / "keras", keras)
    assert means(tmp_path / "keras", "validation/epoch_accuracy", runs=PATTERN) == WANTED
    said = r"epoch_accuracy differs between .*/train and .*/validation: name one"
    with pytest.raises(ValueError, match=said):
        cnnpool.compare(tmp_path / "keras", "epoch_accuracy", runs=PATTERN)


@pytest.mark.parametrize("names", [("metrics", "test"), ("x/metrics", "y/metrics"), ("x/a/m", "y/a/m")])
def test_logs_of_a_run_that_differ_are_named_as_the_refusal_says(tmp_path, names):
    def write(folder, x):
        for name, value in zip(names, (0.3, x), strict=True):
            rows(folder / f"{name}.csv", "step,acc", f"1,{value}")

    with pytest.raises(ValueError, match=r"differs between .* name one") as caught:
        cnnpool.compare(each_run(tmp_path, write), "acc", runs=PATTERN)
    metric = str(caught.value).partition("--metric ")[2].partition(",")[0]
    assert metric == f"{names[1]}/acc" and means(tmp_path, metric, runs=PATTERN) == WANTED


def tensors(folder, points):
    """Tensor events of the scalars plugin, whose metadata stand in the first event alone."""
    writer = EventFileWriter(str(folder), filename_suffix=".v2")
    for place, (step, number) in enumerate(points):
        value = Summary.Value(tag="epoch_accuracy", tensor=make_tensor_proto(np.float32(number)))
        if not place:
            value.metadata.plugin_data.plugin_name = "scalars"
        image = Summary.Value(tag="image", tensor=make_tensor_proto(np.zeros(3, np.float32)))
        writer.add_event(Event(step=step, wall_time=step, summary=Summary(value=[image, value])))
    writer.close()


@pytest.mark.parametrize("new_style", [False, True])
def test_a_restart_takes_back_what_it_purges_or_repeats_and_a_cut_file_is_named(tmp_path, new_style):
    def log(points, suffix, **options):
        with SummaryWriter(tmp_path, filename_suffix=suffix, **options) as writer:
            for step, value in points:
                writer.add_scalar("acc", value, step, new_style=new_style)
        # A process counts its files of a second without leading zeros, so that the tenth would be the first.
        [path] = tmp_path.glob(f"*{suffix}")
        path.rename(tmp_path / f"events.out.tfevents{suffix}")

    def read():
        one = event_log(tmp_path, ["acc"])
        return [list(map(pytest.approx, some)) for some in one.curves["acc"]], one.problem

    log([(1, 0.1), (2, 0.2), (3, 0.9), (4, 0.9)], ".a")
    log([(3, 0.3)], ".b", purge_step=3)
    # The accumulator does not purge scalars of the new style: what was logged later counts all the same.
    back = "steps of acc repeat or go back: what was logged later counts"
    assert read() == ([[1, 2, 3], [0.1, 0.2, 0.3]], back * new_style)
    # A restart that purges nothing, and is shorter.
    log([(1, 0.4), (2, 0.5)], ".c")
    assert read() == ([[1, 2], [0.4, 0.5]], back)
    last = tmp_path / sorted(os.listdir(tmp_path))[-1]
    last.write_bytes(last.read_bytes()[:-3])
    (_, found), problem = read()
    assert found[-1] == 0.4 and problem.startswith(f"{last} is cut after 2 records")


@pytest.mark.parametrize("name", ["epochs", "round", "training_iteration", "timestep", ""])
def test_a_column_that_rises_holds_the_steps_whatever_its_name(tmp_path, name):
    def write(folder, x):
        rows(folder / "log.csv", f"{name},note,acc", "0.33,-,0.1", "0.66,-,", f"0.99,-,{x}")

    found = cnnpool.compare(each_run(tmp_path, write), "acc", runs=PATTERN)
    assert {one["choice"]: one["mean"] for one in found} == pytest.approx(WANTED)
    run = found.comparison.rows[0].choice.runs[0]
    assert run.series["acc"][0].tolist() == [0.33, 0.99] and len(found.comparison.compared) == 12
    first, falls = tmp_path / "a" / "seed_0" / "log.csv", ", and no column of steps rises"
    for lines, said in (
        (f"{name},acc 1,0.1 2,0.2 2,0.3", f"log.csv, line 4: {name or 'column_1'} goes from 2 to 2{falls}"),
        # A clock goes on where a restart repeats steps, and seeds are no steps.
        ("time,epoch,acc 1,1,0.1 2,2,0.9 3,1,0.3", f"line 4: epoch goes from 2 to 1{falls}"),
        ("seed,acc 1,0.1 2,0.9", "rows differ in seed: give a table of runs by its name"),
    ):
        rows(first, *lines.split())
        with pytest.raises(ValueError, match=said):
            cnnpool.compare(tmp_path, "acc", runs=PATTERN)
    # Steps within an epoch begin anew, and the clock orders them.
    rows(first, "time,epoch,step,seed,acc", "1,0,0,0,0.1", "2,0,9,,0.2", "3,1,0,,0.5")
    assert means(tmp_path, "acc", runs=PATTERN) == WANTED


def test_a_job_of_hydra_is_one_run_whatever_lies_beside_its_logs(tmp_path):
    for place, (lr, seed, x) in enumerate(each()):
        folder = tmp_path / str(place)
        rows(folder / ".hydra" / "config.yaml", f"optimizer: {{lr: {lr}}}", f"seed: {seed}")
        for name in ("results.json", "metrics.jsonl", "status.json"):
            rows(folder / name, '{"state": "x"}')
        events(folder / "tb" / "version_0", [(1, 0.1), (2, x)])
        table = folder / "csv" / "version_0"
        rows(table / "metrics.csv", "epoch,step,val_acc", "0,1,0.1", f"1,2,{x}")
        rows(table / "hparams.yaml", f"seed: {seed}", "size: !!python/tuple [1, 2]")
        with SummaryWriter(folder / "tb" / "version_0") as writer:
            writer.add_scalars("loss", {"train": 0.1, "val": 1 - x}, 1)
    keys = {"by": "optimizer.lr", "seed": "seed"}
    for metric, sign, at in (("val_acc", 1, 0), ("loss_val/loss", -1, 1)):
        wanted = {f"optimizer.lr={lr}": at + sign * mean for lr, mean in WANTED.items()}
        assert means(tmp_path, metric, **keys) == wanted
    # Another value under the same key: the label has both.
    rows(tmp_path / "0" / "csv" / "version_0" / "hparams.yaml", "optimizer: {lr: c}", "seed: 0")
    assert "optimizer.lr=c and a" in means(tmp_path, "val_acc", **keys)


TAGGED = {
    "a function": ["f: !!python/name:math.sqrt ''"],
    "an object": ["d: !!python/object/new:torch.device", "- cuda"],
    "a tag of their own": ["p: !Custom {a: 1}"],
    "a set and bytes": ["s: !!set {x, y}", "b: !!binary aGk="],
    "an anchor": ["m: &one {w: 1}", "n: *one", "k: {<<: *one, v: 2}"],
    "values that are none": ["t: 2024-13-01", "b: !!bool maybe", "x: !!float y"],
}


@pytest.mark.parametrize("kind", TAGGED)
def test_parameters_beside_a_tagged_value_are_kept(tmp_path, kind):
    for place, (group, seed, x) in enumerate(each()):
        folder = tmp_path / f"version_{place}"
        rows(folder / "hparams.yaml", "!Namespace", f"net: {group}", f"seed: {seed}", *TAGGED[kind])
        rows(folder / "metrics.csv", "epoch,step,val_acc", "0,1,.1", f"1,2,{x}")
    wanted = {f"net={group}": mean for group, mean in WANTED.items()}
    assert means(tmp_path, "val_acc", by="net", seed="seed") == wanted
    rows(tmp_path / "version_0" / "hparams.yaml", "net: a: b")
    with pytest.raises(ValueError, match=r"version_0/hparams.yaml is damaged: .*; mend or remove it"):
        cnnpool.compare(tmp_path, "val_acc", by="net", seed="seed")


def test_links_are_entered_once_and_what_they_lead_to_has_its_own_name(tmp_path):
    root = each_run(tmp_path / "logs", lambda folder, x: events(folder, [(1, x)]))
    shutil.move(root / "b", tmp_path / "elsewhere")
    (root / "b").symlink_to(tmp_path / "elsewhere")
    (root / "a" / "best").symlink_to(root / "a" / "seed_3")
    (root / "a" / "loop").symlink_to(root)
    for name, target in (("itself", "itself"), ("one", "other"), ("other", "one"), ("nothing", "nowhere")):
        (root / "a" / name).symlink_to(target)
    (tmp_path / "logs" / "z").symlink_to("a")
    found = cnnpool.compare([root / "z", root], "val_acc", runs=PATTERN)
    assert [(one["choice"], one["n"]) for one in found] == [("a", 6), ("b", 6)]
    assert found.comparison.notes == []


@pytest.mark.parametrize("name", ["a_8.csv", "_latest.csv"])
def test_a_file_and_a_link_to_it_are_one(tmp_path, name):
    for group, seed, x in each():
        rows(tmp_path / f"{group}_{seed}.csv", "step,acc", f"1,{x}")
    (tmp_path / name).symlink_to("a_0.csv")
    assert means(sorted(tmp_path.glob("*.csv")), "acc", runs="{group}_{seed}") == WANTED
    whole, again = table(tmp_path / "table" / "runs.csv"), tmp_path / "table" / "again.csv"
    again.symlink_to("runs.csv")
    assert [one["n"] for one in cnnpool.compare([whole, again], "acc", **NAMED)] == [6, 6]


def test_a_pattern_names_the_parts_and_what_does_not_fit_is_named(tmp_path, capsys):
    for lr in ("0.1", "0.2"):
        for seed in range(3):
            rows(tmp_path / "net" / f"lr{lr}" / f"s{seed}" / "log.csv", "step,acc", f"1,{float(lr) + seed}")
    rows(tmp_path / "old" / "log.csv", "step,acc", "1,0")
    found = cnnpool.compare(tmp_path, "acc", runs="{group}/lr{lr}/s{seed}")
    assert [one["choice"] for one in found] == ["net / lr=0.1", "net / lr=0.2"]
    [note] = found.comparison.notes
    assert "old" in note and "one of 1 logs whose paths do not fit" in note
    for pattern, message in (
        ("{nothing}/here{seed}", "no path fits it, such as"),
        ("lr0.1/s{seed}", "name parts of a path, once each, such as {group}/seed_{seed}"),
        ("{a}r{b}/s{seed}", ""),
        ("{group}{lr}/s{seed}", "fits in several ways"),
    ):
        err = text(capsys, tmp_path, "--metric", "acc", "--runs", pattern, status=2 if message else 0)
        assert message in err
    # Files of one folder are runs where the pattern says so.
    for group, seed, x in each():
        rows(tmp_path / "each" / f"{group}_seed{seed}.csv", "Epoch;acc", "1;0", f"2;{x}")
    assert means(tmp_path / "each", "acc", runs="{group}_seed{seed}") == WANTED
    said = "\ntype: cnnpool compare {} --metric acc --runs '{{group}}_seed{{seed}}'\n"
    assert said.format(tmp_path / "each") in text(capsys, tmp_path / "each", "--metric", "acc", status=2)
    for group, seed, x in each():
        rows(tmp_path / "folders" / f"{group}1_seed{seed}" / "log.csv", "step,acc", f"1,{x}")
    found = text(capsys, tmp_path / "folders", "--metric", "acc", status=2)
    assert said.format(tmp_path / "folders") in found
    for group, seed, x in each():
        rows(tmp_path / "nested" / group / f"seed_{seed}.csv", "step,acc", f"1,{x}")
    said = said.replace("_seed", "/seed_").format(tmp_path / "nested")
    assert said in text(capsys, tmp_path / "nested", "--metric", "acc", status=2)
    assert means(tmp_path / "nested", "acc", runs="{group}/seed_{seed}") == WANTED


def test_the_value_of_a_run_is_the_last_the_best_or_a_mean(tmp_path, capsys):
    for group in "ab":
        for seed in range(3):
            curve = ["step,val_loss,note", "1,4,x", "2,1,x", "3,2,x", "4,3,x"]
            rows(tmp_path / group / f"seed_{seed}" / "metrics.csv", *curve)
    asked = (capsys, tmp_path, "--metric", "val_loss", "--runs", PATTERN)
    for options, mean, header, said in (
        ([], "3.0000", "last value", "Each run counts by its last value; by name, lower val_loss is better"),
        (["--best", "min"], "1.0000", "minimum", "by its minimum, which is optimistic"),
        (["--mean-of-last", "2"], "2.5000", "mean of its last 2 points", "points; by name, lower"),
        (["--last", "--best", "max"], "3.0000", "last value", "its last value; higher val_loss is better."),
    ):
        found = text(*asked, *options)
        assert f"{mean} ± 0.0000" in found and said in " ".join(found.split())
        assert f"val_loss ({header}), mean ± sd" in found
    for k in "05":
        said = "has 4 points: name 1 to 4 with --mean-of-last"
        assert said in text(*asked, "--mean-of-last", k, status=2)
    assert "--margin -1: not a positive number" in text(*asked, "--margin=-1", status=2)
    for tag in ("val/top1_error", "NLL", "valErr", "testloss", "val_wer"):
        assert Asked().better(tag) == "lower"
    for tag in ("val_acc", "answer_accuracy", "F1"):
        assert Asked().better(tag) == "higher"
    # A name that says neither: no choice is called better.
    lines = [f"{group},{seed},{x}" for group, seed, x in each()]
    found = cnnpool.compare(rows(tmp_path / "t.csv", "group,seed,time", *lines), "time", **NAMED)
    assert found[1]["verdict"] == "higher"
    assert "no better direction is known for time" in found.comparison.understood
    # A row of a table is no curve.
    found = repr(cnnpool.compare(tmp_path / "t.csv", "time", **NAMED, best="min"))
    assert "paired by seed. Lower time is better." in found and "time, mean ± sd" in found


def test_diverged_damaged_and_empty_runs_are_named_and_the_rest_goes_on(tmp_path, capsys):
    for seed in range(4):
        rows(tmp_path / "a" / f"seed_{seed}" / "metrics.csv", "step,acc,loss", f"1,0.{seed},", f"2,,{seed}")
        last = "nan" if seed == 3 else f"0.{seed + 3}"
        rows(tmp_path / "b" / f"seed_{seed}" / "metrics.csv", "step,acc", "1,0.1", f"2,{last}")
    rows(tmp_path / "b" / "seed_4" / "metrics.csv", "step,acc", "1,0.9", "2")
    for seed in (5, 6):
        (tmp_path / "a" / f"seed_{seed}").mkdir()
    (tmp_path / "a" / "seed_5" / "events.out.tfevents.1.host").write_bytes(b"")
    os.mkfifo(tmp_path / "a" / "seed_6" / "events.out.tfevents.1.host")
    rows(tmp_path / "a" / "seed_7" / "metrics.csv", "step,loss", "1,0.5")
    rows(tmp_path / "b" / "seed_5" / "metrics.csv", "step,acc", "1,0.5")
    found = text(capsys, tmp_path, "--metric", "acc", "--runs", PATTERN, "--all")
    for named in (
        "b: acc is NaN for seed 3; left out of all means",
        "not judged: 1 seed without a number",
        "seed_4: damaged: ",
        "line 3 has 1 cells, and the header has 2",
        "tfevents.1.host is empty",
        "it is not a regular file",
        "seed_7: unfinished: no acc in it",
        f"b: 1 of 5 runs end before step 2, such as {tmp_path}/b/seed_5 at step 1: unfinished?",
    ):
        assert named in found
    numbers = csv.DictReader((tmp_path / "report" / "runs.csv").read_text().splitlines())
    assert [one["acc"] for one in numbers if one["choice"] == "a"] == ["0.0", "0.1", "0.2", "0.3"]
    # Its own report is no log of the next comparison.
    assert "acc (4 runs" in text(capsys, tmp_path, "--metric", "acc", "--runs", PATTERN)


@pytest.mark.parametrize(("end", "said"), [("nan", "NaN"), ("inf", "infinite"), ("-inf", "infinite")])
@pytest.mark.parametrize("options", [[], ["--best", "max"], ["--best", "min"], ["--best", "max", "--last"]])
def test_a_run_that_ends_with_no_number_has_diverged_whatever_counts(tmp_path, capsys, end, said, options):
    def write(folder, x):
        last = end if x == ACCURACIES["b"][3] else x
        rows(folder / "metrics.csv", "step,acc", "1,inf", f"2,{x}", f"3,{last}")

    each_run(tmp_path, write)
    found = text(capsys, tmp_path, "--metric", "acc", "--runs", PATTERN, *options)
    assert f"5 (1 {said})" in found and "not judged: 1 seed without a number" in found
    assert f"b: acc is {said} for seed 3; left out of all means" in found
    # Without it, the rest counts, and an infinite value on the way is not its best.
    assert means(tmp_path, "acc", runs=PATTERN, where=["seed=0,1,2,4,5"], best="max") == {
        group: np.mean([x for seed, x in enumerate(some) if seed != 3]) for group, some in ACCURACIES.items()
    }


@pytest.mark.parametrize("form", ["csv", "frame"])
def test_equal_numbers_are_one_choice_however_they_are_written(tmp_path, form):
    forms = ["0.1", "1e-1", ".10", "+0.1", "0.1", "1.0E-01"]
    lines = [f"{lr},{seed},{0.5 + seed / 100}" for seed, lr in enumerate(forms)]
    lines += [f"{name},{seed},0.6" for name in ("0.01", "007", "7", "12e4567") for seed in range(3)]
    data = rows(tmp_path / "runs.csv", "lr,seed,acc", *lines)
    if form == "frame":
        data = dict(zip(("lr", "seed", "acc"), zip(*(x.split(",") for x in lines), strict=True), strict=True))
    found = cnnpool.compare(data, "acc", by="lr", seed="seed")
    # 007 is a name, as is one whose exponent no number has.
    wanted = {"lr=0.1": 6, "lr=0.01": 3, "lr=007": 3, "lr=7": 3, "lr=12e4567": 3}
    assert {one["choice"]: one["n"] for one in found} == wanted
    for where in ("lr=1e-1,1e-2", "lr=0.10,.01"):
        assert set(means(data, "acc", by="lr", seed="seed", where=[where])) == {"lr=0.1", "lr=0.01"}
    assert set(means(data, "acc", by="lr", seed="seed", where="lr=07,007")) == {"lr=007"}
    # Two of one seed are told as what they are.
    twice = rows(tmp_path / "twice.csv", "lr,seed,acc", "0.1,0,1", "1e-1,0,2")
    with pytest.raises(ValueError, match="line 3; they have the same settings: remove one"):
        cnnpool.compare(twice, "acc", by="lr", seed="seed")


def test_lists_of_names_and_numbers_are_taken_from_python(tmp_path):
    every = itertools.product((0.1, 0.01), (0, 1), range(3))
    lines = [f"{lr},{wd},{seed},{0.5 + seed / 100 + lr},1" for lr, wd, seed in every]
    path = rows(tmp_path / "runs.csv", 'lr,wd,seed,acc,"top 1, 5"', *lines)
    options = {"metric": ["acc", "top 1, 5"], "by": ("lr", "wd"), "seed": "seed"}
    found = cnnpool.compare(path, **options)
    assert found == cnnpool.compare(path, 'acc, "top 1, 5"', by="lr,wd", seed="seed")
    assert [one["choice"] for one in found[:2]] == ["lr=0.01 / wd=0", "lr=0.01 / wd=1"] and len(found) == 8
    for baseline in (0.1, "0.10", np.float64(0.1), "lr=0.1"):
        (first, _) = cnnpool.compare(path, "acc", by="lr", seed="seed", where=["wd=0"], baseline=baseline)
        assert first["choice"] == "lr=0.1"
    with pytest.raises(ValueError, match="--baseline '' is not among the choices"):
        cnnpool.compare({"group": ["a", "b"], "seed": [0, 0], "acc": [1, 2]}, "acc", **NAMED, baseline="")
    with pytest.raises(ValueError, match=r"--baseline '0\.1' stands for several choices"):
        cnnpool.compare(path, **options, baseline=0.1)
    for name in ("metric", "by"):
        with pytest.raises(ValueError, match=r"^3\.5 is not a name, nor a list of names$"):
            cnnpool.compare(path, **options | {name: 3.5})
    with pytest.raises(ValueError, match="""--metric top 1: no run has it; did you mean '"top 1, 5"'"""):
        cnnpool.compare(path, "top 1, 5", by="lr", seed="seed", where=["wd=0"])
    alone = rows(tmp_path / "alone.csv", 'lr,seed,"top 1, 5"', "0.1,0,1", "0.1,1,2", "0.2,0,3", "0.2,1,4")
    with pytest.raises(ValueError, match="""--metric '"top 1, 5"' --by lr --seed seed"""):
        cnnpool.compare(alone, by="lr", seed="seed")


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
def test_a_table_in_another_encoding_is_refused_with_the_remedy(tmp_path, encoding):
    path = tmp_path / "runs.csv"
    path.write_bytes("größe,seed,acc\n1,0,1\n".encode(encoding))
    with pytest.raises(ValueError, match=f"^{path} is not a text in UTF-8: save it as UTF-8$"):
        cnnpool.compare(path, "acc", by="größe", seed="seed")


def test_several_metrics_have_a_table_each_corrected_by_itself(tmp_path):
    lines = [f"{group},{seed},{x},{1 - x}" for group, seed, x in each()]
    path = rows(tmp_path / "runs.csv", "model,seed,acc,loss", *lines)
    found = cnnpool.compare(path, "acc,loss", by="model", seed="seed")
    wanted = [("acc", "a"), ("acc", "b"), ("loss", "a"), ("loss", "b")]
    assert [(one["metric"], one["choice"]) for one in found] == wanted
    assert [one["p_holm"] for one in found if one["choice"] == "b"] == pytest.approx([found[1]["p"]] * 2)
    assert {one["verdict"] for one in found if one["choice"] == "b"} == {"better"}
    assert repr(found).count("verdict") == 2


def test_the_tables_of_a_report_are_read_again_with_the_same_numbers(shelf, tmp_path, caplog):
    shelf.sweep(**ACCURACIES)
    assert main([str(shelf.root), "--out", str(tmp_path / "out"), "--no-board"]) == 0
    own = cnnpool.compare(shelf.root)
    again = cnnpool.compare(tmp_path / "out" / "runs.csv", "test.accuracy", by="choice", seed="seed")
    for key in ("n", "mean", "sd", "difference", "p", "p_holm", "superiority", "verdict"):
        assert [one[key] for one in own] == [one[key] for one in again], key
    # Beside runs of cnnpool others are left out, in a line, but not the tables of a study.
    table(shelf.root / "runs.csv")
    (shelf.root / "study.json").touch()
    with caplog.at_level(logging.WARNING):
        assert cnnpool.compare(shelf.root) == own and not caplog.text
    table(shelf.root / "other" / "runs.csv")
    with caplog.at_level(logging.WARNING):
        assert cnnpool.compare(shelf.root) == own
    assert "other, are left out: cnnpool's own runs are compared" in caplog.text
    with pytest.raises(ValueError, match="is a run of cnnpool: --best"):
        cnnpool.compare(shelf.root, best="max")


def recipe(word):
    """The lines of docs/compare.md in the block that holds ``word``."""
    blocks = (Path(__file__).parents[2] / "docs" / "compare.md").read_text().split("```python\n")
    return next(block.partition("```")[0] for block in blocks[1:] if word in block)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_page_compares_what_is_in_mlflows_own_store(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mlflow = pytest.importorskip("mlflow", reason="MLflow is not installed")
    mlflow.set_tracking_uri("sqlite:///mlflow.db")
    mlflow.set_experiment("mnist")
    for group, some in ACCURACIES.items():
        with mlflow.start_run():
            for seed, x in enumerate(some[:3]):
                with mlflow.start_run(nested=True):
                    mlflow.log_params({"lr": group, "seed": seed})
                    mlflow.log_metric("val_acc", 0.1, step=1)
                    mlflow.log_metric("val_acc", x, step=2)
    with mlflow.start_run() as deleted:
        mlflow.log_params({"lr": "a", "seed": 0})
    mlflow.delete_run(deleted.info.run_id)
    known = {"cnnpool": cnnpool}
    exec(recipe("mlflow").rpartition("cnnpool.compare")[0], known)
    frame = known["frame"][known["frame"]["params.seed"].notna()]
    found = means(frame, "metrics.val_acc", by="params.lr", seed="params.seed")
    assert found == {f"params.lr={group}": np.mean(some[:3]) for group, some in ACCURACIES.items()}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_page_compares_what_wandb_left_offline(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    wandb = pytest.importorskip("wandb", reason="W&B is not installed")
    pytest.importorskip("pandas", reason="pandas is not installed")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    known = subprocess.run(["wandb", "leet", "inspect", "--help"], capture_output=True, check=False).stdout
    if b"--summary" not in known:
        pytest.skip("wandb before 0.31 does not show offline runs")
    for group, seed, x in zip(*(column[:2] for column in columns().values()), strict=True):
        with wandb.init(project="p", mode="offline", config={"lr": group, "seed": seed}) as run:
            run.log({"val_acc": 0.1})
            run.log({"val_acc": x})
    known = {}
    exec(recipe("leet"), known)
    assert means(known["frame"], "val_acc", by="lr", seed="seed") == {"lr=a": np.mean(ACCURACIES["a"][:2])}
