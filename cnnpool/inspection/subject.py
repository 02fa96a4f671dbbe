"""The model under examination, and what is known of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

from cnnpool.data import Dataset
from cnnpool.run_folder.results import Results


@dataclass
class Subject:
    """A model to be, before and after it is built.

    Args:
        name: as asked for.
        build: makes the model for a data set, with its weights.
        weights: where they come from, in words.
        data: name and options of the data set it was trained on, if known.
        trained: the results of the run it comes from, if it comes from one.
        mean, std: normalisation that the weights were trained with; None for the data set's own.
    """

    name: str
    build: Callable[[Dataset], nn.Module]
    weights: str
    data: dict[str, Any] | None = None
    trained: Results | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
