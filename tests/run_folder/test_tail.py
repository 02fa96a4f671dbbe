import os

import pytest

from cnnpool.run_folder import metrics
from cnnpool.run_folder.tail import Tail


def line(step, **values):
    pairs = ", ".join(f'"{tag}": {value}' for tag, value in values.items())
    return f'{{"step": {step}, "epoch": 0, {pairs}}}\n'


@pytest.fixture
def path(tmp_path):
    return tmp_path / "metrics.jsonl"


def test_lines_come_as_they_are_written_whole_ones_alone(tmp_path, path):
    tail = Tail(tmp_path)
    assert tail.records() == []
    path.write_text(line(1, loss=2.0) + line(2, loss=1.0)[:9])
    assert [record["step"] for record in tail.records()] == [1]
    path.write_text(line(1, loss=2.0) + line(2, loss=1.0) + line(3, loss=0.5))
    assert [record["step"] for record in tail.records()] == [1, 2, 3]
    assert tail.records() == metrics.read(tmp_path).records


def test_only_what_was_added_is_read(tmp_path, path, monkeypatch):
    tail, parsed = Tail(tmp_path), []
    real = metrics.record
    monkeypatch.setattr("cnnpool.run_folder.tail.record", lambda text: (parsed.append(text), real(text))[1])
    for step in range(1, 6):
        with path.open("a") as file:
            file.write(line(step, loss=1.0))
        assert len(tail.records()) == step == len(parsed)
    assert len(tail.records()) == 5 == len(parsed)


@pytest.mark.parametrize("kept", [1, 0])
def test_a_file_that_is_written_anew_is_read_anew(tmp_path, path, kept):
    tail = Tail(tmp_path)
    path.write_text("".join(line(step, loss=1.0) for step in range(5)))
    assert len(tail.records()) == 5
    beside = tmp_path / "beside"
    beside.write_text("".join(line(step, loss=3.0) for step in range(kept)))
    os.replace(beside, path)
    assert [record["loss"] for record in tail.records()] == [3.0] * kept
    with path.open("a") as file:
        file.write(line(9, loss=4.0))
    assert tail.records()[-1]["step"] == 9
    path.unlink()
    assert tail.records() == []


def test_damaged_lines_are_left_out(tmp_path, path):
    path.write_text(line(1, loss=2.0) + "\x00\n" + line(2, loss=1.0))
    assert [record["step"] for record in Tail(tmp_path).records()] == [1, 2]
