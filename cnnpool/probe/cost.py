"""The cost of a model: parameters, arithmetic, and bytes kept for the backward pass."""

import logging
import weakref
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from annotated_types import Ge, Le
from torch import Tensor, nn
from torch.nn import functional as F

from cnnpool.bounds import Count
from cnnpool.probe.arithmetic import Arithmetic
from cnnpool.probe.base import Batch, Probe, Result, Stages, device_of, examined
from cnnpool.probe.parts import at_once
from cnnpool.probe.speed import images_per_s, stage_times
from cnnpool.quantity import Quantity, count
from cnnpool.registry import checked

log = logging.getLogger(__name__)


@checked
@dataclass(kw_only=True)
class Cost(Probe):
    """Parameters, FLOPs per image (pooling counted), bytes kept for backward per image, and time.

    Of large images it takes fewer, says so, and adds ``samples`` and ``timed_samples``.

    Args:
        samples: images over which the bytes are averaged, >= 1; as in training, operators may work in another
            way on very few.
        timed_samples: images of a timed batch, >= 1.
        repeats: timed passes, of which the median counts, >= 1.
        every_epochs: read after every so many epochs; 0: only at the end.

    Raises:
        ValueError: if an option is out of range.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from cnnpool.pool import MaxPool2d
        >>> from cnnpool.probe import Cost
        >>> model = nn.Sequential(MaxPool2d(1), nn.Flatten(), nn.Linear(16, 10))
        >>> images, labels = torch.rand(4, 1, 8, 8), torch.zeros(4, dtype=torch.int64)
        >>> found = Cost(repeats=1).measure(model, {"s1": model[0]}, images, labels)
        >>> found["parameters"]  # 16 * 10 + 10
        170
    """

    section = "cost"
    quantities = (
        count(
            "parameters",
            "parameters",
            "Numbers that training changes.",
            better="lower",
            seeds="same",
            shown="compare",
        ),
        count(
            "classifier_parameters",
            "parameters of fully connected layers",
            "Numbers that training changes in fully connected layers.",
            better="lower",
            seeds="same",
        ),
        count(
            "flops",
            "FLOPs",
            "Arithmetic of one forward pass for one image, pooling included; a multiply-add counts two.",
            better="lower",
            seeds="same",
            shown="compare",
        ),
        count(
            "saved_bytes",
            "kept for backward",
            "Bytes that autograd keeps between the forward and the backward pass, parameters not "
            "counted, divided by the images of the batch.",
            unit="B",
            better="lower",
            seeds="same",
            shown="compare",
        ),
        count(
            "forward_images_per_s",
            "forward images/s",
            "Images that pass forward in eval mode, divided by the seconds that takes; the median of "
            "several passes.",
            better="higher",
            timed=True,
        ),
        Quantity(
            "stages.<stage>.forward_us",
            "forward time",
            "Microseconds of one stage's operator alone, forward, divided by the images of the batch; "
            "the median of several passes.",
            unit="us",
            better="lower",
            stages="sum",
            timed=True,
            range=(0.0, None),
        ),
        Quantity(
            "stages.<stage>.backward_us",
            "backward time",
            "Microseconds of one stage's operator alone, backward, divided by the images of the "
            "batch; the median of several passes.",
            unit="us",
            better="lower",
            stages="sum",
            timed=True,
            range=(0.0, None),
        ),
    )

    samples: Count = 64
    timed_samples: Count = 64
    repeats: Annotated[int, Ge(1), Le(1000)] = 5

    def read(self, model: nn.Module, stages: Stages, batch: Batch) -> Result:
        timed = batch.first(min(self.timed_samples, at_once(batch.images, kept=False))).images
        images, labels, *_ = batch.first(min(self.samples, at_once(batch.images, kept=True)))
        fewer = {}
        if len(images) < min(self.samples, len(batch.images)):
            fewer = {"samples": len(images), "timed_samples": len(timed)}
            log.info("cost: images this large: bytes over %d of them, times over %d", *fewer.values())
        return {
            **fewer,
            "parameters": parameters(model),
            "classifier_parameters": classifier_parameters(model),
            **({} if (counted := flops(model, stages, images[:1])) is None else {"flops": counted}),
            "saved_bytes": saved_bytes(model, images, labels),
            "forward_images_per_s": images_per_s(model, timed, self.repeats),
            "stages": stage_times(model, stages, timed, self.repeats),
        }


def parameters(model: nn.Module) -> int:
    """Number of trainable parameters."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def classifier_parameters(model: nn.Module) -> int:
    """Number of trainable parameters in fully connected layers (``nn.Linear``)."""
    linear = {p for m in model.modules() if isinstance(m, nn.Linear) for p in m.parameters()}
    return sum(p.numel() for p in linear if p.requires_grad)


def flops(model: nn.Module, stages: Stages, image: Tensor) -> int | None:
    """Arithmetic of one forward pass on one image (1, C, H, W): a multiply-add counts two.

    Convolutions and matrix products are counted as torch does, which leaves pooling out; other arithmetic of
    the operators is added by their own ``flops``. None if an operator does not define it.
    """
    pooling: list[int | None] = []
    counter = Arithmetic()

    def add(module: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        counted = Arithmetic()
        with torch.no_grad(), counted:
            module.forward(inputs[0].detach())
        said = module.flops(*inputs[0].shape[-2:])
        pooling.append(None if said is None else max(said - counted.total, 0))

    hooks = [m.register_forward_hook(add) for m in stages.values() if hasattr(m, "flops")]
    try:
        with examined(model), torch.no_grad():
            model(image.to(device_of(model)))
            for hook in hooks:
                hook.remove()
            with counter:
                model(image.to(device_of(model)))
    finally:
        for hook in hooks:
            hook.remove()
    known = [said for said in pooling if said is not None]
    return int(counter.total + sum(known)) if len(known) == len(pooling) else None


def saved_bytes(model: nn.Module, images: Tensor, labels: Tensor) -> int:
    """Bytes that autograd keeps between forward and backward, per image; parameters are not counted.

    A storage kept by several layers counts once, and one that a discarded part of the graph kept, not at all.
    """
    own = {p.untyped_storage().data_ptr() for p in (*model.parameters(), *model.buffers())}
    kept: weakref.WeakSet[_Kept] = weakref.WeakSet()

    def pack(tensor: Tensor) -> "_Kept":
        # Detached: a node's own output would keep the node alive.
        kept.add(saved := _Kept(tensor.detach()))
        return saved

    # Copied: the images may share the storage of a larger batch.
    images, labels = (t.to(device_of(model), copy=True) for t in (images, labels))
    with (
        examined(model),
        torch.enable_grad(),
        torch.autograd.graph.saved_tensors_hooks(pack, lambda saved: saved.tensor),
    ):
        loss = F.cross_entropy(model(images), labels)
    storages = {s.data_ptr(): s.nbytes() for s in (saved.tensor.untyped_storage() for saved in kept)}
    del loss
    return round(sum(size for start, size in storages.items() if start not in own) / len(images))


class _Kept:
    """A saved tensor, for as long as the graph holds it: a storage's address may be given out again."""

    def __init__(self, tensor: Tensor):
        self.tensor = tensor
