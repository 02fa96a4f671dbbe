"""The cost of a network before and after its layers are replaced."""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from cnnpool.quantity import short
from cnnpool.surgery.trace import evaluating

MUCH = 2
"""Factor in cost above which a replacement triggers a cost warning."""


class Cost(NamedTuple):
    """Per image: operations of convolutions and matrix products, and elements that layers return."""

    flops: float
    elements: float


def cost(model: nn.Module, example: Tensor) -> Cost:
    """The cost of ``model`` in evaluation mode, by torch's counter and a hook on every leaf layer."""
    elements = [0]

    def count(module: nn.Module, inputs: Any, output: Any) -> None:
        elements[0] += output.numel() if isinstance(output, Tensor) else 0

    layers = [module for module in model.modules() if next(module.children(), None) is None]
    hooks = [layer.register_forward_hook(count) for layer in layers]
    devices = [example.device] if example.is_cuda else []
    counter = FlopCounterMode(display=False)
    try:
        # Some layers also draw in evaluation mode.
        with evaluating(model), torch.random.fork_rng(devices), torch.no_grad(), counter:
            model(example)
    finally:
        for hook in hooks:
            hook.remove()
    return Cost(counter.get_total_flops() / len(example), elements[0] / len(example))


def costlier(name: str, before: Cost, after: Cost, remedy: str = "") -> str:
    """A sentence on a model that costs much more than before, with a ``remedy``; otherwise empty."""
    if after.flops <= MUCH * before.flops and after.elements <= MUCH * before.elements:
        return ""
    flops, elements = (f"{short(a)} -> {short(b)}" for a, b in zip(before, after, strict=True))
    sentence = (
        f"{name} makes the model more expensive: {flops} FLOPs of convolutions and matrix products, "
        f"{elements} elements of maps an image"
    )
    return f"{sentence}; {remedy}" if remedy else sentence
