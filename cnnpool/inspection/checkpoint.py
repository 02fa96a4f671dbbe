"""Weights from a file, of which no code is ever run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from cnnpool.inspection.untrained import of_checkpoint
from cnnpool.published.weights import misfits, tensors_of
from cnnpool.run_folder.checkpoint import load


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
