"""The suites of whole commands, in processes of their own: of starting, and of sweeps."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from cnnpool.bench.measure import ratio
from scripts.benchmarks.figures import Wanted, row

POLL_S = 0.005
ONE_STEP = ["-m", "cnnpool", "train", "fit=smoke", "fit.max_steps=1", "probe=none"]
WRITE_STEPS, STEPS = ["fit.log_every_steps=1", "hydra.run.dir=run"], "run/metrics.jsonl"
"""The settings that make a training write every step at once, and the file that it writes them to."""
TORCH = ["-c", "import torch"]
SCRIPT = """
import os

import hydra
import torch
import torchvision
from lightning.pytorch import LightningModule, Trainer
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics import MaxMetric, MeanMetric
from torchmetrics.classification import Accuracy


class Net(LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 26 * 26, 10))
        self.accuracy = Accuracy(task="multiclass", num_classes=10)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())

    def training_step(self, batch, index):
        logits = self.net(batch[0])
        self.accuracy(logits, batch[1])
        self.log("train/accuracy", self.accuracy)
        return nn.functional.cross_entropy(logits, batch[1])

    def on_train_batch_end(self, *arguments):
        os._exit(0)


images = TensorDataset(torch.rand(256, 1, 28, 28), torch.randint(10, (256,)))
Trainer(accelerator="cpu", logger=False).fit(Net(), DataLoader(images, batch_size=128))
"""
"""A least script: the imports of lightning-hydra-template, and one step on random images."""


class Start(NamedTuple):
    """One command, and its rival: arguments of Python."""

    arguments: list[str]
    wanted: float
    """Seconds to its end."""
    status: int = 0
    until: str = ""
    """To the first byte of this file instead, when the process is killed."""
    rival: list[str] = TORCH
    against: str = "import torch"


STARTS = {
    "cnnpool --help": Start(["-m", "cnnpool", "--help"], 0.3),
    "cnnpool train --help": Start(["-m", "cnnpool", "train", "--help"], 0.7),
    "an unknown key": Start(["-m", "cnnpool", "train", "fit.lrr=1"], 0.7, 2),
    "an unknown choice": Start(["-m", "cnnpool", "train", "pool=nonsense"], 0.7, 2),
    "a rate out of range": Start(["-m", "cnnpool", "train", "fit.lr=-1"], 0.7, 2),
    "a window out of range": Start(["-m", "cnnpool", "train", "pool.kernel_size=0"], 0.7, 2),
    "to the first training step": Start(
        [*ONE_STEP, *WRITE_STEPS], 3.0, 0, STEPS, ["-c", SCRIPT], "Lightning, torchmetrics"
    ),
    "a run of one step, to its end": Start(ONE_STEP, 3.0),
}
AGAINST = "one after the other in a process"
SWEEPS = ((8, "sprint", ()), (8, "convnet", ("fit.epochs=10", "fit.pictures=false")))
"""Sweeps over seeds: how many runs, the model that they train on digits, and options beside."""


def rows(repeat: int) -> Iterator[dict[str, Any]]:
    """Seconds of every command, beside those of its rival."""
    for title, start in STARTS.items():
        ours, theirs = [], []
        for _ in range(repeat):
            ours.append(seconds(start.arguments, start.status, start.until))
            theirs.append(seconds(start.rival))
        yield row(title, "s", ours, theirs, start.against, Wanted(start.wanted, most=True, unit="s"))


def sweeps(repeat: int) -> Iterator[dict[str, Any]]:
    """Seconds of a sweep with ``launch=processes``, beside the same runs one after the other in a process,
    which imports everything once and has all cores. How far one can get: what one process takes that has one
    core, shared by all cores without any loss.
    """
    for n, model, options in SWEEPS:
        case = f"{n} runs, {model} on digits, {' '.join(options) or 'as they come'}, {os.cpu_count()} cores"
        train = ["-m", "cnnpool", "train", "data=digits", f"model={model}", *options]
        sweep = [*train, "-m", f"seed={','.join(map(str, range(n)))}"]
        beside, after, least = [], [], []
        for _ in range(repeat):
            beside.append(seconds([*sweep, "launch=processes"]))
            after.append(seconds(sweep))
            least.append(seconds(sweep, threads=1) / (os.cpu_count() or 1))
        for what, ours, wanted in (
            (case, beside, Wanted(1.5)),
            (f"{case}: bound, one core's work divided by the cores", least, None),
        ):
            yield row(what, "s", ours, after, AGAINST, wanted, ratio(after, ours))


def seconds(arguments: list[str], status: int = 0, until: str = "", threads: int | None = None) -> float:
    """Wall time of one Python process in an empty folder, or until it has written to a file there.

    Args:
        arguments: of Python.
        status: that it is to end with.
        until: the file.
        threads: of torch; None: as many as it takes of itself.

    Raises:
        RuntimeError: if it ends with another status, or without the file.
    """
    with tempfile.TemporaryDirectory() as folder:
        file, start = Path(folder, until), time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=folder,
            env=environment() | ({"OMP_NUM_THREADS": str(threads)} if threads else {}),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while process.poll() is None and not (until and file.exists() and file.stat().st_size):
            time.sleep(POLL_S)
        taken = time.perf_counter() - start
        if process.poll() is None:
            process.kill()
            process.wait()
        elif until or process.returncode != status:
            raise RuntimeError(f"{' '.join(arguments)} ended with status {process.returncode}")
        return taken


def environment() -> dict[str, str]:
    """Ours, in which a process finds this package and keeps its bytecode."""
    package = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH"))))
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"PYTHONPATH": path}
