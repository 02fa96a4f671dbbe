"""The suite of published networks: what filters cost in a step, ours and timm's in the same places."""

import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cnnpool import pool, swap
from cnnpool.bench.measure import ratio
from scripts.benchmarks.figures import Wanted, row
from scripts.benchmarks.loops import in_turn

SIZE, BATCH = 224, 8
FEW = 2
"""Turns of what hardly varies, and takes a process each."""
SIDES = ("published", "ours", "timm")
POOLING = (nn.MaxPool2d, pool.MaxBlurPool2d, pool.BlurPool2d)
MIB = 2**20


class Case(NamedTuple):
    """A network, and where filters go in it.

    Args:
        title: in the table.
        arch: of timm.
        swaps: operators, each with the kind of module that it replaces or follows.
        most: the most that a training step may cost, beside the network as published.
    """

    title: str
    arch: str
    swaps: tuple[tuple[str, str], ...]
    most: float | None = None


CASES = (
    Case("ResNet-18, max_blur in place of its max pooling", "resnet18", (("max_blur", "pool"),), 1.05),
    Case(
        "ResNet-18, and blur after its strided convolutions",
        "resnet18",
        (("max_blur", "pool"), ("blur", "conv")),
    ),
    Case(
        "EfficientNet-Lite0, blur after its strided convolutions",
        "tf_efficientnet_lite0",
        (("blur", "conv"),),
    ),
)


class Phase(NamedTuple):
    """A part of a network's life that is timed: a training step, or inference."""

    title: str
    trains: bool


PHASES = (Phase("training step", True), Phase("inference", False))


def rows(repeat: int) -> Iterator[dict[str, Any]]:
    """Every row of the suite.

    Args:
        repeat: turns.
    """
    for case in CASES:
        networks = {side: network(case, side) for side in SIDES}
        for phase in PHASES:
            yield from _times(case, phase, networks, repeat)
        yield from _peaks(case)


def _times(case: Case, phase: Phase, networks: dict[str, nn.Module], repeat: int) -> Iterator[dict[str, Any]]:
    calls: dict[str, Callable[[], float]] = {}
    for side, net in networks.items():
        net.train(phase.trains)
        calls[side] = partial(_seconds, step(net, trains=phase.trains))
        calls[f"{side}, pooling alone"] = partial(_seconds, pooling_alone(net, trains=phase.trains))
    found = in_turn(calls, repeat)
    wanted = Wanted(case.most, most=True) if case.most and phase.trains else None
    title = f"{case.title}: {phase.title}"
    yield _row(title, found["ours"], found["published"], "as published", wanted)
    yield _row(f"{title} with timm's", found["timm"], found["published"], "as published")
    for side in SIDES:
        named = {"published": "as published", "ours": "with ours", "timm": "with timm's"}[side]
        alone = found[f"{side}, pooling alone"]
        yield _row(f"{title} {named}, pooling and filters alone", alone, found[side], "the whole")


def _row(
    title: str, ours: list[float], rival: list[float], against: str, wanted: Wanted | None = None
) -> dict[str, Any]:
    figures = 1e3 * statistics.median(ours), 1e3 * statistics.median(rival), against, ratio(ours, rival)
    return row(title, "ms", *figures, wanted)


def _peaks(case: Case) -> Iterator[dict[str, Any]]:
    if not Path("/proc/self/clear_refs").exists():
        return
    found = in_turn({side: partial(peak, case, side) for side in SIDES}, FEW)
    for side, named in (("ours", "with ours"), ("timm", "with timm's")):
        yield row(
            f"{case.title}: peak memory of a training step {named}",
            "MiB",
            statistics.median(found[side]),
            statistics.median(found["published"]),
            "as published",
            ratio(found[side], found["published"]),
        )


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
    channels: dict[nn.Module, int] = {}

    def note(module: nn.Module, inputs: tuple[Tensor], output: Tensor) -> None:
        channels[module] = inputs[0].shape[1]

    ours = {name: m for name, m in net.named_modules() if isinstance(m, POOLING[1:])}
    outer = {name: m for name, m in ours.items() if name.rpartition(".")[0] not in ours}
    hooks = [module.register_forward_hook(note) for module in outer.values()]
    net.eval()(torch.zeros(1, 3, SIZE, SIZE))
    for hook in hooks:
        hook.remove()
    for name, module in outer.items():
        net.set_submodule(name, _timms(module, channels[module]))


def _timms(module: nn.Module, channels: int) -> nn.Module:
    from timm.layers.blur_pool import BlurPool2d

    if not isinstance(module, pool.MaxBlurPool2d):
        return BlurPool2d(channels, 3, stride=2)
    window, padding = module.max.kernel_size, module.max.padding
    return nn.Sequential(nn.MaxPool2d(window, 1, padding), BlurPool2d(channels, 3, stride=2))


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


def pooling_alone(net: nn.Module, *, trains: bool) -> Callable[[], None]:
    """A call of the pooling modules and filters of ``net`` alone, on the maps that a batch brings them."""
    met: list[tuple[nn.Module, Tensor, Tensor]] = []

    def note(module: nn.Module, inputs: tuple[Tensor], output: Tensor) -> None:
        met.append((module, inputs[0].detach().clone().requires_grad_(trains), torch.ones_like(output)))

    from timm.layers.blur_pool import BlurPool2d

    found = [(name, m) for name, m in net.named_modules() if isinstance(m, (*POOLING, BlurPool2d))]
    names = {name for name, _ in found}
    hooks = [m.register_forward_hook(note) for name, m in found if name.rpartition(".")[0] not in names]
    images, _ = _batch()
    with torch.no_grad():
        net(images)
    for hook in hooks:
        hook.remove()

    def train() -> None:
        for module, x, grad in met:
            torch.autograd.grad(module(x), x, grad)

    def infer() -> None:
        with torch.inference_mode():
            for module, x, _ in met:
                module(x)

    return train if trains else infer


def _batch() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(BATCH, 3, SIZE, SIZE, generator=generator)
    return images.to(memory_format=torch.channels_last), torch.arange(BATCH) % 10


def _seconds(call: Callable[[], None]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def peak(case: Case, side: str) -> float:
    """MiB by which the peak of two training steps lies above a process that holds network and batch."""
    with multiprocessing.get_context("spawn").Pool(1) as one:
        found: float = one.apply(_peak, (case, side))
    return found


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
