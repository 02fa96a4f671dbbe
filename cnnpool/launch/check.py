"""Settings checked before anything is read or built: names as plain text, values by their signatures."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

import yaml

from cnnpool import registry
from cnnpool.bounds import Seed
from cnnpool.launch import conf_dir, signatures
from cnnpool.launch.config import own_operators
from cnnpool.loggers import LOGGERS, TensorBoard
from cnnpool.recipe import Recipe
from cnnpool.registry import KEEP

ENTRIES = {
    "data": "datasets",
    "model": "models",
    "pool": "operators",
    "readout": "readouts",
    "probe": "probes",
    "log": "loggers",
}
PUBLISHED = ("installed", "timm", "torchvision")
"""Models of other packages, by their stems in ``conf/model``."""


def check(settings: Mapping[str, Any]) -> Recipe:
    """Refuse unknown names and values out of range, without torch, which takes seconds to import.

    Returns:
        How to train, its values checked.

    Raises:
        ValueError: naming the setting, its value and what it may be.
    """
    recipe = Recipe(**registry.check(Recipe, "fit", settings["fit"], "fit"))
    registry.Option(Seed).take("seed", settings["seed"])
    if isinstance(out := settings.get("out"), list | dict):
        raise ValueError(f"out={out}: names no folder, which is one word")
    for room, path, chosen in _choices(settings):
        _check_choice(room, path, chosen)
        if chosen["name"] == KEEP and not is_published(settings):
            raise ValueError(
                f"{path}=keep: keeps what a published network has, such as model=torchvision:resnet18; "
                f"model={settings['model']['name']} has none of its own"
            )
    log_of(settings).refuse_missing()
    return recipe


def log_of(settings: Mapping[str, Any]) -> TensorBoard:
    """The logger beside TensorBoard; none in settings that an earlier version saved.

    Raises:
        ValueError: if an option is out of range.
    """
    chosen = settings.get("log", {"name": "tensorboard"})
    entry = registry.lookup(LOGGERS, ENTRIES["log"], chosen["name"])
    made: TensorBoard = entry(**registry.check(entry, chosen["name"], _options(chosen), "log"))
    return made


def is_published(settings: Mapping[str, Any]) -> bool:
    """Whether the model is a network of another package."""
    return settings["model"]["name"] in PUBLISHED


def changed_options(room: str, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """``chosen`` without the options that have the value of the choice's file.

    In a published network an operator takes all others from what it replaces.
    """
    if chosen["name"] not in _names(room):
        return dict(chosen)
    usual = _content(room, chosen["name"])
    return {k: v for k, v in chosen.items() if k == "name" or v != usual.get(k)}


def check_values(settings: Mapping[str, Any]) -> None:
    """Refuse the options that the signatures of the chosen entries refuse.

    Raises:
        ValueError: naming the option as on the command line, its value and what it may be.
    """
    from cnnpool import data, model, pool, probe, published, readout

    tables: dict[str, Mapping[str, Any]] = {
        "data": data.DATASETS,
        "model": {**model.MODELS, **published.PUBLISHED},
        "pool": pool.OPERATORS,
        "readout": readout.READOUTS,
        "probe": probe.PROBES,
        "log": LOGGERS,
    }
    for room, path, chosen in _choices(settings):
        name, options = chosen["name"], _options(chosen)
        if name == KEEP:
            continue
        registry.check(registry.lookup(tables[room], ENTRIES[room], name), name, options, path)


@contextmanager
def located(path: str, chosen: Mapping[str, Any]) -> Iterator[None]:
    """Prefix errors that begin with an option's name by ``path``, its place on the command line."""
    try:
        yield
    except ValueError as error:
        if str(error).partition(" ")[0] in _options(chosen):
            raise ValueError(f"{path}.{error}") from None
        raise


def _choices(settings: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """(room, place on the command line, name and options) of everything that is chosen."""
    for room in ("data", "model", "pool", "readout"):
        yield room, room, settings[room]
    if "log" in settings:
        yield "log", "log", settings["log"]
    for name, options in settings["probe"].items():
        if not isinstance(options, Mapping):
            raise ValueError(f"probe.{name} holds a probe's options: leave the probe out by ~probe.{name}")
        yield "probe", f"probe.{name}", {"name": name, **options}
    for stage, spec in own_operators(settings).items():
        common = settings["pool"] if spec.get("name") == "inherit" else {}
        yield "pool", f"stage.{stage}", {**common, **{k: v for k, v in spec.items() if v != "inherit"}}


def _options(chosen: Mapping[str, Any]) -> dict[str, Any]:
    return {option: value for option, value in chosen.items() if option != "name"}


def _check_choice(room: str, path: str, chosen: Mapping[str, Any]) -> None:
    name = chosen.get("name")
    if not isinstance(name, str):
        raise ValueError(f"{path}.name={name} is not a name; a choice is made by {path}=NAME")
    names = _names(room)
    if name not in names:
        # Either unknown, or of an installed package, whose signature has its options.
        registry.lookup(dict.fromkeys(names, dict), ENTRIES[room], name)
        return
    known = _content(room, "full")[name] if room == "probe" else _options(_content(room, name))
    declared = signatures.options_of(room, name)
    for option, value in _options(chosen).items():
        if option not in known:
            remedy = registry.did_you_mean(option, known)
            raise ValueError(f"{path}.{option}: {name} has no option {option!r}; {remedy}")
        if option in declared:
            registry.Option(declared[option].hint).take(f"{path}.{option}", value)


def _names(room: str) -> list[str]:
    if room == "probe":
        return list(_content(room, "full"))
    return [path.stem for path in (conf_dir() / room).glob("*.yaml") if path.stem != "inherit"]


@cache
def _content(room: str, stem: str) -> dict[str, Any]:
    """The choice's file, which holds all its options."""
    content: dict[str, Any] = yaml.safe_load((conf_dir() / room / f"{stem}.yaml").read_text())
    return {key: value for key, value in content.items() if key != "defaults"}
