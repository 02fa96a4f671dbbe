import math
import os

import pytest

from cnnpool.run_folder import metrics
from cnnpool.run_folder.errors import DamagedError, LostError
from cnnpool.run_folder.metrics import Metrics, MetricsFile, read, read_whole

GOOD = b'{"step": 1, "epoch": 0, "val/accuracy": 0.5}\n{"step": 2, "epoch": 1, "train/loss": 0.25}\n'
RECORDS = [{"step": 1, "epoch": 0, "val/accuracy": 0.5}, {"step": 2, "epoch": 1, "train/loss": 0.25}]


def test_what_is_appended_is_read(tmp_path):
    file = MetricsFile(tmp_path)
    file.append(1, 0, {"val/accuracy": 0.5, "noise": math.nan, "gap": math.inf})
    file.append(2, 1, {"train/loss": 0.25})
    assert file.sync() == len(GOOD) and file.path.read_bytes() == GOOD
    # A line that is just being written is no damage.
    for unfinished in (b"", b'{"step": 3, "ep'):
        file.path.write_bytes(GOOD + unfinished)
        assert read(tmp_path) == Metrics(RECORDS)


def test_a_run_that_goes_on_drops_what_came_after_its_checkpoint(tmp_path):
    (tmp_path / "metrics.jsonl").write_bytes(GOOD + b'{"step": 3')
    MetricsFile(tmp_path, len(GOOD)).append(3, 1, {"a": 1})
    assert read(tmp_path).records == [*RECORDS, {"step": 3, "epoch": 1, "a": 1}]
    assert MetricsFile(tmp_path).sync() == 0


def test_lines_that_were_lost_are_told(tmp_path):
    (tmp_path / "metrics.jsonl").write_bytes(GOOD)
    with pytest.raises(DamagedError, match="has lost lines"):
        MetricsFile(tmp_path, len(GOOD) + 1)
    assert (tmp_path / "metrics.jsonl").read_bytes() == GOOD


def test_a_file_that_is_deleted_or_altered_meanwhile_is_not_begun_anew(tmp_path):
    file = MetricsFile(tmp_path)
    file.append(1, 0, {"a": 1})
    content = file.path.read_bytes()
    file.path.unlink()
    for use in (lambda: file.append(2, 0, {"a": 1}), file.sync):
        with pytest.raises(LostError, match=r"metrics\.jsonl was deleted while its run was running"):
            use()
    assert not file.path.exists()
    for other in (content + b"{}\n", content[:-1], b""):
        file.path.write_bytes(other)
        with pytest.raises(LostError, match=r"metrics\.jsonl was altered while its run was running"):
            file.append(2, 0, {"a": 1})
        assert file.path.read_bytes() == other


@pytest.mark.parametrize(
    "line",
    [
        b'{"step": 3, "epo', b"[1]", b"\xff", b"", b"[" * 100_000, b'{"step": -1, "epoch": 0}',
        b'{"step": 1.5, "epoch": 0}', b'{"step": 3, "epoch": 0, "a": "b"}', b'{"step": 3, "epoch": NaN}',
        b'{"step": 3, "epoch": 0}, {"step": 4, "epoch": 0}',
    ],
)  # fmt: skip
def test_a_damaged_line_costs_only_itself_and_is_counted(tmp_path, line):
    (tmp_path / "metrics.jsonl").write_bytes(line + b"\n" + GOOD + line + b"\n")
    found = read(tmp_path)
    assert found.records == RECORDS
    path = tmp_path / "metrics.jsonl"
    assert found.problem == f"{path} is damaged: line 1 and 1 more of 4 left out"


def test_numbers_that_are_not_finite_are_no_numbers(tmp_path):
    line = b'{"step": 3, "epoch": 1, "a": NaN, "b": 1e999, "c": 2, "d": 1%s}\n' % (b"0" * 400)
    (tmp_path / "metrics.jsonl").write_bytes(line)
    assert read(tmp_path).records == [{"step": 3, "epoch": 1, "c": 2}]
    assert read(tmp_path).problem == ""


def test_a_missing_file_holds_no_line_and_a_folder_is_named(tmp_path):
    assert read(tmp_path) == Metrics([])
    os.mkdir(tmp_path / "metrics.jsonl")
    assert read(tmp_path).problem.endswith("metrics.jsonl cannot be read: it is not a regular file")


def test_a_file_is_read_again_only_where_it_has_changed(tmp_path, monkeypatch):
    parsed, real = [], metrics._record
    monkeypatch.setattr(metrics, "_record", lambda line: (parsed.append(line), real(line))[1])
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(GOOD)
    assert read(tmp_path) == read(tmp_path) and len(parsed) == 2
    with path.open("ab") as file:
        file.write(GOOD)
    assert read(tmp_path).records == RECORDS * 2
    path.unlink()
    assert read(tmp_path).records == []


def test_a_finished_run_whose_metrics_end_early_or_are_gone_is_told(tmp_path):
    path = tmp_path / "metrics.jsonl"
    assert read_whole(tmp_path, 1) == Metrics([], f"{path} is missing")
    path.write_bytes(GOOD)
    assert read_whole(tmp_path, 1) == Metrics(RECORDS)
    # Cut in the last line, or between two.
    for end in (-5, GOOD.index(b"\n") + 1):
        path.write_bytes(GOOD[:end])
        said = f"{path} is damaged: it ends in epoch 0 of 1"
        assert read_whole(tmp_path, 1) == Metrics(RECORDS[:1], said)
        assert read(tmp_path) == Metrics(RECORDS[:1])
