"""Preparation of a run up to its first step."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from cnnpool.data import Batches, Dataset
from cnnpool.fit.by_class import listed
from cnnpool.fit.layers import is_uniform, plan
from cnnpool.fit.module import Net
from cnnpool.fit.trainer import precision_of
from cnnpool.model import Cnn
from cnnpool.pool.dispatch import kernels_in_use
from cnnpool.probe import Probe, declared
from cnnpool.quantity import Quantity
from cnnpool.recipe import Recipe
from cnnpool.run_folder import checkpoint, layout
from cnnpool.system.hardware import keep_memory
from cnnpool.system.process import rank


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The request for a run, as results.json repeats it.

    Args:
        run: the run's name, its folder below the output root.
        choice: the part of the name that all seeds of a choice share.
        pool, readout, model, data: the chosen names with their options.
        stages: the operator of every stage with its options.
        overrides: the command line.
        asked: all settings that decide the result, by which a later call knows the run again.
    """

    run: str
    choice: str
    pool: dict[str, Any]
    stages: dict[str, dict[str, Any]]
    readout: dict[str, Any]
    model: dict[str, Any]
    data: dict[str, Any]
    overrides: list[str] = field(default_factory=list)
    asked: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Training:
    """A run that is ready to begin or to go on.

    Args:
        out: the run's folder.
        name: the run's own random one, in the first process.
        facts: what was asked.
        asked: the settings that a checkpoint to go on from must share.
        recipe: how to train.
        seed: of weights, order and augmentation.
        model: images to logits.
        module: the model in Lightning's hands.
        dataset: all images.
        probes: by name.
        train, val, test: this process's share of the batches; no ``val`` without validation images.
    """

    out: Path
    name: str
    facts: Facts
    asked: dict[str, Any]
    recipe: Recipe
    seed: int
    model: Cnn
    module: Net
    dataset: Dataset
    probes: Mapping[str, Probe]
    train: Batches
    val: Batches | None
    test: Batches

    @property
    def quantities(self) -> list[Quantity]:
        """Every number that the run reports."""
        return listed(declared(self.probes.values()), self.dataset)

    @property
    def batches(self) -> list[Batches]:
        """The batches of all splits that have images."""
        return [batches for batches in (self.train, self.val, self.test) if batches]


def prepare(
    model: Cnn,
    dataset: Dataset,
    probes: Mapping[str, Probe],
    *,
    recipe: Recipe,
    seed: int,
    out: Path,
    facts: Facts,
) -> Training:
    """Cut the data for this process, lay out the model, and write down what decides the result.

    Raises:
        ValueError: if the batch cannot be divided among the devices.
    """
    out.mkdir(parents=True, exist_ok=True)
    name = "" if rank() else layout.begin(out)
    if recipe.keep_memory:
        keep_memory()
    if recipe.channels_last:
        model.to(memory_format=torch.channels_last)
    shard, shared = (rank(), recipe.devices), share(dataset, recipe.devices)
    train = shared.train_batches(shard=shard)
    steps = len(train) * recipe.epochs
    asked = dict(facts.asked) or {
        "seed": seed,
        "pool": facts.stages,
        "readout": facts.readout,
        "model": facts.model,
    }
    # Precision and data are not settings, but a checkpoint must match them too.
    asked |= {"precision": precision_of(recipe), "data_sha256": dataset.sha256}
    total = min(steps, recipe.max_steps or steps)
    example = torch.zeros(1, dataset.in_channels, *dataset.size)
    layers = [] if is_uniform(recipe) else plan(model, recipe, example)
    return Training(
        out=out,
        name=name,
        facts=facts,
        asked=asked,
        recipe=recipe,
        seed=seed,
        model=model,
        module=Net(model, recipe, seed, total, checkpoint.header(asked, kernels_in_use()), layers),
        dataset=dataset,
        probes=probes,
        train=train,
        val=shared.val_batches(shard=shard),
        test=shared.test_batches(shard=shard),
    )


def share(dataset: Dataset, devices: int) -> Dataset:
    """``dataset`` with batches of one device's share, so that all devices together take the batch asked for.

    Raises:
        ValueError: if the batch cannot be divided.
    """
    size = dataset.source.batch_size
    if size % devices:
        raise ValueError(f"data.batch_size={size} must be a multiple of fit.devices={devices}")
    return replace(dataset, source=replace(dataset.source, batch_size=size // devices))
