"""Weights from a file, of which no code is ever run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from cnnpool.inspection.untrained import of_checkpoint
from cnnpool.published.weights import tensors_of
from cnnpool.run_folder.checkpoint import load


def read(path: Path) -> dict[str, Any]:
    """The checkpoint at ``path``: plain tensors and numbers, in an archive whose checksums are right.

    Raises:
        ValueError: if the file is missing, damaged, or holds anything else.
    """
    content = load(path)
    if not isinstance(content, Mapping):
        raise ValueError(f"{path} holds no weights but a {type(content).__name__}")
    return dict(content)


def load_into(model: nn.Module, content: Mapping[str, Any], path: Path) -> str:
    """Load every weight of ``model`` from a checkpoint's content.

    Returns:
        ``untrained`` if the checkpoint or the weights show it, else nothing.

    Raises:
        ValueError: if a weight is missing, left over, or of another shape.
    """
    state = tensors_of(content)
    own = model.state_dict()
    missing, extra = own.keys() - state.keys(), state.keys() - own.keys()
    shapes = [key for key in own.keys() & state.keys() if own[key].shape != state[key].shape]
    if missing or extra or shapes:
        parts = [
            *(f"{len(missing)} weights are missing ({min(missing)}, ...)" for _ in range(bool(missing))),
            *(f"{len(extra)} are left over ({min(extra)}, ...)" for _ in range(bool(extra))),
            *(
                f"{key} is {tuple(state[key].shape)}, not {tuple(own[key].shape)}"
                for key in sorted(shapes)[:1]
            ),
        ]
        raise ValueError(f"{path} does not fit the model: {'; '.join(parts)}")
    initial = {name: value.detach().clone() for name, value in model.named_parameters()}
    model.load_state_dict(state)
    return of_checkpoint(content, initial, model)
