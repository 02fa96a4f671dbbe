"""Weights from a file, of which no code is ever run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from cnnpool.run_folder.checkpoint import load

PREFIXES = ("module.", "_orig_mod.", "model.")
"""What wrappers put before the names of a model's parameters."""


def read(path: Path) -> dict[str, Any]:
    """The checkpoint at ``path``: plain tensors and numbers, in an archive whose checksums are right.

    Raises:
        ValueError: if the file is missing, damaged, or holds anything else.
    """
    content = load(path)
    if not isinstance(content, Mapping):
        raise ValueError(f"{path} holds no weights but a {type(content).__name__}")
    return dict(content)


def load_into(model: nn.Module, content: Mapping[str, Any], path: Path) -> None:
    """Load every weight of ``model`` from a checkpoint's content.

    Raises:
        ValueError: if a weight is missing, left over, or of another shape.
    """
    state = weights(content)
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
    model.load_state_dict(state)


def weights(content: Mapping[str, Any]) -> dict[str, Tensor]:
    """The tensors by the names that the bare model gives them.

    From ``state_dict`` or ``model`` if the checkpoint has them, without the prefixes that all of them share.
    """
    for key in ("state_dict", "model"):
        if isinstance(content.get(key), Mapping):
            content = content[key]
    state = {key: value for key, value in content.items() if isinstance(value, Tensor)}
    for prefix in PREFIXES:
        if state and all(key.startswith(prefix) for key in state):
            state = {key.removeprefix(prefix): value for key, value in state.items()}
    return state
