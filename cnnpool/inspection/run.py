"""A run's folder as a model: its facts from results.json, its weights from a checkpoint."""

from pathlib import Path

import torch
from torch import nn

from cnnpool import model, pool, published, readout
from cnnpool.data import Dataset
from cnnpool.inspection.subject import Built, Subject, load_into, read
from cnnpool.published import PUBLISHED, Operators
from cnnpool.registry import KEEP
from cnnpool.run_folder import results
from cnnpool.run_folder.layout import CHECKPOINTS, LAST, RESULTS
from cnnpool.run_folder.results import Results


def from_run(folder: Path, checkpoint: Path | None = None) -> Subject:
    """The model of the finished run in ``folder``, with its last weights or those of ``checkpoint``.

    Raises:
        ValueError: if the run is not finished, or its files are damaged.
    """
    trained = read_trained(folder)
    path = checkpoint or folder / CHECKPOINTS / LAST
    content = read(path)
    steps = content.get("cnnpool", {}).get("steps")
    length = f", {steps} steps" if steps is not None else ""

    def build(dataset: Dataset) -> Built:
        net = rebuild(trained, dataset)
        untrained = load_into(net, content, path)
        return Built(net, f"{untrained or 'trained'}: {path}{length}", untrained)

    return Subject(str(folder), build, dict(trained.data), trained, *_scale(trained))


def from_checkpoint(path: Path) -> Subject:
    """The model of a checkpoint that lies in its run's folder.

    Raises:
        ValueError: if there is no run around it.
    """
    folder = path.resolve().parent.parent
    if not (folder / RESULTS).exists():
        raise ValueError(
            f"{path} is not in a run's folder, so its model is unknown: "
            "give the model, and this file as --checkpoint"
        )
    return from_run(folder, path)


def read_trained(folder: Path) -> Results:
    """The results of the run in ``folder``.

    Raises:
        ValueError: if there are none, they are damaged, or nothing was trained.
    """
    found = results.read(folder)
    if found is None:
        raise ValueError(f"{folder} is not a finished run: it has no {RESULTS}")
    if found.examined:
        raise ValueError(f"{folder / RESULTS} is of an earlier cnnpool probe: give the run that was trained")
    return found


def rebuild(trained: Results, dataset: Dataset) -> nn.Module:
    """The run's model before training, for the images of ``dataset``.

    Raises:
        ValueError: for a name or option that does not exist here.
    """
    torch.manual_seed(trained.seed)
    try:
        if trained.model["name"] in PUBLISHED:
            return _published(trained, dataset)
        return model.build(
            in_channels=dataset.in_channels,
            size=dataset.size,
            num_classes=dataset.num_classes,
            pool=lambda stage, channels: pool.build(channels=channels, **trained.stages[stage]),
            readout=lambda channels, size: readout.build(channels=channels, size=size, **trained.readout),
            **trained.model,
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"the run's results.json does not describe a model: {error}") from None


def _scale(trained: Results) -> tuple[tuple[float, ...] | None, tuple[float, ...] | None]:
    """Mean and standard deviation of pixels that the run took from published weights, if it did."""
    mean, std = trained.model.get("mean"), trained.model.get("std")
    return (tuple(mean), tuple(std)) if mean and std else (None, None)


def _published(trained: Results, dataset: Dataset) -> nn.Module:
    """The run's network of another package, at random: its checkpoint brings the weights."""
    return published.build(
        trained.model["name"],
        dataset.in_channels,
        dataset.size,
        dataset.num_classes,
        operators=Operators({"name": KEEP}, trained.stages),
        readout=trained.readout,
        arch=trained.model["arch"],
        order=trained.model.get("order", "after"),
    )
