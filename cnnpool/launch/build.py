"""From a job's settings to objects, and to one call of ``fit``."""

import dataclasses
import logging
import random
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch

from cnnpool import data, model, pool, probe, published, readout, registry
from cnnpool.data import Dataset
from cnnpool.launch.check import changed_options, is_published, located, log_of
from cnnpool.launch.config import own_operators, save, stage_settings
from cnnpool.launch.prepared import preset_of, sentence, sized
from cnnpool.model import Cnn
from cnnpool.published import Operators, Published
from cnnpool.recipe import Recipe
from cnnpool.run_folder.identity import as_json, asked
from cnnpool.run_folder.results import Results
from cnnpool.system.process import importing, rank
from cnnpool.system.progress import Progress

log = logging.getLogger(__name__)

Settings = Mapping[str, Any]
Stages = dict[str, dict[str, Any]]


def train(config: Settings, recipe: Recipe, out: Path, name: str, overrides: list[str]) -> Results | None:
    """Build data, model and probes from settings that ``check`` has made ``recipe`` of, and fit.

    Returns:
        The run's results; None in all processes of a training but the first.

    Raises:
        ValueError: if a setting is out of range or does not fit the others.
    """
    probes = {key: probe.build(key, **options) for key, options in config["probe"].items()}
    seed = config["seed"]
    make: Callable[[Settings, Dataset], tuple[Cnn, Stages]] = published_network
    if not is_published(config):
        entry = registry.lookup(model.MODELS, "models", config["model"]["name"])
        make = partial(own_network, stage_settings(config, entry.STAGES))
    preset, given = preset_of(config), config
    config = {**config, "data": sized(config)}
    if preset and (said := sentence(preset, given, config["data"])):
        log.info("%s", said)
    dataset = data.build(**config["data"], seed=seed)
    # Late, so that missing data is named without waiting for Lightning.
    with Progress("loading Lightning"), importing():
        from cnnpool.fit import Facts, fit

    random.seed(seed)
    torch.manual_seed(seed)
    net, stages = make(config, dataset)
    described = {key: as_json(config[key]) for key in ("pool", "readout", "model", "data")}
    if isinstance(net, Published):
        dataset = normalised(dataset, net)
        if net.loaded.sha256:
            described["model"] |= {
                "weights_sha256": net.loaded.sha256,
                "weights_new": list(net.loaded.new),
                "mean": dataset.mean,
                "std": dataset.std,
            }
    with located("data", config["data"]):
        net.initialize(dataset.train_batches())
    facts = Facts(
        run=name,
        choice=str(Path(name).parent),
        stages=as_json(stages),
        overrides=overrides,
        asked=asked(given),
        **described,
    )
    if not rank() and not (out / "checkpoints").exists():
        save(config, overrides, out / ".hydra")
    return fit(net, dataset, probes, recipe=recipe, seed=seed, out=out, facts=facts, log=log_of(config))


def own_network(stages: Stages, config: Settings, dataset: Dataset) -> tuple[Cnn, Stages]:
    """One of our backbones with the operator of every stage, and these operators' settings.

    Args:
        stages: name and options of the operator, by stage.
        config: the job's settings.
        dataset: the images, whose channels and size the network takes.

    Raises:
        ValueError: naming the setting that does not fit the images or the others.
    """

    def make_pool(stage: str, channels: int) -> pool.Pool2d:
        own = own_operators(config).get(stage, {"name": "inherit"})
        place = "pool" if own["name"] == "inherit" else f"stage.{stage}"
        try:
            with located(place, stages[stage]):
                return pool.build(channels=channels, **stages[stage])
        except ValueError as error:
            raise ValueError(f"stage {stage}: {error}") from None

    def make_readout(channels: int, size: tuple[int, int]) -> readout.Readout:
        with located("readout", config["readout"]):
            return readout.build(channels=channels, size=size, **config["readout"])

    with located("model", config["model"]):
        net = model.build(
            in_channels=dataset.in_channels,
            size=dataset.size,
            num_classes=dataset.num_classes,
            pool=make_pool,
            readout=make_readout,
            **config["model"],
        )
    return net, stages


def published_network(config: Settings, dataset: Dataset) -> tuple[Published, Stages]:
    """A network of another package with the operator of every stage, and these operators' settings.

    Raises:
        ValueError: naming the setting that does not fit the network, the images or the others.
    """
    own = {s: spec for s, spec in own_operators(config).items() if spec["name"] != "inherit"}
    operators = Operators(
        changed_options("pool", config["pool"]),
        {stage: changed_options("pool", spec) for stage, spec in own.items()},
    )
    with located("model", config["model"]):
        net = published.build(
            in_channels=dataset.in_channels,
            size=dataset.size,
            num_classes=dataset.num_classes,
            operators=operators,
            readout=changed_options("readout", config["readout"]),
            **config["model"],
        )
    return net, {stage: _whole(stage, kept, own, config) for stage, kept in net.operators.items()}


def _whole(stage: str, kept: Settings, own: Mapping[str, Settings], config: Settings) -> dict[str, Any]:
    """All settings of the operator at ``stage``, as those of our own networks are recorded."""
    return dict(kept) if kept["name"] == registry.KEEP else dict(own.get(stage) or config["pool"])


def normalised(dataset: Dataset, net: Published) -> Dataset:
    """``dataset`` with its pixels on the scale that the weights of ``net`` know, if that is known.

    Images of one channel, which the network sees three times, get the mean over the channels.
    """
    mean, std = net.loaded.mean, net.loaded.std
    if mean is None or std is None:
        return dataset
    if dataset.in_channels == 1:
        mean, std = (sum(mean) / len(mean),), (sum(std) / len(std),)
    return dataclasses.replace(dataset, mean=mean, std=std)
