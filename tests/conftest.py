"""Settings of all tests."""

import os
import signal

import pytest
from hypothesis import settings

# Before torch starts threads of its own: a fork of a process that has some may wait for them for ever.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Under nohup runs outlive SIGHUP, and their tests would wait for what never comes.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
# A busy machine takes long for what is right.
settings.register_profile("patient", settings(), deadline=None)
settings.load_profile("patient")


def pytest_configure(config: pytest.Config) -> None:
    # torch scripts its own forward-mode decompositions on first use, and warns itself for it.
    config.addinivalue_line("filterwarnings", "ignore:`torch.jit.script` is deprecated")


def pytest_runtest_setup() -> None:
    # A failure comes back when its test is run alone.
    import torch

    torch.manual_seed(0)
