import os
import subprocess
import sys

import pytest
from filelock import Timeout

from cnnpool.system import lock_file
from cnnpool.system.atomic import beside, replacing, write_bytes, write_json, write_text
from cnnpool.system.lock_file import is_locked, lock


def test_a_write_that_fails_names_the_file_and_leaves_the_old_one(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    write_text(path, "old")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as error:
        write_text(path, "new")
    assert error.value.filename == str(path)
    assert path.read_text() == "old" and [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_a_block_that_fails_or_cannot_replace_leaves_no_part(tmp_path):
    write_text(tmp_path / "a", "old")
    with pytest.raises(KeyError), replacing(tmp_path / "a") as file:
        file.write(b"new")
        raise KeyError
    assert (tmp_path / "a").read_text() == "old" and os.listdir(tmp_path) == ["a"]
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        write_text(tmp_path / "folder", "new")
    with pytest.raises(OSError, match="No such file") as caught:
        write_bytes(tmp_path / "none" / "a", b"")
    assert caught.value.filename == str(tmp_path / "none" / "a")
    assert sorted(os.listdir(tmp_path)) == ["a", "folder"]


def test_an_error_that_hides_a_failed_write_is_told_as_that(tmp_path):
    with pytest.raises(OSError, match=r"cannot write .*/a: ") as caught, replacing(tmp_path / "a") as file:
        os.close(file.fileno())
        try:
            file.write(b"x" * 100_000)
        except OSError:
            raise RuntimeError("unexpected pos 64 vs 0") from None
    assert caught.value.filename == str(tmp_path / "a")
    assert os.listdir(tmp_path) == []


def test_two_writers_of_one_file_do_not_meet(tmp_path):
    with replacing(tmp_path / "a") as first, replacing(tmp_path / "a") as second:
        first.write(b"first")
        second.write(b"second")
    assert (tmp_path / "a").read_bytes() in (b"first", b"second") and os.listdir(tmp_path) == ["a"]


def test_what_is_no_json_number_is_refused_and_writes_nothing(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "a", {"a": float("inf")})
    assert os.listdir(tmp_path) == []


def test_a_link_in_the_place_of_a_part_file_leads_nowhere(tmp_path):
    other = tmp_path / "theirs"
    other.write_text("theirs")
    part = beside(tmp_path / "a", "run-1")
    for target in (other, tmp_path / "not yet"):
        part.symlink_to(target)
        write_text(tmp_path / "a", "ours", prefix="run-1")
        assert not (tmp_path / "a").is_symlink() and (tmp_path / "a").read_text() == "ours"
    assert other.read_text() == "theirs" and sorted(os.listdir(tmp_path)) == ["a", "theirs"]


HOLDER = """
import sys
from pathlib import Path
from cnnpool.system.lock_file import lock
with lock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_lock_lasts_until_its_holder_is_killed(tmp_path):
    path = tmp_path / "lock"
    assert is_locked(path) is None
    command = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"held\n"
        # Looking changes nothing.
        assert is_locked(path) and is_locked(path)
        with pytest.raises(Timeout), lock(path):
            pass
        process.kill()
    assert is_locked(path) is False
    with lock(path):
        assert is_locked(path)


def test_without_locks_nobody_can_tell(tmp_path, monkeypatch):
    def refuse(*arguments):
        raise OSError(38, "Function not implemented")

    (tmp_path / "lock").touch()
    monkeypatch.setattr(lock_file.fcntl, "flock", refuse)
    assert is_locked(tmp_path / "lock") is None
    monkeypatch.setattr(lock_file, "fcntl", None)
    assert is_locked(tmp_path / "lock") is None
