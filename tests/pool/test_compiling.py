"""The lines of the log while kernels are compiled."""

import logging
import sys

import pytest

pytest.importorskip("numba")

from numba import njit

from cnnpool.pool.cpu import compiling
from cnnpool.pool.cpu.compiling import CompilationLog, event


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


def test_compiling_is_said_once(lines):
    first = kernel()
    assert lines() == []
    first(1, 2)
    first(1, 2)
    first(1.0, 2.0)
    kernel()(1, 2)
    assert lines() == ["compiling kernels, once for this machine"]


def test_a_script_without_a_log_says_it_on_a_terminal_alone(lines, caplog, capsys, monkeypatch):
    caplog.set_level(logging.WARNING)
    kernel()(1, 2)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(type(sys.stderr), "isatty", lambda stream: True, raising=False)
    with event.install_listener("numba:compile", CompilationLog("ours")):
        kernel()(1, 2)
    assert capsys.readouterr().err == "compiling kernels, once for this machine\n" and not lines()


def test_what_takes_long_is_said_again_with_its_count(lines, monkeypatch):
    clock = iter((100.0, 119.0, 121.0, 122.0))
    monkeypatch.setattr(compiling.time, "monotonic", lambda: next(clock))
    for _ in range(4):
        kernel()(1, 2)
    assert lines() == [
        "compiling kernels, once for this machine",
        "compiling kernels, once for this machine: 2 so far",
    ]


def test_kernels_of_other_packages_are_their_own_business(lines):
    njit(lambda a: a)(1)
    assert lines() == []
