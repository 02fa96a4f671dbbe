"""Where a stopped run goes on: the newest whole checkpoint, if it is one of the same run."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from cnnpool import __version__
from cnnpool.run_folder.checkpoint import DamagedError, load
from cnnpool.run_folder.identity import differences

log = logging.getLogger(__name__)

SCHEMA = 2
"""Of checkpoints; 2 has the state of torch's own optimisers."""
NAMES = ("last.ckpt", "previous.ckpt")


def facts(asked: Mapping[str, Any]) -> dict[str, Any]:
    """What a checkpoint says of its run beside the weights."""
    return {
        "schema": SCHEMA,
        "version": __version__,
        "threads": torch.get_num_threads(),
        "torch": str(torch.__version__),
        "asked": dict(asked),
    }


def latest(folder: Path) -> tuple[Path, dict[str, Any]] | None:
    """The newest whole checkpoint in ``folder`` with its content; None if there is none at all.

    Raises:
        DamagedError: if there are checkpoints, and all are damaged.
    """
    errors = []
    for name in NAMES:
        path = folder / name
        if not path.exists():
            continue
        try:
            checkpoint = load(path)
            if not isinstance(checkpoint, dict) or "cnnpool" not in checkpoint:
                raise DamagedError(f"{path} is no checkpoint of cnnpool")
        except DamagedError as error:
            errors.append(error)
            continue
        if name != NAMES[0]:
            why = errors[0] if errors else f"no {NAMES[0]}"
            log.warning("%s; going on from %s, one checkpoint earlier", why, name)
        return path, checkpoint
    if errors:
        raise DamagedError(f"{errors[0]}: delete it to train anew")
    return None


def check(path: Path, checkpoint: Mapping[str, Any], asked: Mapping[str, Any], module: nn.Module) -> None:
    """Refuse a checkpoint of a run with other settings, another architecture or another schema.

    Raises:
        ValueError: naming what differs, old -> new.
    """
    saved = checkpoint["cnnpool"]
    if saved["schema"] != SCHEMA:
        remedy = "update it" if saved["schema"] > SCHEMA else "delete it to train anew"
        raise ValueError(
            f"{path} was written by cnnpool {saved['version']} (schema {saved['schema']}); this is "
            f"{__version__} (schema {SCHEMA}): {remedy}"
        )
    if differ := differences(saved["asked"], asked):
        raise ValueError(
            f"{path} belongs to a run with other settings ({'; '.join(differ)}): "
            "give the old ones to go on, or choose another folder by out= or hydra.run.dir="
        )
    have, want = _shapes(checkpoint["state_dict"]), _shapes(module.state_dict())
    if differ := differences(have, want):
        raise ValueError(f"{path} holds weights of another architecture ({'; '.join(differ[:3])})")
    if saved.get("torch", torch.__version__) != torch.__version__:
        log.warning(
            "trained with torch %s so far, now with %s: the last bits of the result may differ",
            saved["torch"],
            torch.__version__,
        )
    if saved["threads"] != torch.get_num_threads():
        log.warning(
            "trained with %d threads so far, now with %d: the last bits of the result may differ",
            saved["threads"],
            torch.get_num_threads(),
        )


def _shapes(weights: Mapping[str, torch.Tensor]) -> dict[str, list[int]]:
    return {key.removeprefix("model."): list(value.shape) for key, value in weights.items()}
