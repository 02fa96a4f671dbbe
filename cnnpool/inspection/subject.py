"""The model under examination, its weights, and whether these were trained."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from cnnpool.data import Dataset
from cnnpool.published.weights import misfits, tensors_of
from cnnpool.run_folder.checkpoint import load
from cnnpool.run_folder.results import Results

UNTRAINED, PARTLY = "untrained", "partly untrained"


class Built(NamedTuple):
    """A model with its weights."""

    model: nn.Module
    weights: str
    """Where they come from, in words."""
    untrained: str = ""
    """``untrained``, ``partly untrained``, or nothing: a mark for every number that is measured."""


@dataclass
class Subject:
    """A model to be.

    Args:
        name: as asked for.
        build: makes the model for a data set, with its weights.
        data: name and options of the data set it was trained on, if known.
        trained: the results of the run it comes from, if it comes from one.
        mean, std: normalisation that the weights were trained with; None for the data set's own.
    """

    name: str
    build: Callable[[Dataset], Built]
    data: dict[str, Any] | None = None
    trained: Results | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None


def read(path: Path) -> dict[str, Any]:
    """The checkpoint at ``path``: plain tensors and numbers, in an archive whose checksums are right.

    Raises:
        ValueError: if the file is missing, damaged, or holds anything else.
    """
    content = load(path)
    if not isinstance(content, Mapping):
        raise ValueError(f"{path} holds a {type(content).__name__}, not weights")
    return dict(content)


def load_into(model: nn.Module, content: Mapping[str, Any], path: Path) -> str:
    """Load every weight of ``model`` from a checkpoint's content.

    Returns:
        ``untrained`` if the checkpoint or the weights show it, else nothing.

    Raises:
        ValueError: if a weight is missing, left over, or of another shape.
    """
    state = tensors_of(content)
    if found := misfits(model.state_dict(), state):
        raise ValueError(f"{path} does not fit the model: {found}")
    initial = {name: value.detach().clone() for name, value in model.named_parameters()}
    model.load_state_dict(state)
    return of_checkpoint(content, initial, model)


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
