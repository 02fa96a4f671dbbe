"""Kernels compiled once and kept on disk, and the lines of the log meanwhile."""

import logging
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("numba")

from numba import njit

from cnnpool.pool.cpu import compiling, threads
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


def test_compiling_is_said_once_and_with_its_count_where_it_takes_long(lines, monkeypatch):
    clock = iter((100.0, 119.0, 121.0, 122.0))
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


HELPER = """
from cnnpool.pool.cpu.compiling import compiled
@compiled
def grow(value):
    return value + {}
"""
OUTER = """
from cnnpool.pool.cpu.compiling import compiled
from cnnpool.pool.cpu.loops.helper import grow
from cnnpool.pool.cpu.loops.lanes import write
@compiled
def fill(start, stop, target, like):
    for i in range(start, stop):
        write(target, i, grow(like))
"""
USE = """
import os, sys, tempfile, torch
from numba import config
from numba.core import event
from cnnpool.pool.cpu import compiling, threads
from cnnpool.pool.cpu.memory import scalar
{}
events = event.RecordingListener()
event.register("numba:compile", events)
from cnnpool.pool.cpu.loops import outer
assert config.CACHE_DIR == os.environ.get("NUMBA_CACHE_DIR", "")
out = torch.zeros(3)
threads.spread(outer.fill, 3, 0, out.data_ptr(), scalar(21.0, torch.float32))
print(out.tolist(), len(events.buffer) // 2)
"""


@pytest.fixture
def process(tmp_path):
    """A process with two kernels, one of which calls the other: (result, kernels compiled, lines said)."""
    shutil.copytree(ROOT / "cnnpool", tmp_path / "cnnpool", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "cnnpool/pool/cpu/loops/outer.py").write_text(OUTER)

    def run(helper="value", before="", **environment):
        (tmp_path / "cnnpool/pool/cpu/loops/helper.py").write_text(HELPER.format(helper))
        known = {**os.environ, "PYTHONPATH": str(tmp_path), "OMP_NUM_THREADS": "1", **environment}
        known = {key: value for key, value in known.items() if value is not None}
        code = [sys.executable, "-c", USE.format(before)]
        done = subprocess.run(code, capture_output=True, text=True, env=known, cwd=tmp_path, timeout=300)
        assert done.returncode == 0, done.stderr
        result, _, count = done.stdout.strip().rpartition(" ")
        return result, int(count), done.stderr.splitlines()

    return run


def kept(folder):
    return sorted(path.name for path in folder.rglob("*.nbc"))


def test_kernels_are_compiled_once_and_anew_when_a_helper_has_changed(process, tmp_path):
    loops = tmp_path / "cnnpool/pool/cpu/loops"
    assert process(NUMBA_CACHE_DIR=None) == ("[42.0, 42.0, 42.0]", 2, [])
    assert len(kept(loops / "__pycache__")) == 2
    assert process(NUMBA_CACHE_DIR=None) == ("[42.0, 42.0, 42.0]", 0, [])
    # The caller's own file is the same: Numba alone would go on with the helper that it was compiled with.
    assert process("value + value", NUMBA_CACHE_DIR=None) == ("[63.0, 63.0, 63.0]", 2, [])
    assert len([*loops.glob("__pycache__/kernels-*")]) == 1


def test_a_folder_of_the_users_choice_holds_them_and_two_processes_say_nothing(process, tmp_path):
    folder = tmp_path / "mine"
    with ThreadPoolExecutor(2) as both:
        found = list(both.map(lambda _: process(NUMBA_CACHE_DIR=str(folder)), range(2)))
    assert found[0][0] == found[1][0] == "[42.0, 42.0, 42.0]" and not found[0][2] + found[1][2]
    assert process(NUMBA_CACHE_DIR=str(folder))[1] == 0 and len(kept(folder)) >= 2


FULL = """
def replace(source, target):
    raise OSError(28, "No space left on device", str(target))
os.replace = replace
"""


def test_where_nothing_can_be_written_kernels_work_and_one_line_says_why(process, tmp_path):
    result, compiled, (line,) = process(before=FULL, NUMBA_CACHE_DIR=str(tmp_path / "mine"))
    # A kernel is compiled again after one that it calls could not be saved.
    assert result == "[42.0, 42.0, 42.0]" and compiled == 3 and not kept(tmp_path)
    assert "kept in" in line and "No space left on device; free space" in line and "NUMBA_CACHE_DIR" in line


def test_a_folder_that_cannot_be_written_is_none(tmp_path, monkeypatch):
    def refuse(**options):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(compiling.config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(compiling, "TemporaryFile", refuse)
    assert compiling.cache_folder.__wrapped__() is None


def test_other_errors_of_a_kernel_are_raised():
    def broken(start, stop):
        raise TypeError("a mistake in a kernel")

    with pytest.raises(TypeError, match="a mistake"):
        threads.spread(broken, 1, 0)
