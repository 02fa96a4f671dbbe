"""The suite of published networks: what filters cost in a step, ours and timm's in the same places."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cnnpool import pool, swap
from scripts.benchmarks.figures import Wanted, in_turn, row

SIZE, BATCH = 224, 8
FEW = 2
"""Turns of what hardly varies, and takes a process each."""
SIDES = {"published": "as published", "ours": "with ours", "timm": "with timm's"}
FILTERS = (pool.MaxBlurPool2d, pool.BlurPool2d)
MIB = 2**20


class Case(NamedTuple):
    """A network of timm, and operators with the kind of module that they replace or follow.

    ``most`` is the most that a training step may cost, beside the network as published.
    """

    title: str
    arch: str
    swaps: tuple[tuple[str, str], ...]
    most: float | None = None


POOL, CONV = ("max_blur", "pool"), ("blur", "conv")
CASES = (
    Case("ResNet-18, max_blur in place of its max pooling", "resnet18", (POOL,), 1.05),
    Case("ResNet-18, and blur after its strided convolutions", "resnet18", (POOL, CONV)),
    Case("EfficientNet-Lite0, blur after its strided convolutions", "tf_efficientnet_lite0", (CONV,)),
)


def rows(repeat: int) -> Iterator[dict[str, Any]]:
    """Every row of the suite."""
    for case in CASES:
        networks = {side: network(case, side) for side in SIDES}
        for trains, title in ((True, "training step"), (False, "inference")):
            steps = {side: step(net.train(trains), trains=trains) for side, net in networks.items()}
            found = in_turn({side: partial(_milliseconds, call) for side, call in steps.items()}, repeat)
            wanted = Wanted(case.most, most=True) if case.most and trains else None
            for side, words, limit in (("ours", "", wanted), ("timm", " with timm's", None)):
                figures = found[side], found["published"], "as published"
                yield row(f"{case.title}: {title}{words}", "ms", *figures, limit)
        if Path("/proc/self/clear_refs").exists():
            found = in_turn({side: partial(peak, case, side) for side in SIDES}, FEW)
            for side in ("ours", "timm"):
                title = f"{case.title}: peak memory of a training step {SIDES[side]}"
                yield row(title, "MiB", found[side], found["published"], "as published")


def network(case: Case, side: str) -> nn.Module:
    """The network of ``case``, channels last: as published, with our operators, or with timm's instead."""
    import timm

    torch.manual_seed(0)
    net: nn.Module = timm.create_model(case.arch, num_classes=10)
    if side != "published":
        for name, where in case.swaps:
            swap(net, name, where=where, example=torch.zeros(1, 3, SIZE, SIZE))
    if side == "timm":
        _as_timm_has_it(net)
    return net.to(memory_format=torch.channels_last)


def _as_timm_has_it(net: nn.Module) -> None:
    """Replace every operator of ours in ``net`` by timm's way of doing the same."""
    ours = {name: m for name, m in net.named_modules() if isinstance(m, FILTERS)}
    for name, module in ours.items():
        if name.rpartition(".")[0] not in ours:
            net.set_submodule(name, _timms(module))


def _timms(module: nn.Module) -> nn.Module:
    from timm.layers.blur_pool import BlurPool2d

    blur = BlurPool2d(module.channels, 3, stride=2)
    if not isinstance(module, pool.MaxBlurPool2d):
        return blur
    return nn.Sequential(nn.MaxPool2d(module.max.kernel_size, 1, module.max.padding), blur)


def step(net: nn.Module, *, trains: bool) -> Callable[[], None]:
    """A call that trains a batch, but for the optimiser, which is the same for all; or that answers one."""
    images, labels = _batch()

    def train() -> None:
        net.zero_grad(set_to_none=True)
        F.cross_entropy(net(images), labels).backward()

    def infer() -> None:
        with torch.inference_mode():
            net(images)

    return train if trains else infer


def _batch() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(BATCH, 3, SIZE, SIZE, generator=generator)
    return images.to(memory_format=torch.channels_last), torch.arange(BATCH) % 10


def _milliseconds(call: Callable[[], None]) -> float:
    start = time.perf_counter()
    call()
    return 1e3 * (time.perf_counter() - start)


def peak(case: Case, side: str) -> float:
    """MiB by which the peak of two training steps lies above a process that holds network and batch."""
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        return process.submit(_peak, case, side).result()


def _peak(case: Case, side: str) -> float:
    torch.set_num_threads(1)
    call = step(network(case, side).train(), trains=True)
    # The network's own making does not count: Linux begins its highest mark anew.
    Path("/proc/self/clear_refs").write_text("5")
    before = _resident("VmRSS")
    call()
    call()
    return _resident("VmHWM") - before


def _resident(name: str) -> float:
    """MiB of this process now (VmRSS) or at most (VmHWM)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024 / MIB
    raise OSError(f"/proc/self/status has no {name}")
