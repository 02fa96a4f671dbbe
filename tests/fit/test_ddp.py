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


def train(folder, *options, by=(sys.executable,)):
    command = [*by, "-m", "cnnpool", "train", *TRAIN, f"hydra.run.dir={folder}", *options]
    # On the CPU, of which there are enough.
    settings = {"OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1", "CUDA_VISIBLE_DEVICES": ""}
    environment = os.environ | settings
    return subprocess.Popen(command, cwd=folder.parent, env=environment, stderr=subprocess.PIPE, text=True)


def end(process):
    err = process.communicate(timeout=240)[1]
    return process.returncode, err


@pytest.mark.slow
def test_two_processes_train_as_one_up_to_rounding(tmp_path):
    # The first process alone measures, and changes no bit.
    measured = ["probe.gradient.samples=8"]
    measured += [f"~probe.{name}" for name in ("invariance", "equivariance", "aliasing", "cost")]
    assert end(train(tmp_path / "one", *measured)) == (0, "")
    status, err = end(train(tmp_path / "two", "fit.devices=2", *measured))
    assert status == 0, err
    one, two = (load(tmp_path / name / "checkpoints" / "last.ckpt") for name in ("one", "two"))
    for key, weight in one["state_dict"].items():
        torch.testing.assert_close(two["state_dict"][key], weight, rtol=1e-4, atol=1e-6)
    found = [read(tmp_path / name) for name in ("one", "two")]
    assert found[0].correct == found[1].correct
    assert unpacked(found[1].correct).mean() == pytest.approx(found[1].accuracy)
    lines = [(tmp_path / name / "metrics.jsonl").read_text().splitlines() for name in ("one", "two")]
    assert len(lines[0]) == len(lines[1]) == 8 + 2 * 2 + 1
    assert sum("gradient/zero_fraction/s1" in line for line in lines[1]) == 2
    for a, b in zip(*(map(json.loads, each) for each in lines), strict=True):
        a, b = ({k: v for k, v in line.items() if not k.startswith("cost")} for line in (a, b))
        # A rounded weight may change which of two inputs wins.
        near = {"abs": 1e-2} if "gradient/zero_fraction/s1" in a else {"rel": 1e-5}
        assert a == pytest.approx(b, **near)


SCRIPT = """
import sys, cnnpool
for folder, option in (("one", "fit.strategy=ddp"), ("two", "fit.devices=2"), ("three", "fit.devices=2")):
    cnnpool.train(*sys.argv[1:], option, f"hydra.run.dir={folder}")
print("ended")
"""


@pytest.mark.slow
def test_a_script_trains_on_two_devices_and_goes_on_once(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, "script.py", *TRAIN, "probe=none"]
    done = subprocess.run(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, timeout=240)
    assert (done.returncode, done.stdout) == (0, "ended\n")
    one, *others = (read(tmp_path / name) for name in ("one", "two", "three"))
    assert all(other.correct == one.correct and other.steps == one.steps for other in others)


@pytest.mark.slow
def test_two_machines_train_as_one_with_two_devices(tmp_path):
    options = ["probe=none", "fit.epochs=1"]
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    for _ in ("trained", "finished already"):
        machines = [
            train(
                *(tmp_path / "machines", *options, "trainer.num_nodes=2", "callback=learning_rate_monitor"),
                by=(
                    *(sys.executable, "-m", "torch.distributed.run", "--nnodes=2", f"--node-rank={number}"),
                    *("--master-addr=127.0.0.1", f"--master-port={port}"),
                ),
            )
            for number in (0, 1)
        ]
        assert [end(process)[0] for process in machines] == [0, 0]
    assert end(train(tmp_path / "one", *options, "fit.devices=2"))[0] == 0
    machines, one = (load(tmp_path / name / "checkpoints" / "last.ckpt") for name in ("machines", "one"))
    assert all(torch.equal(machines["state_dict"][key], weight) for key, weight in one["state_dict"].items())


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
