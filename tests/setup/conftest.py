"""A copy of the set-up script in a folder of its own, where it can do no harm."""

import importlib
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[2]
COPIED = ("scripts/bootstrap.py", "scripts/dev.py", "requirements.lock", "pyproject.toml")


class Checkout:
    """The scripts and the lock in ``root``, and the two modules loaded from there."""

    def __init__(self, root):
        (root / "scripts").mkdir()
        for name in COPIED:
            shutil.copy(ROOT / name, root / name)
        self.root = root
        self.bootstrap = importlib.import_module("bootstrap")
        self.dev = importlib.import_module("dev")
        self.venv, self.stamp = self.bootstrap.VENV, self.bootstrap.STAMP

    def make_venv(self, stamp=None):
        self.bootstrap.BIN.mkdir(parents=True)
        self.bootstrap.PYTHON.symlink_to(sys.executable)
        (self.venv / "pyvenv.cfg").write_text("version = 3.12.1\n")
        (self.venv / "mine.txt").write_text("something of the user's")
        if stamp is not None:
            self.stamp.write_text(stamp)


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    monkeypatch.delenv("CNNPOOL_TORCH", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path / "scripts"))
    for name in ("bootstrap", "dev"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    made = Checkout(tmp_path)
    assert made.venv.parent == tmp_path
    yield made
    for name in ("bootstrap", "dev"):
        del sys.modules[name]


@pytest.fixture
def refused(checkout, capsys):
    """Run a command that must end in one line; gives its exit status and that line."""

    def run(*arguments):
        status = checkout.dev.main(list(arguments))
        said = capsys.readouterr().err
        assert said.startswith("cnnpool: ") and said.count("\n") == 1
        return status, said

    return run


@pytest.fixture
def free_disk(checkout, monkeypatch):
    """Say how many bytes are free."""

    def say(amount):
        monkeypatch.setattr(checkout.bootstrap.shutil, "disk_usage", lambda _: SimpleNamespace(free=amount))

    return say


@pytest.fixture
def steps(checkout, free_disk, monkeypatch):
    """The commands that an installation would run, and what the stamp said meanwhile."""
    seen = []

    def run(*command):
        seen.append(([str(part) for part in command], checkout.stamp.read_text()))
        if "venv" in map(str, command):
            checkout.bootstrap.BIN.mkdir(parents=True)
            checkout.bootstrap.PYTHON.symlink_to(sys.executable)

    free_disk(8e9)
    monkeypatch.setattr(checkout.bootstrap, "run", run)
    monkeypatch.setattr(checkout.bootstrap, "find_uv", lambda: "/opt/uv")
    return seen
