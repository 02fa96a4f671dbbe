"""Gradients at a stage's input, before the activation that precedes it, and at weights."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cnnpool.as_found import examined
from cnnpool.probe.base import device_of, first_input, uncompiled

ACTIVATIONS = (
    "Relu", "LeakyRelu", "PreluKernel", "RreluWithNoise", "Elu", "Celu", "Gelu", "Silu", "Mish", "Softplus",
    "Hardtanh", "Hardswish", "Hardsigmoid", "Sigmoid", "LogSigmoid", "Tanh", "Threshold",
)  # fmt: skip
"""Autograd's names of elementwise activation functions, without ``Backward0``."""


class Tap(NamedTuple):
    """A stage's input, and loss gradients per sample, (N, C, H, W)."""

    activation: Tensor
    gradient: Tensor
    """At the stage's input, through this stage alone if the map has other consumers."""
    before: Tensor | None
    """Before the activation function right before the stage, through all paths; None without one."""


def stage_gradients(
    model: nn.Module, stages: Mapping[str, nn.Module], images: Tensor, labels: Tensor
) -> dict[str, Tap]:
    """Values read at every stage in one backward pass; see ``backpropagate``."""
    return backpropagate(model, stages, images, labels)[0]


def backpropagate(
    model: nn.Module,
    stages: Mapping[str, nn.Module],
    images: Tensor,
    labels: Tensor,
    weights: Sequence[Tensor] = (),
) -> tuple[dict[str, Tap], list[Tensor]]:
    """Taps of every stage, and the gradients of ``weights`` summed over the batch (zeros where unused).

    The model is in eval mode, so sample n of the gradient of the summed cross entropy is the gradient of
    that sample's own loss: nothing is divided by the batch size.
    """
    device = device_of(model)
    inputs: dict[str, Tensor] = {}
    before: dict[str, Tensor] = {}
    behind: dict[str, Any] = {}

    def enter(stage: str, _: nn.Module, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, Any]:
        x = first_input(args, named)
        # An alias, so that gradient from other branches of the map is not counted.
        inputs[stage] = x.view_as(x)
        # Of a stage that is called several times, the last call is measured.
        if (earlier := behind.pop(stage, None)) is not None:
            earlier.remove()
        if x.grad_fn is not None and x.grad_fn.name().removesuffix("Backward0") in ACTIVATIONS:
            behind[stage] = x.grad_fn.register_hook(lambda into, _: before.update({stage: into[0]}))
            hooks.enter_context(behind[stage])
        if args:
            return (inputs[stage], *args[1:]), named
        return args, {**named, next(iter(named)): inputs[stage]}

    with ExitStack() as hooks, examined(model), torch.enable_grad(), uncompiled():
        for stage, module in stages.items():
            hooks.enter_context(module.register_forward_pre_hook(partial(enter, stage), with_kwargs=True))
        images = images.to(device).detach().requires_grad_()
        loss = F.cross_entropy(model(images), labels.to(device), reduction="sum")
        # Include the images, so that the backward pass continues beyond the first stage.
        wanted = [*inputs.values(), *weights, images]
        gradients = torch.autograd.grad(loss, wanted, allow_unused=True)
    filled = [torch.zeros_like(w) if g is None else g for w, g in zip(wanted, gradients, strict=True)]
    taps = {
        stage: Tap(inputs[stage].detach(), gradient, before.get(stage))
        for stage, gradient in zip(inputs, filled, strict=False)
    }
    return taps, filled[len(inputs) : -1]


def adjacent_weights(
    model: nn.Module, stages: Mapping[str, nn.Module], image: Tensor
) -> dict[str, dict[str, nn.Parameter]]:
    """By stage, learnt filters of the layers that ran ``before`` and ``after`` it, and of its ``own`` first.

    Filters are parameters of two dimensions or more; missing ones are left out. ``image`` is (1, C, H, W).
    """
    inside = {part: stage for stage, module in stages.items() for part in module.modules()}
    order: list[tuple[str | None, nn.Module]] = []
    with ExitStack() as hooks, examined(model), torch.no_grad(), uncompiled():
        for module in model.modules():
            if module in stages.values() or (module not in inside and _filters(module)):
                note = module.register_forward_pre_hook(lambda m, _: order.append((inside.get(m), m)))
                hooks.enter_context(note)
        model(image.to(device_of(model)))
    found: dict[str, dict[str, nn.Parameter]] = {stage: {} for stage in stages}
    for place, (stage, module) in enumerate(order):
        if stage is None:
            continue
        sides = {
            "before": [m for s, m in reversed(order[:place]) if s is None],
            "own": [m for m in module.modules() if _filters(m)],
            "after": [m for s, m in order[place + 1 :] if s is None],
        }
        found[stage] = {side: _filters(layers[0])[0] for side, layers in sides.items() if layers}
    return found


def _filters(module: nn.Module) -> list[nn.Parameter]:
    return [p for p in module.parameters(recurse=False) if p.requires_grad and p.dim() >= 2]
