"""Kernels compiled once and kept on disk, and the lines of the log meanwhile."""

import logging
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("numba")

from numba import njit

from cnnpool.pool.cpu import compiling
from cnnpool.pool.cpu.compiling import CompilationLog, event

ROOT = Path(__file__).parents[2]


@pytest.fixture
def lines(caplog):
    """A log of what this module compiles, from nothing; the lines said."""
    caplog.set_level(logging.INFO)
    with event.install_listener("numba:compile", CompilationLog("ours")):
        yield lambda: [record.getMessage() for record in caplog.records]


def kernel():
    def add(a, b):
        return a + b

    add.__module__ = "ours.kernels"
    return njit(add)


def test_compiling_is_said_once_and_with_its_count_where_it_takes_long(lines, monkeypatch, caplog, capsys):
    clock = iter((100.0, 119.0, 121.0, 122.0, 142.0))
    monkeypatch.setattr(compiling.time, "monotonic", lambda: next(clock))
    # Kernels of other packages are their own business.
    njit(lambda a: a)(1)
    first = kernel()
    assert lines() == []
    for arguments in ((1, 2), (1, 2), (1.0, 2.0)):
        first(*arguments)
    assert lines() == ["compiling kernels, once for this machine"]
    kernel()(1, 2)
    kernel()(1, 2)
    assert lines()[1:] == ["compiling kernels, once for this machine: 2 so far"]
    # A script without logging reads it on stderr.
    caplog.set_level(logging.WARNING)
    kernel()(1, 2)
    assert capsys.readouterr().err == "compiling kernels, once for this machine: 4 so far\n"


HELPER = """
from cnnpool.pool.cpu.compiling import compiled
@compiled
def grow(value):
    return value + {}
"""
OUTER = """
from cnnpool.pool.cpu.compiling import compiled
from cnnpool.pool.cpu.loops.lanes import write
from ours.helper import grow
@compiled
def fill(start, stop, target, like):
    for i in range(start, stop):
        write(target, i, grow(like))
"""
USE = """
import torch
from numba.core import event
from cnnpool.pool.cpu import threads
from cnnpool.pool.cpu.memory import scalar
events = event.RecordingListener()
with event.install_listener("numba:compile", events):
    from ours import outer
    out = torch.zeros(3)
    threads.spread(outer.fill, 3, 0, out.data_ptr(), scalar(21.0, torch.float32))
print(out.tolist(), len(events.buffer) // 2)
"""
FIRST, ANEW, KEPT = (f"[42.0, 42.0, 42.0] {count}\n" for count in (2, 3, 0))


@pytest.fixture
def load(tmp_path, monkeypatch, capsys):
    """Import two kernels, one of which calls the other, and use them: the result, how many were compiled."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    loops = tmp_path / "ours"
    loops.mkdir()
    (loops / "outer.py").write_text(OUTER)

    def run(folder="", helper="value"):
        (loops / "helper.py").write_text(HELPER.format(helper))
        for name in ("ours", "ours.helper", "ours.outer"):
            sys.modules.pop(name, None)
        compiling.cache_folder.cache_clear()
        monkeypatch.setattr(compiling.config, "CACHE_DIR", str(folder))
        exec(USE, {})
        assert str(folder) == compiling.config.CACHE_DIR
        return capsys.readouterr().out

    yield run
    compiling.cache_folder.cache_clear()


def kept(folder):
    return sorted(path.name for path in folder.rglob("*.nbc"))


def test_kernels_are_compiled_once_and_anew_when_a_helper_has_changed(load, tmp_path, monkeypatch):
    monkeypatch.setattr(compiling, "LOOPS", tmp_path / "ours")
    assert load() == FIRST and len(kept(tmp_path / "ours/__pycache__")) == 2
    assert load() == KEPT
    # The caller's own file is the same: Numba alone would go on with the helper that it was compiled with.
    assert load(helper="value + value") == "[63.0, 63.0, 63.0] 2\n"
    assert len([*tmp_path.glob("ours/__pycache__/kernels-*")]) == 1


def test_a_folder_of_the_users_choice_holds_them_for_all_processes_which_say_nothing(load, tmp_path):
    assert load(tmp_path / "own") == FIRST
    folder = tmp_path / "mine"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(folder)}

    def process(_):
        command = [sys.executable, "-c", USE]
        return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT, timeout=300)

    with ThreadPoolExecutor(2) as both:
        for done in both.map(process, range(2)):
            assert done.stdout.startswith("[42.0, 42.0, 42.0] ") and done.stderr == ""
    assert load(folder) == KEPT and len(kept(folder)) >= 2


def test_where_nothing_can_be_written_kernels_work_and_one_line_says_why(load, tmp_path, monkeypatch, caplog):
    def replace(source, target):
        raise OSError(28, "No space left on device", str(target))

    monkeypatch.setattr(os, "replace", replace)
    compiling._warn.cache_clear()
    # A kernel is compiled again after one that it calls could not be saved.
    assert load(tmp_path / "mine") == ANEW and not kept(tmp_path)
    (line,) = caplog.messages
    assert "kept in" in line and "No space left on device; free space" in line and "NUMBA_CACHE_DIR" in line


def test_a_folder_that_cannot_be_written_is_none(tmp_path, monkeypatch):
    def refuse(**options):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(compiling.config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(compiling, "TemporaryFile", refuse)
    assert compiling.cache_folder.__wrapped__() is None
