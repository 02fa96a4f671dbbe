"""The cost of a model: parameters, FLOPs, bytes saved for backward, and time."""

import logging
import statistics
import time
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import torch
from annotated_types import Ge, Le
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from cnnpool.as_found import examined
from cnnpool.bounds import Count
from cnnpool.pool import AdaptiveAvgPool2d, AdaptiveMaxPool2d, AvgPool2d, LpPool2d, MaxPool2d, Pool2d
from cnnpool.probe.base import (
    Batch,
    Probe,
    Result,
    Stages,
    device_of,
    first_input,
    maps_of,
    size_of,
    uncompiled,
)
from cnnpool.probe.shift import at_once
from cnnpool.quantity import Quantity, count
from cnnpool.readout.base import Readout

log = logging.getLogger(__name__)
OURS = MaxPool2d, AvgPool2d, LpPool2d, AdaptiveAvgPool2d, AdaptiveMaxPool2d
OF_TORCH = tuple(one.torch_module for one in OURS)
size = partial(count, better="lower", seeds="same")


@dataclass(kw_only=True)
class Cost(Probe):
    """Parameters, FLOPs per image (pooling included), bytes saved for backward per image, and time.

    Uses fewer images if they are large, reports this, and adds ``samples`` and ``timed_samples``.

    Args:
        samples: images over which the bytes are averaged, >= 1; as in training, operators may use another
            algorithm for very few.
        timed_samples: images of a timed batch, >= 1.
        repeats: timed passes, whose median is reported, >= 1.
    """

    section = "cost"
    quantities = (
        size("parameters", "parameters", "Numbers that training changes.", shown="compare"),
        size(
            "classifier_parameters",
            "parameters of fully connected layers",
            "Numbers that training changes in fully connected layers.",
        ),
        size(
            "flops",
            "FLOPs",
            "Arithmetic of one forward pass for one image, pooling included; a multiply-add counts as two.",
            shown="compare",
            headline=True,
        ),
        size(
            "saved_bytes",
            "kept for backward",
            "Bytes that autograd keeps between the forward and the backward pass, parameters not counted, "
            "divided by the images of the batch.",
            unit="B",
            shown="compare",
        ),
        count(
            "forward_images_per_s",
            "forward images/s",
            "Images of a forward pass in eval mode, divided by its seconds; the median of several passes.",
            better="higher",
            timed=True,
        ),
        *(
            Quantity(
                f"stages.<stage>.{way}_us",
                f"{way} time",
                f"Microseconds of one stage's operator alone, {way}, divided by the images of the batch; the "
                "median of several passes.",
                unit="us",
                better="lower",
                stages="sum",
                timed=True,
                range=(0.0, None),
            )
            for way in ("forward", "backward")
        ),
    )

    samples: Count = 64
    timed_samples: Count = 64
    repeats: Annotated[int, Ge(1), Le(1000)] = 5

    def read(self, model: nn.Module, stages: Stages, batch: Batch) -> Result:
        timed = batch.first(min(self.timed_samples, at_once(batch.images, kept=False))).images
        images, labels, *_ = batch.first(min(self.samples, at_once(batch.images, kept=True)))
        fewer = {}
        asked = sum(min(most, len(batch.images)) for most in (self.samples, self.timed_samples))
        if len(images) + len(timed) < asked:
            fewer = {"samples": len(images), "timed_samples": len(timed)}
            log.info("cost: images this large: bytes over %d of them, times over %d", *fewer.values())
        return {
            **fewer,
            "parameters": parameters(model),
            "classifier_parameters": parameters(model, nn.Linear),
            **({} if (counted := flops(model, images[:1])) is None else {"flops": counted}),
            "saved_bytes": saved_bytes(model, images, labels),
            "forward_images_per_s": images_per_s(model, timed, self.repeats),
            "stages": stage_times(model, stages, timed, self.repeats),
        }


def parameters(model: nn.Module, kind: type[nn.Module] = nn.Module) -> int:
    """Number of trainable parameters in layers of a ``kind``; shared ones count once."""
    own = {p for m in model.modules() if isinstance(m, kind) for p in m.parameters()}
    return sum(p.numel() for p in own if p.requires_grad)


def flops(model: nn.Module, image: Tensor) -> int | None:
    """FLOPs of a forward pass on one image (1, C, H, W): torch's count, and what operators and readouts add
    by ``flops``; torch's own pooling counts as our operator of the same window.

    None if an operator does not define it; a readout that does not counts as torch does.
    """
    counter, own = FlopCounterMode(display=False), list[int | None]()

    def add(module: Any, args: tuple[Tensor, ...], named: dict[str, Tensor], output: Tensor) -> None:
        x = first_input(args, named)
        with FlopCounterMode(display=False) as again:
            module.forward(x.detach())
        counted, stated = again.get_total_flops(), _stated(module, x)
        # The counter has counted these twice now.
        own.append(None if stated is None else max(stated - counted, 0) - counted)

    # The counter's global hooks, of which a compiled module warns, count nothing twice.
    quiet = warnings.catch_warnings(action="ignore", category=UserWarning)
    with ExitStack() as hooks, examined(model), torch.no_grad(), uncompiled(), quiet, counter:
        for module in set(_counting(model)):
            hooks.enter_context(module.register_forward_hook(add, with_kwargs=True))
        model(image.to(device_of(model)))
    known = [more for more in own if more is not None]
    return int(counter.get_total_flops() + sum(known)) if len(known) == len(own) else None


def _counting(module: nn.Module) -> Iterator[nn.Module]:
    """The modules that state their arithmetic, not those inside one of them."""
    if isinstance(module, (Pool2d, Readout, *OF_TORCH)):
        yield module
    else:
        for child in module.children():
            yield from _counting(child)


def _stated(module: nn.Module, x: Tensor) -> int | None:
    if ours := next((one for one in OURS if isinstance(module, one.torch_module)), None):
        try:
            module = ours.like(module, x.shape[-3])
        except ValueError:
            # An option that ours does not have.
            return 0
    try:
        stated: int | None = module.flops(*size_of(x))  # type: ignore[operator]
    except NotImplementedError:
        return 0
    return stated


def saved_bytes(model: nn.Module, images: Tensor, labels: Tensor) -> int:
    """Bytes that autograd saves for backward, per image; parameters are not counted.

    A storage saved by several layers counts once, and one of a discarded part of the graph does not count.
    """
    own = {p.untyped_storage().data_ptr() for p in (*model.parameters(), *model.buffers())}
    # Weak references while the graph holds them: a storage's address may be reused.
    kept: list[weakref.ref[Tensor]] = []

    def pack(tensor: Tensor) -> Tensor:
        # Detached: a node's own output would keep the node alive.
        saved = tensor.detach()
        kept.append(weakref.ref(saved))
        return saved

    # Copied: the images may share the storage of a larger batch.
    images, labels = (t.to(device_of(model), copy=True) for t in (images, labels))
    with (
        examined(model),
        torch.enable_grad(),
        torch.autograd.graph.saved_tensors_hooks(pack, lambda saved: saved),
    ):
        loss = F.cross_entropy(model(images), labels)
    alive = [saved.untyped_storage() for one in kept if (saved := one()) is not None]
    storages = {storage.data_ptr(): storage.nbytes() for storage in alive}
    del loss
    return round(sum(size for start, size in storages.items() if start not in own) / len(images))


def images_per_s(model: nn.Module, images: Tensor, repeats: int) -> float:
    """Images per second through the forward pass in eval mode, the median of ``repeats`` passes."""
    device = device_of(model)
    images = images.to(device)
    with examined(model), torch.no_grad():
        return len(images) / seconds(lambda: model(images), repeats, device)


def stage_times(
    model: nn.Module, stages: Stages, images: Tensor, repeats: int
) -> dict[str, dict[str, float]]:
    """Microseconds per image of each stage's operator on its own input; forward records, as in training."""
    times = {}
    seen = maps_of(model, stages, images, inputs=True)
    with examined(model), torch.enable_grad():
        for stage, x in seen.items():
            taken = _operator_seconds(stages[stage], x, repeats, device_of(model))
            names = ("forward_us", "backward_us")
            times[stage] = {name: 1e6 * s / len(images) for name, s in zip(names, taken, strict=True)}
    return times


def seconds(work: Callable[[], object], repeats: int, device: torch.device) -> float:
    """Median wall time of ``work``, after one untimed call."""
    measured = []
    for _ in range(repeats + 1):
        _wait(device)
        start = time.perf_counter()
        work()
        _wait(device)
        measured.append(time.perf_counter() - start)
    return statistics.median(measured[1:])


def times_in_turn(models: Sequence[nn.Module], images: Tensor, repeats: int = 5) -> dict[str, list[float]]:
    """Milliseconds per image of each model, by way: the medians of passes that take turns.

    ``inference`` is a forward pass in eval mode, ``training`` one with its backward pass, without an
    optimizer's step; both are divided by the images of the batch.
    """
    images = images.to(device := device_of(models[0]))

    def inference(model: nn.Module) -> None:
        with torch.no_grad():
            model(images)

    def training(model: nn.Module) -> None:
        with torch.enable_grad():
            loss = model(images).square().mean()
            torch.autograd.grad(loss, [p for p in model.parameters() if p.requires_grad], allow_unused=True)

    found = {}
    for way, work in (("inference", inference), ("training", training)):
        taken: list[list[float]] = [[] for _ in models]
        for _ in range(repeats):
            for model, own in zip(models, taken, strict=True):
                with examined(model):
                    own.append(seconds(partial(work, model), 1, device))
        found[way] = [1e3 * statistics.median(own) / len(images) for own in taken]
    return found


def _operator_seconds(
    operator: nn.Module, x: Tensor, repeats: int, device: torch.device
) -> tuple[float, float]:
    x = x.detach().requires_grad_()
    wanted = [x, *(p for p in operator.parameters() if p.requires_grad)]
    forward = seconds(lambda: operator(x), repeats, device)
    output = operator(x)
    if output.grad_fn is None:
        return forward, 0.0
    # A gradient that lies in memory, as in training.
    back = partial(torch.autograd.grad, output, wanted, torch.ones_like(output), True, allow_unused=True)
    return forward, seconds(back, repeats, device)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
