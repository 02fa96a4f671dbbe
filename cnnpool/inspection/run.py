"""A run's folder as a model: its facts from results.json, its weights from a checkpoint."""

import json
from pathlib import Path
from typing import Any

import torch
from torch import nn

from cnnpool import model, pool, readout
from cnnpool.data import Dataset
from cnnpool.inspection.checkpoint import load_into, read
from cnnpool.inspection.subject import Subject


def from_run(folder: Path, checkpoint: Path | None = None) -> Subject:
    """The model of the finished run in ``folder``, with its last weights or those of ``checkpoint``.

    Raises:
        ValueError: if the run is not finished, or its files are damaged.
    """
    facts = read_facts(folder)
    path = checkpoint or folder / "checkpoints" / "last.ckpt"
    content = read(path)
    steps = content.get("cnnpool", {}).get("steps")
    trained = f", {steps} steps" if steps is not None else ""

    def build(dataset: Dataset) -> nn.Module:
        net = rebuild(facts, dataset)
        load_into(net, content, path)
        return net

    return Subject(str(folder), build, f"trained: {path}{trained}", dict(facts["data"]), facts)


def from_checkpoint(path: Path) -> Subject:
    """The model of a checkpoint that lies in its run's folder.

    Raises:
        ValueError: if there is no run around it.
    """
    folder = path.resolve().parent.parent
    if not (folder / "results.json").exists():
        raise ValueError(
            f"{path} lies in no run's folder, so nothing says which model it is of: "
            "give the model, and this file as --checkpoint"
        )
    return from_run(folder, path)


def read_facts(folder: Path) -> dict[str, Any]:
    """The content of the run's results.json.

    Raises:
        ValueError: if there is none, or it is damaged.
    """
    path = folder / "results.json"
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"{folder} is no finished run: it has no results.json") from None
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} is damaged: {error}") from None
    parts = ("model", "readout", "data", "pool", "stages")
    if not isinstance(facts, dict) or facts.get("schema") != 1:
        raise ValueError(f"{path} is not of schema 1")
    if "examined" in facts:
        raise ValueError(f"{path} is of an earlier cnnpool probe: give the run that was trained")
    if any(not isinstance(facts.get(part), dict) for part in parts) or not isinstance(facts.get("seed"), int):
        raise ValueError(f"{path} does not say what was trained: it needs {', '.join(parts)} and seed")
    return facts


def rebuild(facts: dict[str, Any], dataset: Dataset) -> nn.Module:
    """The run's model before training, for the images of ``dataset``.

    Raises:
        ValueError: for a name or option that does not exist here.
    """
    torch.manual_seed(facts["seed"])
    try:
        return model.build(
            in_channels=dataset.in_channels,
            size=dataset.size,
            num_classes=dataset.num_classes,
            pool=lambda stage, channels: pool.build(channels=channels, **facts["stages"][stage]),
            readout=lambda channels, size: readout.build(channels=channels, size=size, **facts["readout"]),
            **facts["model"],
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"the run's results.json does not describe a model: {error}") from None
