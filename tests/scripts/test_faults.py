"""Every fault of scripts/reliability/fault, done to the real command."""

import os

import pytest
import torch

if not hasattr(os, "fork"):
    pytest.skip("each fault is tried in a fork", allow_module_level=True)
from scripts.reliability.fault.attempt import attempt
from scripts.reliability.fault.table import FAULTS


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.what)
def test_a_fault_is_answered(fault, tmp_path, monkeypatch):
    if torch.cuda.is_initialized():
        pytest.skip("a GPU that this process uses cannot be used by a fork of it")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert attempt(fault, tmp_path)[2] == []


def test_every_fault_has_a_name_of_its_own():
    assert len({fault.what for fault in FAULTS}) == len(FAULTS) >= 100
