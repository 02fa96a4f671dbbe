"""The suite of training: our runs beside loops that do less, in turn in one process."""

import logging
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch

from cnnpool import data, model, pool, probe, readout
from cnnpool.bench.figures import row
from cnnpool.bench.loops import as_torchvision_has_it, bare
from cnnpool.bench.measure import ratio
from cnnpool.data.base import Split
from cnnpool.fit import Facts, Recipe, fit
from cnnpool.machine import fast_precision


@dataclass(frozen=True)
class Case:
    """A network, its batch and the number of steps that are timed at once."""

    title: str
    network: str
    width: int
    batch_size: int
    steps: int


PLAIN = Case("convnet, batch 128", "convnet", 16, 128, 60)
SMALL = Case("sprint, batch 128 (LeNet's size)", "sprint", 32, 128, 200)
FEW = replace(SMALL, steps=60)
TINY = Case("sprint of width 1, batch 2", "sprint", 1, 2, 1000)


def rows(root: Path, repeat: int) -> Iterator[dict[str, Any]]:
    """Every row of the suite.

    Args:
        root: folder of MNIST's files.
        repeat: turns.
    """
    logging.disable(logging.INFO)
    for case in (PLAIN, SMALL):
        ours, loop = _in_turn(case, root, repeat, lambda case=case: _bare(case, root))
        speed = ratio(ours, loop)
        title = f"images/s, {case.title}: run / bare loop"
        yield row(title, "1/s", _median(ours), _median(loop), "bare loop", speed, "0.95 at 5 ms a step")
    ours, loop = _in_turn(TINY, root, repeat, lambda: _bare(TINY, root))
    cost = [1e3 * TINY.batch_size * (1 / a - 1 / b) for a, b in zip(ours, loop, strict=True)]
    step = [1e3 * TINY.batch_size / speed for speed in loop]
    relative = ratio([c + s for c, s in zip(cost, step, strict=True)], step)
    yield row(
        "a step's cost beyond the bare loop's, all logged",
        "ms",
        _median(cost),
        _median(step),
        "the whole bare step of a tiny network",
        relative,
        "at most 0.25 ms",
    )
    ours, loop = _in_turn(FEW, root, repeat, lambda: _torchvision(FEW, root))
    speed, title = ratio(ours, loop), f"images/s, {SMALL.title}: run / torchvision's way"
    yield row(title, "1/s", _median(ours), _median(loop), "DataLoader, float32, Adam", speed, "6")
    yield _probes(PLAIN, root, repeat)


def _in_turn(case: Case, root: Path, repeat: int, rival) -> tuple[list[float], list[float]]:
    ours, theirs = [], []
    for turn in range(-1, repeat):
        pair = [_ours(case, root), rival()] if turn % 2 else [rival(), _ours(case, root)][::-1]
        # The first turn compiles, reads and grows the heap.
        if turn >= 0:
            ours.append(pair[0])
            theirs.append(pair[1])
    return ours, theirs


@cache
def _dataset(case: Case, root: Path) -> data.Dataset:
    whole = data.build("mnist", root=str(root), batch_size=case.batch_size, val_size=0)
    part = torch.arange(case.steps * case.batch_size)
    few = Split(whole.test.images[:64], whole.test.labels[:64])
    return data.Dataset(**{**vars(whole), "train": whole.train.take(part), "test": few})


def _network(case: Case) -> model.Cnn:
    torch.manual_seed(0)
    return model.build(
        case.network,
        1,
        (28, 28),
        10,
        pool=lambda stage, channels: pool.build("max", channels),
        readout=lambda channels, size: readout.build("flatten", channels, size, hidden=0),
        width=case.width,
    ).to(memory_format=torch.channels_last)


def _ours(case: Case, root: Path) -> float:
    """Images per second of one epoch of a run, as the run itself reports it."""
    named = {"name": "max"}
    facts = Facts(
        run="bench",
        choice="bench",
        pool=named,
        stages={"s1": named, "s2": named},
        readout={"name": "flatten"},
        model={"name": case.network},
        data={"name": "mnist"},
    )
    recipe = Recipe(epochs=1, pictures=False, progress=False)
    with tempfile.TemporaryDirectory() as folder:
        results = fit(
            _network(case), _dataset(case, root), {}, recipe=recipe, seed=0, out=Path(folder), facts=facts
        )
    return results["cost"]["train_images_per_s"]


def _bare(case: Case, root: Path) -> float:
    net, batches = _network(case), _dataset(case, root).train_batches()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01, fused=True)
    return bare(net, batches, optimizer, half=fast_precision() == "bf16-mixed")


def _torchvision(case: Case, root: Path) -> float:
    net = _network(case).to(memory_format=torch.contiguous_format)
    batches = as_torchvision_has_it(root, case.batch_size, case.steps)
    return bare(net, batches, torch.optim.Adam(net.parameters(), lr=0.001), half=False)


def _probes(case: Case, root: Path, repeat: int) -> dict[str, Any]:
    """The probe that looks at every epoch, beside an epoch of MNIST."""
    net, dataset = _network(case), _dataset(case, root)
    batch = next(iter(dataset.train_batches()))
    reading = probe.build("gradient", samples=128, every_epochs=1)
    epoch, seconds = [], []
    for _ in range(repeat):
        epoch.append(60000 / _bare(case, root))
        start = time.perf_counter()
        reading.measure(net, net.stages, *batch)
        seconds.append(time.perf_counter() - start)
    share = ratio(seconds, epoch)
    title = "the probe of every epoch / an epoch of MNIST"
    return row(title, "s", _median(seconds), _median(epoch), case.title, share, "below 0.01")


def _median(values: list[float]) -> float:
    return statistics.median(values)
