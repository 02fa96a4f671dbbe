"""Every fault of scripts/reliability/fault, done to the real command."""

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor

import pytest

if not hasattr(os, "fork"):
    pytest.skip("each fault is tried in a fork", allow_module_level=True)
from scripts.reliability.faults import FAULTS, wrong


@pytest.fixture(scope="module")
def fresh():
    """A process in which nothing was computed: threads and kernels of other tests would be in every fork."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
            yield process


@pytest.mark.parametrize("what", [fault.what for fault in FAULTS])
def test_a_fault_is_answered(what, fresh, tmp_path):
    assert fresh.submit(wrong, what, tmp_path).result() == []


def test_every_fault_has_a_name_of_its_own():
    assert len({fault.what for fault in FAULTS}) == len(FAULTS) >= 40
