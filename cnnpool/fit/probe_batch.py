"""The probe images, and the callbacks that run probes on them during training."""

from collections.abc import Iterable

import torch

from cnnpool.data import Dataset
from cnnpool.data.base import Split
from cnnpool.data.draws import stratified
from cnnpool.fit.run_state import Run
from cnnpool.lightning import ProbeCallback
from cnnpool.probe import Batch, Probe
from cnnpool.probe.base import ends_of

SAMPLES = 2048
LARGEST = 320 << 20  # Bytes of the images as floats: more than 512 images of 224 pixels


def looked_at(probes: Iterable[Probe]) -> int:
    """The most images that any of ``probes`` uses, from its options that count images; at least one."""
    counts = [[v for key, v in vars(each).items() if key.endswith("samples")] for each in probes]
    return max((max(own, default=SAMPLES) for own in counts), default=1)


def measuring(run: Run) -> list[ProbeCallback]:
    """The probes that run while ``run`` trains, on validation images or, without any, on training images."""
    probes = [probe for probe in run.probes.values() if probe.every_epochs]
    if not probes:
        return []
    split = run.dataset.val if len(run.dataset.val) else run.dataset.train
    # Large images take much memory, and probes at the end use other images.
    batch, net = sample(run.dataset, split, looked_at(probes)), run.network
    return [
        ProbeCallback(
            probe, every_epochs=probe.every_epochs, batch=batch, stages=net.stages, network=lambda module: net
        )
        for probe in probes
    ]


def sample(dataset: Dataset, split: Split, most: int = SAMPLES) -> Batch:
    """Up to ``most`` normalised images of ``split``, the same in every run, every prefix stratified."""
    channels, (height, width) = dataset.in_channels, dataset.size
    count = max(1, min(most, SAMPLES, LARGEST // (4 * channels * height * width)))
    chosen = split.take(stratified(split.labels, seed=0)[:count])
    # In parts: all at once would take three times their memory.
    parts = dataset.plain_loader(chosen, batch_size=min(64, len(chosen)))
    images = torch.empty(len(chosen), channels, height, width).contiguous(memory_format=torch.channels_last)
    done = 0
    for some, _ in parts:
        images[done : done + len(some)] = some
        done += len(some)
    return Batch(images, chosen.labels, *ends_of(dataset.mean, dataset.std))
