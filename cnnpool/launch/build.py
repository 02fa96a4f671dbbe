"""From a job's settings to objects, and to one call of ``fit``."""

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from cnnpool import data, model, pool, probe, readout, registry
from cnnpool.launch.check import check_values, located
from cnnpool.launch.config import own_operators, save, stage_settings
from cnnpool.recipe import Recipe
from cnnpool.run_folder.identity import as_json, asked
from cnnpool.run_folder.results import Results
from cnnpool.system.process import importing, rank

Settings = Mapping[str, Any]


def train(config: Settings, recipe: Recipe, out: Path, name: str, overrides: list[str]) -> Results | None:
    """Build data, model and probes from settings that ``check`` has made ``recipe`` of, and fit.

    Returns:
        The run's results; None in all processes of a training but the first.

    Raises:
        ValueError: if a setting is out of range or does not fit the others.
    """
    check_values(config)
    probes = {key: probe.build(key, **options) for key, options in config["probe"].items()}
    seed = config["seed"]
    entry = registry.lookup(model.MODELS, "models", config["model"]["name"])
    stages = stage_settings(config, entry.STAGES)
    dataset = data.build(**config["data"], seed=seed)
    # Late, so that missing data is named without waiting for Lightning.
    with importing():
        from cnnpool.fit import Facts, fit

    random.seed(seed)
    torch.manual_seed(seed)
    net = build_model(config, stages, dataset)
    with located("data", config["data"]):
        net.initialize(dataset.train_batches())
    facts = Facts(
        run=name,
        choice=str(Path(name).parent),
        stages=as_json(stages),
        overrides=overrides,
        asked=asked(config),
        **{key: as_json(config[key]) for key in ("pool", "readout", "model", "data")},
    )
    if not rank() and not (out / "checkpoints").exists():
        save(config, overrides, out / ".hydra")
    return fit(net, dataset, probes, recipe=recipe, seed=seed, out=out, facts=facts)


def build_model(config: Settings, stages: Mapping[str, Settings], dataset: data.Dataset) -> model.Cnn:
    """The model of ``config`` for the images of ``dataset``.

    Args:
        config: all settings.
        stages: operator and options of each stage.
        dataset: gives channels, size and classes.

    Raises:
        ValueError: if an option does not fit the others, naming it as on the command line, or the stage.
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
        return model.build(
            in_channels=dataset.in_channels,
            size=dataset.size,
            num_classes=dataset.num_classes,
            pool=make_pool,
            readout=make_readout,
            **config["model"],
        )
