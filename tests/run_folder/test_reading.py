"""The one reader of files that anybody may have put below a folder of runs."""

import json
import os
import time

import pytest

from cnnpool.run_folder import status
from cnnpool.run_folder.errors import DamagedError
from cnnpool.run_folder.reading import read_bytes, read_json, read_yaml


def as_it_is(content):
    return content


@pytest.mark.parametrize("read", [read_bytes, read_yaml, lambda path: read_json(path, as_it_is)])
def test_only_regular_files_of_a_limited_size_are_read(tmp_path, read):
    path = tmp_path / "file"
    assert read(path) is None
    path.write_bytes(b"1" * 10)
    assert read(path) is not None
    # A hole takes no room on the disk.
    os.truncate(path, 1 << 40)
    with pytest.raises(DamagedError, match="file is damaged: it is longer than 268,435,456 bytes"):
        read(path)
    path.unlink()
    for make in (os.mkfifo, os.mkdir, lambda p: os.symlink("/dev/zero", p)):
        make(path)
        with pytest.raises(DamagedError, match="file cannot be read: it is not a regular file"):
            read(path)
        path.rmdir() if path.is_dir() else path.unlink()


def test_json_holds_finite_numbers_of_64_bits_alone(tmp_path):
    for content, why in (
        (b"", "Expecting value"),
        (b"\xff", "utf-8"),
        (b"[" * 100_000, "recursion"),
        (b"[NaN]", "a number is not finite: NaN"),
        (b"[1e999]", "a number is not finite: 1e999"),
        (b"[1" + b"0" * 400 + b"]", "an integer has more than 19 digits: 1000"),
    ):
        (tmp_path / "a.json").write_bytes(content)
        with pytest.raises(DamagedError, match=r"a\.json is damaged: ") as caught:
            read_json(tmp_path / "a.json", as_it_is)
        assert why in str(caught.value) and len(str(caught.value)) < 300
    (tmp_path / "a.json").write_bytes(b"[1, -9223372036854775808, 2.5]")
    assert read_json(tmp_path / "a.json", as_it_is) == [1, -(2**63), 2.5]


LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize("content", [LAUGHS, "&a [*a]", "[" * 1000, "a: b: c", "\0"])
def test_yaml_that_is_none_or_fills_the_memory_is_damaged(tmp_path, content):
    (tmp_path / "a.yaml").write_text(content)
    with pytest.raises(DamagedError, match=r"a\.yaml is damaged: ") as caught:
        read_yaml(tmp_path / "a.yaml")
    assert "\n" not in str(caught.value)
    (tmp_path / "a.yaml").write_text("pool: {name: lp, p: .inf}")
    assert read_yaml(tmp_path / "a.yaml") == {"pool": {"name": "lp", "p": float("inf")}}


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("!!python/name:os.system", "python/name:os.system"),
        (
            "!!python/object/apply:pathlib.PosixPath [/, data]",
            "python/object/apply:pathlib.PosixPath ['/', 'data']",
        ),
        ("!!python/tuple [1, 2]", "python/tuple [1, 2]"),
        ("!Own {b: 1}", "!Own {'b': 1}"),
        ("&x {b: 1}\nc: *x", {"b": 1}),
    ],
)
def test_tags_are_text_and_aliases_are_followed(tmp_path, content, found):
    (tmp_path / "a.yaml").write_text(f"lr: 0.1\na: {content}\n")
    read = read_yaml(tmp_path / "a.yaml")
    assert (read["lr"], read["a"], read.get("c", found)) == (0.1, found, found)


def test_what_is_written_is_read(tmp_path):
    assert status.read(tmp_path) is None
    before = time.time()
    status.write(tmp_path, "failed", "lower fit.lr", 1, diverged=True)
    found = status.read(tmp_path)
    assert (found.state, found.error, found.status, found.diverged) == ("failed", "lower fit.lr", 1, True)
    assert found.pid == os.getpid()
    assert before <= found.time <= time.time()
    assert os.listdir(tmp_path) == ["status.json"]


def test_a_status_of_an_earlier_version_is_read(tmp_path):
    (tmp_path / "status.json").write_text('{"state": "failed", "error": "why", "host": "a"}')
    assert status.read(tmp_path) == status.Status("failed", "why", diverged=False)
    # Its error alone says that a run diverged, unless that was recorded.
    error = "the loss became nan at epoch 0"
    for state, recorded, diverged in (
        ("failed", {}, True),
        ("stopped", {}, False),
        ("failed", {"diverged": False}, False),
    ):
        (tmp_path / "status.json").write_text(json.dumps({"state": state, "error": error} | recorded))
        assert status.read(tmp_path).diverged is diverged


def test_damage_is_one_line_that_names_file_and_field(tmp_path):
    content = {"state": "done", "error": None, "status": 0, "pid": 1, "time": 2.5}
    for field, value in {"state": "gone", "error": 1, "status": "0", "time": "now", "machine": 1}.items():
        (tmp_path / "status.json").write_text(json.dumps(content | {field: value}))
        with pytest.raises(DamagedError, match=rf"status\.json is damaged: {field}: ") as caught:
            status.read(tmp_path)
        assert "\n" not in str(caught.value) and len(str(caught.value)) < 300
