"""Whether weights have been trained, as far as the weights themselves show it."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

UNTRAINED, PARTLY = "untrained", "partly untrained"


def of_checkpoint(content: Mapping[str, Any], initial: Mapping[str, Tensor], model: nn.Module) -> str:
    """A mark for a ``model`` with the weights of a checkpoint: untrained, or nothing.

    Untrained are weights of step 0; where the checkpoint gives no step, those with which the model was built,
    and those of a network whose batch normalisation has never seen a batch.

    Args:
        content: of the checkpoint.
        initial: the model's parameters before they were loaded.
        model: with the loaded ones.
    """
    ours = content.get("cnnpool")
    steps = ours.get("steps") if isinstance(ours, Mapping) else content.get("global_step")
    if type(steps) is int:
        return "" if steps else UNTRAINED
    same = all(torch.equal(initial[name], value) for name, value in model.named_parameters())
    return UNTRAINED if same or has_fresh_statistics(model) else ""


def of_two(model: nn.Module, other: nn.Module) -> tuple[str, list[str]]:
    """A mark for ``model`` from another one that the same function made with another seed, and random names.

    Weights that differ between the two were drawn; those that are equal were loaded, or set to a constant.
    """
    others = dict(other.named_parameters())
    # Biases and scales begin as constants.
    weights = {name: value for name, value in model.named_parameters() if value.ndim > 1}
    drawn = [name for name, value in weights.items() if not _equal(value, others.get(name))]
    if has_fresh_statistics(model) or (drawn and len(drawn) == len(weights)):
        return UNTRAINED, drawn
    return PARTLY if drawn else "", drawn


def has_fresh_statistics(model: nn.Module) -> bool:
    """Whether there is batch normalisation, and all of it has the mean 0 and the variance 1 it began with."""
    found = False
    for module in model.modules():
        mean, variance = getattr(module, "running_mean", None), getattr(module, "running_var", None)
        if isinstance(mean, Tensor) and isinstance(variance, Tensor):
            found = True
            if mean.any() or (variance != 1).any():
                return False
    return found


def _equal(value: Tensor, other: Tensor | None) -> bool:
    return other is not None and value.shape == other.shape and torch.equal(value, other)
