"""Weights that a network starts from: read without running code, checked against the network, identified."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from cnnpool.run_folder.checkpoint import load

PREFIXES = ("module.", "_orig_mod.", "model.")
"""What wrappers put before the names of a model's parameters."""


@dataclass(frozen=True)
class Weights:
    """Parameters and buffers by name, and where they come from.

    Args:
        state: by the names that the network gives them.
        source: in words.
        mean, std: of the images that they were trained on, per channel, white being 1; None if not known.
    """

    state: Mapping[str, Tensor]
    source: str
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None

    @property
    def sha256(self) -> str:
        """Identity of names, shapes, types and values, whatever the file that held them."""
        digest = hashlib.sha256()
        for name, tensor in sorted(self.state.items()):
            digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
            digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
        return digest.hexdigest()


@dataclass(frozen=True)
class Loaded:
    """The fate of the weights in the network.

    Args:
        source: where they come from, in words.
        sha256: their identity; None if nothing was loaded.
        new: parameters of the network that start at random, since the weights are for other classes.
        mean, std: as in :class:`Weights`.
    """

    source: str
    sha256: str | None = None
    new: tuple[str, ...] = ()
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None


def from_file(path: Path) -> Weights:
    """The weights in a safetensors file, or in one that ``torch.save`` made of tensors alone.

    Raises:
        ValueError: if the file is missing, damaged, or holds anything else.
    """
    if path.suffix == ".safetensors":
        state = _safetensors(path)
    else:
        content = load(path)
        state = tensors_of(content) if isinstance(content, Mapping) else {}
    if not state:
        raise ValueError(f"{path} holds no weights")
    return Weights(state, f"from {path}")


def _safetensors(path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except FileNotFoundError:
        raise ValueError(f"{path}: no such file") from None
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from None


def tensors_of(content: Mapping[str, Any]) -> dict[str, Tensor]:
    """The tensors of a checkpoint by the names that the bare model gives them.

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


def load_into(network: nn.Module, weights: Weights, num_classes: int) -> Loaded:
    """Load ``weights`` strictly, but for layers that make ``num_classes`` logits where they made others.

    Raises:
        ValueError: if a weight is missing, left over, or of another shape in any other layer.
    """
    own = network.state_dict()
    missing, extra = own.keys() - weights.state.keys(), weights.state.keys() - own.keys()
    other = {k for k in own.keys() & weights.state.keys() if own[k].shape != weights.state[k].shape}
    new = {k for k in other if own[k].shape == (num_classes, *weights.state[k].shape[1:])}
    if missing or extra or other - new:
        parts = [
            *(f"{len(missing)} are missing ({min(missing)}, ...)" for _ in range(bool(missing))),
            *(f"{len(extra)} are left over ({min(extra)}, ...)" for _ in range(bool(extra))),
            *(
                f"{key} is {tuple(weights.state[key].shape)}, not {tuple(own[key].shape)}"
                for key in sorted(other - new)[:1]
            ),
        ]
        raise ValueError(f"the weights {weights.source} do not fit the network: {'; '.join(parts)}")
    network.load_state_dict({k: v for k, v in weights.state.items() if k not in new}, strict=False)
    return Loaded(
        weights.source, weights.sha256, tuple(k for k in own if k in new), weights.mean, weights.std
    )
