"""Sweeps that a Hydra plugin brings elsewhere: submitit's local executor stands for SLURM."""

import os
import sys
from pathlib import Path

import pytest

pytest.importorskip("hydra_plugins.hydra_submitit_launcher", reason="needs pip install 'cnnpool[slurm]'")
SLURM = ["-m", "launch=slurm", "hydra/launcher=submitit_local", "hydra.launcher.cpus_per_task=1"]


@pytest.mark.slow
def test_a_job_that_fails_elsewhere_is_one_failed_job_and_the_same_command_ends_there(
    call, tmp_path, monkeypatch
):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parents[2]), *sys.path]))
    status, out, err = call("train", *SLURM, "pool=max", "pool.stride=2,-1", *call.quick)
    assert status == 2, err
    assert out.count("  done") == out.count("  failed") == 1 and "2 jobs: " in out
    assert "pool.stride must be a whole number" in err and "Traceback" not in err
    assert len(list(tmp_path.rglob("results.json"))) == 1
