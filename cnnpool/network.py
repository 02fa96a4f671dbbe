"""The network of a run: built from its settings, or rebuilt from the run's record."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from cnnpool import model, pool, readout, registry
from cnnpool.choices import PUBLISHED, is_published, located, own_operators, stage_settings
from cnnpool.model import Cnn
from cnnpool.registry import KEEP
from cnnpool.run_folder.identity import as_json

if TYPE_CHECKING:
    from cnnpool.published import Published

Settings = Mapping[str, Any]
Stages = dict[str, dict[str, Any]]
TABLES: dict[str, Mapping[str, Any]] = {"operators": pool.OPERATORS, "readouts": readout.READOUTS}


class Images(NamedTuple):
    """The images that a network takes, of ``size`` (H, W), and the number of classes it predicts."""

    in_channels: int
    size: tuple[int, int]
    num_classes: int


def build(settings: Settings, images: Images) -> tuple[Cnn, Stages]:
    """The network that ``settings`` ask for, random or with published weights, and each stage's operator."""
    return _published(settings, images) if is_published(settings) else _own(settings, images)


def rebuild(name: Settings, stages: Settings, readout_name: Settings, images: Images, *, seed: int) -> Cnn:
    """The network that a run recorded, with random weights from ``seed``: load its checkpoint afterwards."""
    # Drawn apart: a script's own draws go on as if there had been none.
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return _of_record(name, stages, readout_name, images)


def _of_record(name: Settings, stages: Settings, readout_name: Settings, images: Images) -> Cnn:
    try:
        if name["name"] in PUBLISHED:
            # Imported late, here and below: a network of our own needs none of it.
            from cnnpool import published

            own = published.own_options(name["arch"]) if name["name"] == "installed" else ()
            return published.build(
                name["name"],
                *images,
                # The record is complete; the network was built without options at their default.
                operators=published.Operators(
                    {"name": KEEP}, {s: _changed("operators", stages[s]) for s in stages}
                ),
                readout=_changed("readouts", readout_name),
                arch=name["arch"],
                **{key: name[key] for key in ("order", "after", *own) if key in name},
            )
        return model.build(
            **images._asdict(),
            pool=lambda stage, channels: pool.build(channels=channels, **stages[stage]),
            readout=lambda channels, size: readout.build(channels=channels, size=size, **readout_name),
            **name,
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"the record does not describe a model: {error}") from None


def _own(settings: Settings, images: Images) -> tuple[Cnn, Stages]:
    entry = registry.lookup(model.MODELS, "models", settings["model"]["name"])
    stages, own = stage_settings(settings, entry.STAGES), own_operators(settings)

    def make_pool(stage: str, channels: int) -> pool.Pool2d:
        inherits = own.get(stage, {"name": "inherit"})["name"] == "inherit"
        try:
            with located("pool" if inherits else f"stage.{stage}", stages[stage]):
                return pool.build(channels=channels, **stages[stage])
        except ValueError as error:
            raise ValueError(f"stage {stage}: {error}") from None

    def make_readout(channels: int, size: tuple[int, int]) -> readout.Readout:
        with located("readout", settings["readout"]):
            return readout.build(channels=channels, size=size, **settings["readout"])

    with located("model", settings["model"]):
        net = model.build(**images._asdict(), pool=make_pool, readout=make_readout, **settings["model"])
    return net, stages


def _published(settings: Settings, images: Images) -> tuple["Published", Stages]:
    from cnnpool import published

    own = {s: spec for s, spec in own_operators(settings).items() if spec["name"] != "inherit"}
    operators = published.Operators(
        _changed("operators", settings["pool"]),
        {stage: _changed("operators", spec) for stage, spec in own.items()},
    )
    with located("model", settings["model"]):
        net = published.build(
            in_channels=images.in_channels,
            size=images.size,
            num_classes=images.num_classes,
            operators=operators,
            readout=_changed("readouts", settings["readout"]),
            **settings["model"],
        )
    whole = {
        stage: dict(kept) if kept["name"] == KEEP else dict(own.get(stage) or settings["pool"])
        for stage, kept in net.operators.items()
    }
    return net, whole


def _changed(group: str, chosen: Settings) -> dict[str, Any]:
    """``chosen`` without options at their default, which an operator takes from the layer it replaces."""
    if chosen["name"] == KEEP:
        return dict(chosen)
    known = registry.options_of(registry.lookup(TABLES[group], group, chosen["name"]))
    usual = {key: as_json(option.default) for key, option in known.items()}
    return {k: v for k, v in chosen.items() if k not in usual or as_json(v) != usual[k]}
