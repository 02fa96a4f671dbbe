import json
import os
import signal
import socket
import subprocess
import sys
import time

import pytest
import torch

from cnnpool.fit.trainer import build_trainer
from cnnpool.recipe import Recipe
from cnnpool.run_folder.checkpoint import load
from cnnpool.run_folder.results import read, unpacked

# No operator of these draws or sees the whole batch, so that two halves of it are the whole; AdamW would
# divide gradients of rounding by themselves.
TRAIN = [
    "model=allconv", "model.norm=false", "model.width=4", "readout=gap", "data.limit=256",
    "data.batch_size=64", "data.shift=0", "data.crop=0", "fit.epochs=2", "fit.precision=32-true",
    "fit.optimizer=sgd", "fit.pictures=false", "fit.progress=false", "fit.log_every_steps=1",
]  # fmt: skip


# On the CPU, of which there are enough.
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1", "CUDA_VISIBLE_DEVICES": ""}


def train(folder, *options, by=(sys.executable,), **place):
    command = [*by, "-m", "cnnpool", "train", *TRAIN, f"hydra.run.dir={folder}", *options]
    environment = os.environ | ENVIRONMENT | place
    return subprocess.Popen(command, cwd=folder.parent, env=environment, stderr=subprocess.PIPE, text=True)


def end(process):
    err = process.communicate(timeout=600)[1]
    return process.returncode, err


# The first process alone measures, and changes no bit.
MEASURED = ["probe.gradient.samples=8"]
MEASURED += [f"~probe.{name}" for name in ("invariance", "equivariance", "aliasing", "cost")]
RUNS = {
    "one": MEASURED,
    "group": ["probe=none", "fit.strategy=ddp"],
    "two": [*MEASURED, "fit.devices=2"],
    "three": ["probe=none", "fit.devices=2"],
}
SCRIPT = f"""
import cnnpool
for folder, options in {RUNS}.items():
    cnnpool.train(*{TRAIN}, *options, f"hydra.run.dir={{folder}}")
print("ended")
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    """The folder of the runs of a script, and its process when it has ended."""
    folder = tmp_path_factory.mktemp("script")
    (folder / "script.py").write_text(SCRIPT)
    command, environment = [sys.executable, "script.py"], os.environ | ENVIRONMENT
    return folder, subprocess.run(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, timeout=600
    )


@pytest.mark.slow
def test_two_processes_train_as_one_up_to_rounding(script):
    folders = [script[0] / name for name in ("one", "two")]
    one, two = (load(folder / "checkpoints" / "last.ckpt") for folder in folders)
    for key, weight in one["state_dict"].items():
        torch.testing.assert_close(two["state_dict"][key], weight, rtol=1e-4, atol=1e-6)
    found = list(map(read, folders))
    assert found[0].correct == found[1].correct
    assert unpacked(found[1].correct).mean() == pytest.approx(found[1].accuracy)
    lines = [(folder / "metrics.jsonl").read_text().splitlines() for folder in folders]
    assert len(lines[0]) == len(lines[1]) == 8 + 2 * 2 + 1
    assert sum("gradient/zero_fraction/s1" in line for line in lines[1]) == 2
    for a, b in zip(*(map(json.loads, each) for each in lines), strict=True):
        a, b = ({k: v for k, v in line.items() if not k.startswith("cost")} for line in (a, b))
        # A rounded weight may change which of two inputs wins.
        near = {"abs": 1e-2} if "gradient/zero_fraction/s1" in a else {"rel": 1e-5}
        assert a == pytest.approx(b, **near)


@pytest.mark.slow
def test_a_script_trains_on_two_devices_and_goes_on_once(script):
    folder, done = script
    assert (done.returncode, done.stdout) == (0, "ended\n")
    one, *others = (read(folder / name) for name in RUNS)
    assert all(other.correct == one.correct and other.steps == one.steps for other in others)


@pytest.mark.slow
def test_two_machines_train_as_one_with_two_devices(script, tmp_path):
    options = ["probe=none", "trainer.num_nodes=2", "callback=learning_rate_monitor"]
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    machines = [
        train(
            *(tmp_path / "machines", *options),
            by=(
                *(sys.executable, "-m", "torch.distributed.run", "--nnodes=2", f"--node-rank={number}"),
                *("--master-addr=127.0.0.1", f"--master-port={port}"),
            ),
        )
        for number in (0, 1)
    ]
    assert [end(process)[0] for process in machines] == [0, 0]
    # Finished already, which no process needs another for.
    for rank in ("0", "1"):
        assert end(train(tmp_path / "machines", *options, RANK=rank, WORLD_SIZE="2")) == (0, "")
    machines, three = (
        folder / "checkpoints" / "last.ckpt" for folder in (tmp_path / "machines", script[0] / "three")
    )
    weights = load(machines)["state_dict"]
    assert all(torch.equal(weights[key], weight) for key, weight in load(three)["state_dict"].items())


# Of the first process: Lightning keeps the rank of a process for good.
TORCHRUN = {"WORLD_SIZE": "2", "RANK": "0", "LOCAL_RANK": "0", "TORCHELASTIC_RUN_ID": "1"}
SRUN = {"SLURM_STEP_ID": "0", "SLURM_PROCID": "0", "SLURM_NTASKS": "2", "SLURM_NTASKS_PER_NODE": "1"}
SRUN |= {"SLURM_NODEID": "0", "SLURM_LOCALID": "0"}


@pytest.mark.parametrize("place", [TORCHRUN, SRUN])
def test_other_processes_than_were_asked_for_are_refused_by_each(monkeypatch, place):
    for name, value in place.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=r"started 2 processes, but fit\.devices=1 and trainer\.num_nodes=1"):
        build_trainer(Recipe(), {}, [], [])
    assert build_trainer(Recipe(), {"num_nodes": 2}, [], []).world_size == 2


def test_a_script_of_sbatch_that_is_no_step_trains_alone(monkeypatch):
    for name in ("SLURM_PROCID", "SLURM_NTASKS"):
        monkeypatch.setenv(name, SRUN[name])
    assert build_trainer(Recipe(), {}, [], []).world_size == 1


@pytest.mark.slow
def test_two_processes_stop_together_and_go_on(tmp_path):
    options = ["fit.devices=2", "fit.epochs=30", "probe=none"]
    last = tmp_path / "run" / "checkpoints" / "last.ckpt"
    process = train(tmp_path / "run", *options, "fit.checkpoint_every_minutes=0")
    while not last.exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    status, err = end(process)
    assert status == 128 + signal.SIGTERM and "stopped: by SIGTERM at step" in err
    assert 0 < load(last)["cnnpool"]["steps"] < 120
    status, err = end(train(tmp_path / "run", *options))
    assert status == 0, err
    assert json.loads((tmp_path / "run" / "results.json").read_text())["steps"] == 120
