"""The model under examination, and what is known of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import nn

from cnnpool.data import Dataset
from cnnpool.run_folder.results import Results


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
