"""Sweeps on SLURM: submitit's local executor stands for a cluster."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip("submitit", reason="needs pip install 'cnnpool[slurm]'")
PATIENCE_S = 300
LOCAL = ["-m", "launch=slurm", "launch.cluster=local", "launch.threads=1"]


def test_jobs_are_described_to_slurm_as_asked(call, monkeypatch):
    """The batch script, seen by a stand-in for sbatch; a queue that is never there."""
    scripts = []

    class Executor:
        def __init__(self, folder, **options):
            scripts.append(options)

        def update_parameters(self, **parameters):
            scripts.append(parameters)
            raise ValueError("enough seen")

    monkeypatch.setattr("submitit.AutoExecutor", Executor)
    options = ["launch.partition=gpu", "launch.gpus=1", "launch.jobs=3", "launch.timeout_min=9"]
    status, _, err = call("train", "-m", "launch=slurm", "pool=max,avg", *options, *call.quick)
    assert (status, err) == (2, "error: enough seen\n")
    assert scripts[0] == {"cluster": "slurm", "slurm_max_num_timeout": 1000}
    assert scripts[1] == {
        "name": "cnnpool", "timeout_min": 9, "mem_gb": 8, "cpus_per_task": 4, "gpus_per_node": 1,
        "slurm_array_parallelism": 3, "slurm_partition": "gpu",
    }  # fmt: skip


def test_a_machine_without_slurm_is_named(call, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    status, _, err = call("train", "-m", "launch=slurm", "pool=max,avg", *call.quick)
    assert status == 2 and "SLURM" in err.upper() and err.count("\n") == 1


@pytest.mark.slow
def test_a_job_that_fails_elsewhere_is_one_failed_job_and_the_same_command_ends_there(call, tmp_path):
    status, out, err = call("train", *LOCAL, "pool=max", "pool.stride=2,-1", *call.quick)
    assert status == 2, err
    assert "2 jobs: 1 done, 1 failed" in out
    assert "pool.stride must be a whole number" in err and "Traceback" not in err
    assert len(list(tmp_path.rglob("results.json"))) == 1
    status, out, _ = call("train", *LOCAL, "pool=max", "pool.stride=2", *call.quick)
    assert status == 0


@pytest.mark.slow
def test_a_job_whose_node_dies_is_one_failed_job(call, tmp_path):
    with sweep("fit.epochs=1,9999") as process:
        pid = pid_of(endless(tmp_path))
        os.kill(pid, signal.SIGKILL)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1 and "2 jobs: " in out and "1 done" in out
    said = [line for line in err.splitlines() if not line.startswith("training: ")]
    assert len(said) == 1 and "ended early on its node" in said[0]


@pytest.mark.slow
def test_a_job_whose_time_is_up_saves_and_goes_on(tmp_path):
    with sweep("fit.epochs=40,1") as process:
        folder = endless(tmp_path)
        before = pid_of(folder)
        os.kill(before, signal.SIGUSR2)
        _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    assert pid_of(folder) != before
    assert json.loads((folder / "results.json").read_text())["epochs"] == 40


@pytest.mark.slow
def test_a_signal_cancels_the_jobs_which_save(tmp_path):
    with sweep("fit.epochs=9999", "seed=0,1") as process:
        folder = endless(tmp_path)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 128 + signal.SIGTERM, err
    assert json.loads((folder / "status.json").read_text())["state"] == "stopped"


def sweep(*options):
    quick = ["data.limit=64", "model.width=2", "fit.pictures=false", "probe=none"]
    command = [sys.executable, "-m", "cnnpool", "train", *LOCAL, *options, *quick]
    command += ["fit.checkpoint_every_minutes=0"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def endless(folder, seconds=PATIENCE_S):
    """The folder of a long job that has saved once."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for path in folder.glob("outputs/digits/convnet/*epochs=[49]*/seed0/checkpoints/last.ckpt"):
            return path.parents[1]
        time.sleep(0.05)
    pytest.fail("it never came to that")


def pid_of(folder):
    return json.loads((folder / "status.json").read_text())["pid"]
