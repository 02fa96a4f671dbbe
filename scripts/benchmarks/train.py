"""The suite of training: our runs beside minimal loops, in turn in one process."""

import io
import logging
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor, nn
from torchvision import models

from cnnpool import data, model, pool, probe, readout, swap
from cnnpool.bench.measure import ratio
from cnnpool.data.base import Split
from cnnpool.fit import Classifier, Images
from cnnpool.fit.checkpoints import Checkpoints
from cnnpool.fit.record import Record
from cnnpool.fit.results import sample
from cnnpool.fit.trainer import build_trainer, quieten
from cnnpool.lightning import ProbeCallback
from cnnpool.pool import dispatch
from cnnpool.run_folder import layout
from cnnpool.system.hardware import fast_precision
from cnnpool.system.signals import Signals
from scripts.benchmarks.figures import Wanted, in_turn, row


@dataclass(frozen=True)
class Case:
    """A network, its batch and the number of steps that are timed at once."""

    title: str
    network: str
    width: int
    batch_size: int
    steps: int


PLAIN = Case("convnet, batch 128", "convnet", 16, 128, 60)
SMALL = Case("sprint, batch 128 (LeNet-5's parameters, twice its products)", "sprint", 32, 128, 200)
EPOCH = replace(PLAIN, title="an epoch of MNIST", steps=468)
RESNET = Case("ResNet-18 at 64 pixels, batch 32", "resnet18", 64, 32, 8)
TINY = Case("one linear layer, batch 8", "linear", 0, 8, 2000)


def rows(root: Path, repeat: int) -> Iterator[dict[str, Any]]:
    """Every row of the suite; ``root`` is the folder of MNIST's files."""
    logging.disable(logging.INFO)
    speeds = {"ours": partial(_speed, PLAIN, root), "rival": partial(_bare, PLAIN, root)}
    ours, loop = in_turn(speeds, repeat).values()
    step = 1e3 * PLAIN.batch_size / median(loop)
    title = f"images/s, {PLAIN.title}: run / bare loop, {step:.1f} ms a step"
    yield row(title, "1/s", ours, loop, "bare loop", Wanted(0.95))
    for case in (PLAIN, TINY):
        speeds = {"ours": partial(_speed, case, root), "rival": partial(_automatic, case, root)}
        steps = [
            [1e3 * case.batch_size / speed for speed in each] for each in in_turn(speeds, repeat).values()
        ]
        title = f"a step, {case.title}: run / 30-line Lightning module on the same DataLoader"
        yield row(title, "ms", *steps, "automatic module", Wanted(1.05, most=True))
    yield _batches(EPOCH, root, repeat)
    yield from _probes(EPOCH, root, repeat)


def kernels(repeat: int) -> Iterator[dict[str, Any]]:
    """Training steps with our compiled kernels, beside the same steps with torch's operators.

    On one thread, and on as many as torch has at the start.
    """
    for threads in sorted({1, torch.get_num_threads()}):
        torch.set_num_threads(threads)
        for case in (PLAIN, SMALL, RESNET):
            for operator in ("max", "avg", "blur", "max_blur", "soft"):
                ways = {"ours": None, "rival": False}
                speeds = {name: partial(_steps, case, operator, wanted) for name, wanted in ways.items()}
                title = f"images/s, {case.title}, {operator}, {threads} thread{'s' * (threads > 1)}"
                yield row(title, "1/s", *in_turn(speeds, repeat).values(), "torch's operators")


def bare(network: nn.Module, batches: Iterable, optimizer: torch.optim.Optimizer) -> float:
    """Images per second of the least loop that trains, in the precision of a run."""
    half = fast_precision() == "bf16-mixed"
    network.train()
    count, start = 0, time.perf_counter()
    for images, labels in batches:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            loss = nn.functional.cross_entropy(network(images), labels, label_smoothing=0.1)
        loss.backward()
        optimizer.step()
        count += len(labels)
    return count / (time.perf_counter() - start)


def _steps(case: Case, operator: str, wanted: bool | None) -> float:
    """Images per second of the least loop, on one batch of noise; without kernels if ``wanted`` is False."""
    net, size = _network(case, operator), (3, 64, 64) if case.network == "resnet18" else (1, 28, 28)
    batch = torch.randn(case.batch_size, *size).to(memory_format=torch.channels_last)
    labels = torch.arange(case.batch_size) % 10
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01, fused=True)
    with dispatch.use(wanted):
        bare(net, [(batch, labels)], optimizer)
        return bare(net, [(batch, labels)] * -(-case.steps // 4), optimizer)


def _batches(case: Case, root: Path, repeat: int) -> dict[str, Any]:
    """A batch from the run's DataLoader, beside the same one made by hand from shuffled pixels."""
    dataset = _dataset(case, root)
    pixels, labels = dataset.train.images, dataset.train.labels
    mean, std = (torch.tensor(values).view(-1, 1, 1) for values in (dataset.mean, dataset.std))

    def loaded() -> float:
        loader = dataset.train_loader()
        start = time.perf_counter()
        for _ in loader:
            pass
        return 1e3 * (time.perf_counter() - start) / len(loader)

    def by_hand() -> float:
        start = time.perf_counter()
        for chosen in torch.randperm(len(labels)).split(case.batch_size):
            pixels[chosen].float().div_(255).sub_(mean).div_(std)
            labels[chosen]
        return 1e3 * (time.perf_counter() - start) / case.steps

    ours, least = in_turn({"ours": loaded, "rival": by_hand}, repeat).values()
    beyond = [a - b for a, b in zip(ours, least, strict=True)]
    title = f"a batch of {case.batch_size} of MNIST in memory, beyond one made by hand"
    wanted = Wanted(0.1, most=True, unit="ms")
    return row(title, "ms", beyond, least, "indexed and normalised by hand", wanted, ratio(ours, least))


@cache
def _dataset(case: Case, root: Path) -> data.Dataset:
    whole = data.build("mnist", root=str(root), batch_size=case.batch_size, val_size=0)
    part = torch.arange(case.steps * case.batch_size)
    few = Split(whole.test.images[:64], whole.test.labels[:64])
    return data.Dataset(**{**vars(whole), "train": whole.train.take(part), "test": few})


def _network(case: Case, operator: str = "max") -> nn.Module:
    torch.manual_seed(0)
    if case.network == "linear":
        least = nn.Sequential(nn.Flatten(), nn.Linear(28 * 28, 10))
        least.stages = {}
        return least
    if case.network == "resnet18":
        published = models.resnet18(num_classes=10)
        swap(published, operator, where="pool", example=torch.zeros(1, 3, 64, 64))
        return published.to(memory_format=torch.channels_last)
    # As in experiment=mnist_fast.
    options: dict[str, Any] = {"pad_ends": False} if case.network == "sprint" else {}
    options["pool"] = lambda stage, channels: pool.build(operator, channels)
    options["readout"] = lambda channels, size: readout.build("flatten", channels, size, hidden=0)
    net = model.build(case.network, 1, (28, 28), 10, width=case.width, **options)
    return net.to(memory_format=torch.channels_last)


def _speed(case: Case, root: Path) -> float:
    """Images per second of one epoch of a training with all its files, as a run itself reports it."""
    speed = _ours(case, root)["train_images_per_s"]
    assert speed is not None
    return speed


def _ours(case: Case, root: Path, probes: Iterable[probe.Probe] = ()) -> dict[str, float | None]:
    """Cost of a training of one epoch, with its record and its checkpoints."""
    net, dataset = _network(case), _dataset(case, root)
    classifier = Classifier(None, None, {"epochs": 1, "progress": True}, model=net)
    callbacks: list[Callback] = []
    for each in probes:
        batch = sample(dataset, dataset.train)
        callbacks.append(ProbeCallback(each, batch=batch, stages=net.stages, network=lambda module: net))
    quieten()
    nowhere = redirect_stdout(io.StringIO())
    with tempfile.TemporaryDirectory() as folder, nowhere, Signals() as signals:
        out = Path(folder)
        record = Record(out)
        saving = Checkpoints(out, layout.begin(out), record, signals)
        flags = {"limit_val_batches": 0}
        trainer = build_trainer(classifier.recipe, flags, [*callbacks, saving], [record])
        trainer.fit(classifier, datamodule=Images(dataset))
        record.close()
    return saving.cost


class Automatic(LightningModule):
    """A network as a newcomer to Lightning trains it: no records, no checkpoints."""

    def __init__(self, network: nn.Module):
        super().__init__()
        self.network = network
        self.seconds = 0.0

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        images, labels = batch
        return nn.functional.cross_entropy(self.network(images), labels)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=0.01, fused=True)

    def on_train_epoch_start(self) -> None:
        self.begun = time.perf_counter()

    def on_train_epoch_end(self) -> None:
        self.seconds = time.perf_counter() - self.begun


def _automatic(case: Case, root: Path) -> float:
    """Images per second of one epoch of a minimal Lightning module on the run's own DataLoader."""
    module, loader = Automatic(_network(case)), _dataset(case, root).train_loader()
    quieten()
    quiet = {"logger": False, "enable_checkpointing": False, "enable_model_summary": False}
    trainer = Trainer(
        max_epochs=1, accelerator="cpu", precision=fast_precision(), enable_progress_bar=False, **quiet
    )
    trainer.fit(module, loader)
    return len(loader) * case.batch_size / module.seconds


def _bare(case: Case, root: Path) -> float:
    net, batches = _network(case), _dataset(case, root).train_loader()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01, fused=True)
    return bare(net, batches, optimizer)


@dataclass(kw_only=True)
class Timed(probe.GradientRouting):
    """The probe that reads every epoch, and notes the seconds of its readings."""

    tried = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.seconds = 0.0

    def read(self, *batch: Any) -> dict[str, Any]:
        start = time.perf_counter()
        result = super().read(*batch)
        self.seconds += time.perf_counter() - start
        return result


def _timed(case: Case, root: Path, *readings: Timed) -> tuple[float, float]:
    """Seconds of a run, and of its readings by their own clock."""
    start = time.perf_counter()
    _ours(case, root, readings)
    return time.perf_counter() - start, sum(one.seconds for one in readings)


def _probes(case: Case, root: Path, repeat: int) -> Iterator[dict[str, Any]]:
    """A run with the probe that reads every epoch, beside the same run without it, in turn."""
    calls = {"without": lambda: _timed(case, root), "with": lambda: _timed(case, root, Timed())}
    found = in_turn(calls, repeat)
    (without, _), (with_it, inside) = (zip(*found[name], strict=True) for name in calls)
    title = f"{case.title}: a run with probes at their frequency / without"
    yield row(title, "s", with_it, without, "no probe", Wanted(1.01, most=True))
    title = f"{case.title}: readings while it trains, by their own clock"
    yield row(title, "s", inside, without, "the run without", Wanted(0.01, most=True))
