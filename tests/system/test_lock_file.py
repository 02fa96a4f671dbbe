import os
import subprocess
import sys

import pytest

from cnnpool.system import lock_file
from cnnpool.system.lock_file import LockedFile, is_locked

WRITER = """
import sys
from pathlib import Path
from cnnpool.system.lock_file import LockedFile
kept = LockedFile(Path(sys.argv[1]))
kept.write(b"first")
kept.write(b"second")
print("written", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def writer(tmp_path):
    """A process that has written a file twice and goes on, and the file."""
    path = tmp_path / "file"
    command = [sys.executable, "-c", WRITER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"written\n"
        yield process, path
        process.kill()


def test_a_file_is_unlocked_only_where_that_is_certain(writer, tmp_path):
    process, path = writer
    assert is_locked(path) and is_locked(tmp_path / "missing") is None
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("file")
    process.kill()
    process.wait()
    assert is_locked(path) is False and is_locked(path) is False and is_locked(tmp_path / "link") is None
    # A pipe that nobody writes does not block.
    is_locked(tmp_path / "pipe")


def test_a_writer_lives_until_it_is_killed(writer):
    process, path = writer
    assert path.read_bytes() == b"second" and is_locked(path)
    # Looking changes nothing.
    assert is_locked(path)
    process.kill()
    process.wait()
    assert not is_locked(path) and path.read_bytes() == b"second"


def test_a_reader_keeps_no_writer_from_the_file(tmp_path):
    path = tmp_path / "file"
    one, other = LockedFile(path), LockedFile(path)
    one.write(b"first")
    one.release()
    with path.open("rb") as read:
        lock_file.fcntl.flock(read, lock_file.fcntl.LOCK_SH | lock_file.fcntl.LOCK_NB)
        other.write(b"second")
    assert is_locked(path)
    other.release()
    assert not is_locked(path)


def test_what_another_process_has_put_there_is_not_removed(tmp_path):
    path = tmp_path / "file"
    one, other = LockedFile(path), LockedFile(path)
    one.write(b"one")
    other.write(b"other")
    one.remove()
    assert path.read_bytes() == b"other" and is_locked(path)
    other.remove()
    assert os.listdir(tmp_path) == [] and not is_locked(path)


def test_without_locks_the_file_is_written_and_nobody_lives(tmp_path, monkeypatch):
    monkeypatch.setattr(lock_file, "fcntl", None)
    one = LockedFile(tmp_path / "file")
    one.write(b"one")
    assert not is_locked(one.path) and one.path.read_bytes() == b"one"
    one.remove()
    assert os.listdir(tmp_path) == []


def test_a_disk_without_locks_is_no_failure(tmp_path, monkeypatch):
    def refuse(*arguments):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(lock_file.fcntl, "flock", refuse)
    one = LockedFile(tmp_path / "file")
    one.write(b"one")
    assert not is_locked(one.path) and one.path.read_bytes() == b"one"
