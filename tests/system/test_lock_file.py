import subprocess
import sys

import pytest
from filelock import Timeout

from cnnpool.system import lock_file
from cnnpool.system.lock_file import is_locked, lock

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
