"""How a probe looks into a model and leaves it exactly as it found it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, NamedTuple, Protocol

import torch
from annotated_types import Ge, Le
from torch import Tensor, nn

Result = dict[str, Any]
AtLeastTwo = Annotated[int, Ge(2), Le(10**9)]
Pixels = Annotated[int, Ge(1), Le(256)]
PixelsOrZero = Annotated[int, Ge(0), Le(256)]


class Batch(NamedTuple):
    """What probes look at: ``probe.measure(model, stages, *batch)``."""

    images: Tensor
    """Normalised, (N, C, H, W)."""
    labels: Tensor
    """(N,)."""
    black: Tensor | None = None
    """The value that a black pixel has after normalisation, by channel (C,); None stands for zeros."""


class Probe(Protocol):
    """A measurement of a model: a small object that holds the settings and calls pure functions."""

    section: str
    """The key of ``results.json`` that takes the result, and the first part of its TensorBoard tags."""
    every_epochs: int
    """Read after every so many epochs of training; 0: only at the end."""

    def measure(
        self,
        model: nn.Module,
        stages: Mapping[str, nn.Module],
        images: Tensor,
        labels: Tensor,
        black: Tensor | None = None,
    ) -> Result:
        """The result as nested dictionaries of JSON's types; the arguments as in ``Batch``."""
        ...


@contextmanager
def examined(model: nn.Module) -> Iterator[nn.Module]:
    """The model in eval mode; afterwards every module's mode and the random generators are as before.

    In eval mode batch normalisation uses its running statistics and no operator draws, so nothing in the
    model changes and each sample's output depends on that sample alone.
    """
    modes = [(module, module.training) for module in model.modules()]
    devices = sorted({p.device for p in model.parameters() if p.device.type == "cuda"}, key=str)
    with torch.random.fork_rng(devices=devices):
        try:
            yield model.eval()
        finally:
            for module, mode in modes:
                module.training = mode


@contextmanager
def captured(stages: Mapping[str, nn.Module], *, inputs: bool = False) -> Iterator[dict[str, Tensor]]:
    """What each stage put out (or with ``inputs`` took in) in the latest forward pass, by stage."""
    seen: dict[str, Tensor] = {}

    def keep(stage: str):
        def hook(module: nn.Module, received: tuple[Tensor, ...], returned: Tensor) -> None:
            seen[stage] = received[0] if inputs else returned

        return hook

    hooks = [module.register_forward_hook(keep(stage)) for stage, module in stages.items()]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def device_of(model: nn.Module) -> torch.device:
    """The device of the model's first parameter (the CPU if it has none)."""
    return next((p.device for p in model.parameters()), torch.device("cpu"))


def paddings(model: nn.Module) -> list[str]:
    """How the model's convolutions see beyond the border: ``none``, or their padding modes."""
    found = {
        module.padding_mode
        for module in model.modules()
        if isinstance(module, nn.Conv2d) and module.padding not in ((0, 0), "valid")
    }
    return sorted(found) or ["none"]
