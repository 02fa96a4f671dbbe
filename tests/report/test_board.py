import json
import math
import re
import subprocess
import sys
from io import BytesIO
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from matplotlib.image import imread
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.custom_scalar.layout_pb2 import Layout

from cnnpool.report import Run, find, main
from cnnpool.report.board import link, names, root_of
from cnnpool.report.choice import group

ZERO = "gradient/zero_fraction/s1"


def log(folder, *lines):
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def board(folder):
    found = EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0})
    return found.Reload()


def points(found, tag):
    return {event.step: event.value for event in found.Scalars(tag)}


@pytest.fixture
def two(shelf):
    """Three seeds of max and avg, each with two epochs logged."""
    for pool, first in (("max", 0.5), ("avg", 0.3)):
        for seed in range(3):
            folder = shelf.put(pool=pool, seed=seed)
            log(
                folder,
                {"step": 5, "epoch": 0, "train/loss": 2.0 - seed},
                {"step": 10, "epoch": 1, "val/accuracy": first + 0.1 * seed, ZERO: 0.75, "val/loss": 2},
                {"step": 20, "epoch": 2, "val/accuracy": first + 0.2 + 0.1 * seed, ZERO: 0.75, "val/loss": 1},
            )
    return shelf.root


def test_mean_and_t_interval_over_seeds_are_what_was_worked_out_by_hand(two):
    assert main([str(two)]) == 0
    found = board(two / "_mean" / "max")
    assert points(found, "val/accuracy") == pytest.approx({10: 0.6, 20: 0.8})
    # sd .1, t(.975, 2) = 4.3027: half width 4.3027 * .1 / sqrt(3) = .24841.
    half = 4.302653 * 0.1 / math.sqrt(3)
    assert points(found, "with_interval/val/accuracy/low") == pytest.approx({10: 0.6 - half, 20: 0.8 - half})
    assert points(found, "with_interval/val/accuracy/high") == pytest.approx({10: 0.6 + half, 20: 0.8 + half})
    assert points(found, "with_interval/val/accuracy/mean") == points(found, "val/accuracy")
    assert points(found, ZERO) == {10: 0.75, 20: 0.75}
    assert points(found, "train/loss") == {5: 1.0}
    assert points(board(two / "_mean" / "avg"), "val/accuracy") == pytest.approx({10: 0.4, 20: 0.6})


def test_pages_of_accuracy_gradient_and_invariance_come_first_then_those_with_bands(two):
    assert main([str(two)]) == 0
    [event] = board(two / "_mean").Tensors("custom_scalars__config__")
    pages = Layout.FromString(event.tensor_proto.string_val[0]).category
    # Nothing was logged of invariance. Those with bands are drawn from the last.
    assert [(page.title, [chart.title for chart in page.chart]) for page in pages] == [
        ("accuracy", ["val/accuracy", "val/loss"]),
        ("gradient", [ZERO]),
        ("accuracy, with intervals", ["val/loss", "val/accuracy"]),
        ("gradient, with intervals", [ZERO]),
    ]
    written = set(board(two / "_mean" / "avg").Tags()["scalars"])
    for page in pages[:2]:
        for chart in page.chart:
            [pattern] = chart.multiline.tag
            assert [tag for tag in written if re.search(pattern, tag)] == [chart.title]
    for page in pages[2:]:
        for chart in page.chart:
            [series] = chart.margin.series
            assert {series.value, series.lower, series.upper} <= written


def test_what_has_no_chart_has_a_mean_and_no_band(two):
    assert main([str(two)]) == 0
    written = set(board(two / "_mean" / "avg").Tags()["scalars"])
    assert "train/loss" in written and "with_interval/val/loss/low" in written
    assert not [tag for tag in written if tag.startswith("with_interval/train/loss")]


def test_the_text_tab_holds_the_comparison(two):
    assert main([str(two)]) == 0
    [event] = board(two / "_mean").Tensors("comparison/text_summary")
    text = event.tensor_proto.string_val[0].decode()
    assert "| max | 3 |" in text and "Too few seeds to rank" in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    # Wider ones are squeezed until words break, and so are numbers with a space.
    assert all(line.count("|") <= 5 for line in rows)
    assert "90.00&nbsp;±&nbsp;0.00" in text


def test_a_step_that_one_run_lacks_is_left_out(two):
    log(two / "max" / "seed0", {"step": 10, "epoch": 1, "val/accuracy": 0.5, ZERO: float("nan")})
    assert main([str(two)]) == 0
    found = board(two / "_mean" / "max")
    assert set(points(found, "val/accuracy")) == {10}
    # The run without a number logged no number at all: the mean is that of the two others.
    assert set(points(found, ZERO)) == {10, 20}


def test_a_single_run_has_a_line_and_no_band(shelf):
    shelf.put()
    shelf.put(pool="avg")
    assert main([str(shelf.root)]) == 0
    tags = board(shelf.root / "_mean" / "max").Tags()["scalars"]
    assert "val/accuracy" in tags and not [tag for tag in tags if tag.startswith("with_interval/")]


def test_the_figures_of_the_report_are_pictures_of_the_size_they_say(shelf):
    for seed in range(2):
        shelf.put(seed=seed, gradient={"s1": {"winners": [0.4, 0.3, 0.2, 0.1]}})
    assert main([str(shelf.root)]) == 0
    found = board(shelf.root / "_mean")
    assert {"view/accuracy", "view/winners"} <= set(found.Tags()["images"])
    for tag in found.Tags()["images"]:
        [picture] = found.Images(tag)
        content = (shelf.root / "report" / f"{tag.removeprefix('view/')}.png").read_bytes()
        assert picture.encoded_image_string == content
        height, width, _ = imread(BytesIO(content), format="png").shape
        assert (picture.width, picture.height) == (width, height)


def test_comparisons_at_once_leave_the_files_of_one(two):
    code = "import sys; from cnnpool.report import main; sys.exit(main(sys.argv[1:]))"
    commands = [[sys.executable, "-c", code, str(two), "--out", str(two / f"report{n}")] for n in range(3)]
    running = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for command in commands]
    assert [process.wait() for process in running] == [0, 0, 0]
    for folder in ("_mean", "_mean/max", "_mean/avg"):
        assert len(list((two / folder).glob("events.out.tfevents.*"))) == 1


def test_a_second_call_replaces_ours_and_leaves_what_is_not(two):
    assert main([str(two)]) == 0
    others = [two / "_mean" / "events.out.tfevents.1.theirs", two / "_mean" / "max" / "notes.txt"]
    for path in others:
        path.write_text("")
    assert main([str(two), "--where", "pool=max"]) == 0
    left = sorted(path for path in (two / "_mean").rglob("*") if path.is_file() and path.name != ".lock")
    assert set(others) < set(left)
    assert [path.parent.name for path in left if path not in others] == ["_mean", "max"]
    assert not (two / "_mean" / "avg").exists()
    assert [path for path in two.rglob("*.tfevents.*") if not path.is_relative_to(two / "_mean")] == []


def test_the_folder_of_means_is_never_a_run(two):
    assert main([str(two)]) == 0
    (two / "_mean" / "max" / "metrics.jsonl").write_text("")
    assert {run.folder.parts[-2] for run in find([two])} == {"max", "avg"}


def test_of_more_runs_than_tensorboard_selects_the_means_are_named(shelf, capsys):
    shelf.sweep(max=[0.9] * 19, avg=[0.9] * 18)
    assert main([str(shelf.root)]) == 0
    assert f"board: tensorboard --logdir {shelf.root}\n" in capsys.readouterr().out
    shelf.put(pool="blur")
    assert main([str(shelf.root)]) == 0
    out = capsys.readouterr().out
    assert f"board: tensorboard --logdir {shelf.root / '_mean'}\n" in out
    assert f"tensorboard --logdir {shelf.root} has each run too" in out


def test_no_board_writes_none(two, capsys):
    assert main([str(two), "--no-board"]) == 0
    assert not (two / "_mean").exists()
    assert "board:" not in capsys.readouterr().out


def test_runs_that_cannot_be_written_to_are_compared_all_the_same(two, capsys, tmp_path):
    (two / "_mean").write_text("in the way")
    assert main([str(two), "--out", str(tmp_path / "r")]) == 0
    out = capsys.readouterr().out
    assert "board: none, " in out and "cannot be written" in out
    assert (tmp_path / "r" / "report.html").exists()


def test_the_common_root_is_below_the_whole_disk_or_nothing(shelf):
    one, other = shelf.put(seed=0), shelf.put(seed=1, pool="avg")
    assert root_of(find([one, other])) == shelf.root.resolve()
    assert root_of(find([one])) == shelf.root.resolve()
    assert root_of(find([shelf.put("loose/run", seed=2)])) == shelf.root.resolve() / "loose"
    found = find([one])[0].found
    far = [Run(Path("/", str(k), "seed0"), "done", found=found) for k in range(2)]
    assert root_of(far) is None


def test_choices_that_share_a_folder_are_told_apart_by_label(shelf):
    shelf.put("all/a")
    shelf.put("all/b", pool="avg", readout={"name": "gap"})
    shelf.put("gem/seed0", pool="gem")
    runs = find([shelf.root])
    found = names(group(runs, ["pool", "readout"]), shelf.root.resolve())
    assert sorted(found) == ["avg+gap", "gem", "max+flatten"]


def test_the_link_colours_runs_by_choice_and_stays_on_this_machine():
    parts = urlsplit(link())
    query = parse_qs(parts.query, strict_parsing=True)
    assert (parts.hostname, parts.fragment) == ("localhost", "timeseries")
    [colour] = query["runColorGroup"]
    pattern = colour.removeprefix("regex:")
    same = ["max+k=3/seed0", "max+k=3/seed12", "_mean/max+k=3"]
    assert {re.search(pattern, name)[1] for name in same} == {"max+k=3"}
    [shown] = query["tagFilter"]
    assert re.search(shown, "val/accuracy") and not re.search(shown, "with_interval/val/accuracy/low")
