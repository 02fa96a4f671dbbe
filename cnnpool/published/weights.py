"""Initial weights of a network: read without running code, checked against the network, identified."""

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from cnnpool.run_folder.checkpoint import OURS, images_of, load

PREFIXES = ("module.", "_orig_mod.", "model.")  # Added to parameters' names by wrappers


@dataclass(frozen=True)
class Weights:
    """Parameters and buffers by name, their source in words, and mean and std of their images, if known."""

    state: Mapping[str, Tensor]
    source: str
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None

    @property
    def sha256(self) -> str:
        """Identity of names, shapes, dtypes and values, whatever file contained them."""
        digest = hashlib.sha256()
        for name, tensor in sorted(self.state.items()):
            digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
            digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
        return digest.hexdigest()


@dataclass(frozen=True)
class Loaded:
    """Loaded weights: their source and identity, and parameters that are random, for other classes."""

    source: str
    sha256: str | None = None
    new: tuple[str, ...] = ()
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None


def from_file(path: Path) -> Weights:
    images: Mapping[str, Any] = {}
    if path.suffix == ".safetensors":
        state = _safetensors(path)
    else:
        content = load(path)
        content = content if isinstance(content, Mapping) else {}
        # A run's own checkpoint has the whole model, in which a published network has a name.
        state = tensors_of(content, *["network."] * (OURS in content))
        if OURS in content:
            images = images_of(content)
    if not state:
        raise ValueError(f"{path} holds no weights")
    mean, std = (tuple(images[key]) if key in images else None for key in ("mean", "std"))
    return Weights(state, f"from {path}", mean, std)


def _safetensors(path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except FileNotFoundError:
        raise ValueError(f"{path}: no such file") from None
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from None


def tensors_of(content: Mapping[str, Any], *more: str) -> dict[str, Tensor]:
    """The tensors of a checkpoint by their names in the bare model, without prefixes common to all names.

    These are those of wrappers, and ``more``.
    """
    for key in ("state_dict", "model"):
        if isinstance(content.get(key), Mapping):
            content = content[key]
    state = {key: value for key, value in content.items() if isinstance(value, Tensor)}
    for prefix in (*PREFIXES, *more):
        if state and all(key.startswith(prefix) for key in state):
            state = {key.removeprefix(prefix): value for key, value in state.items()}
    return state


def load_into(network: nn.Module, weights: Weights, num_classes: int) -> Loaded:
    """Load ``weights`` strictly, except in layers that make ``num_classes`` logits instead of others."""
    own, given = network.state_dict(), weights.state
    new = tuple(
        key
        for key in own
        if key in given and own[key].shape != given[key].shape
        if own[key].shape == (num_classes, *given[key].shape[1:])
    )
    if found := misfits(own, given, new):
        raise ValueError(f"the weights {weights.source} do not fit the network: {found}")
    network.load_state_dict({key: value for key, value in given.items() if key not in new}, strict=False)
    return Loaded(weights.source, weights.sha256, new, weights.mean, weights.std)


def misfits(own: Mapping[str, Tensor], given: Mapping[str, Tensor], new: Collection[str] = ()) -> str:
    """The weights that ``given`` lacks, has in addition, or, but for ``new``, has in another shape."""
    missing, extra = own.keys() - given.keys(), given.keys() - own.keys()
    shapes = sorted(k for k in own.keys() & given.keys() - set(new) if own[k].shape != given[k].shape)
    parts = [
        f"missing weights: {len(missing)} ({min(missing)}, ...)" if missing else "",
        f"unexpected weights: {len(extra)} ({min(extra)}, ...)" if extra else "",
        *(f"{key} is {tuple(given[key].shape)}, not {tuple(own[key].shape)}" for key in shapes[:1]),
    ]
    return "; ".join(filter(None, parts))
