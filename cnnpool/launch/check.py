"""Settings checked before anything is made, read or built, by the options that the schema has."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

import yaml

from cnnpool import registry, schema
from cnnpool.launch import conf_dir
from cnnpool.launch.config import own_operators
from cnnpool.loggers import LOGGERS, TensorBoard
from cnnpool.registry import KEEP, Option

PUBLISHED = ("installed", "timm", "torchvision")
"""Models of other packages, by their stems in ``conf/model``."""


def check(settings: Mapping[str, Any]) -> None:
    """Refuse unknown names and values out of range, without torch unless an installed package is chosen.

    Raises:
        ValueError: naming the setting as on the command line, its value and what it may be.
    """
    schema.OWN["seed"].take("seed", settings["seed"])
    if isinstance(out := settings.get("out"), list | dict):
        raise ValueError(f"out={out}: names no folder, which is one word")
    registry.check_options(schema.options_of("fit", ""), "fit", settings["fit"], "fit")
    for room, path, chosen in _choices(settings):
        name, options = chosen.get("name"), _options(chosen)
        if not isinstance(name, str):
            raise ValueError(f"{path}.name={name} is not a name; a choice is made by {path}=NAME")
        registry.check_options(_known(room, name), name, options, path)
        if name == KEEP and not is_published(settings):
            raise ValueError(
                f"{path}=keep: keeps what a published network has, such as model=torchvision:resnet18; "
                f"model={settings['model']['name']} has none of its own"
            )
    log_of(settings).refuse_missing()


def _choices(settings: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """(room, place on the command line, name and options) of everything that is chosen."""
    for room in schema.ROOMS:
        if room == "probe":
            for name, options in settings[room].items():
                if not isinstance(options, Mapping):
                    raise ValueError(
                        f"probe.{name} holds a probe's options: leave the probe out by ~probe.{name}"
                    )
                yield room, f"probe.{name}", {"name": name, **options}
        elif room in settings and room != "fit":
            yield room, room, settings[room]
    for stage, spec in own_operators(settings).items():
        common = settings["pool"] if spec.get("name") == "inherit" else {}
        yield "pool", f"stage.{stage}", {**common, **{k: v for k, v in spec.items() if v != "inherit"}}


def _options(chosen: Mapping[str, Any]) -> dict[str, Any]:
    return {option: value for option, value in chosen.items() if option != "name"}


def _known(room: str, name: str) -> Mapping[str, Option]:
    """The options of a choice: by the schema, or by the signature of an installed package's.

    Raises:
        ValueError: for an unknown name.
    """
    if name == KEEP and room in ("pool", "readout"):
        return {}
    try:
        return schema.options_of(room, name)
    except KeyError:
        names = dict.fromkeys(schema.names(room), dict)
        return registry.options_of(registry.lookup(names, schema.ROOMS[room].entries, name))


def log_of(settings: Mapping[str, Any]) -> TensorBoard:
    """The logger beside TensorBoard; none in settings that an earlier version saved.

    Raises:
        ValueError: if an option is out of range.
    """
    chosen = settings.get("log", {"name": "tensorboard"})
    entry = registry.lookup(LOGGERS, schema.ROOMS["log"].entries, chosen["name"])
    made: TensorBoard = entry(**registry.check(entry, chosen["name"], _options(chosen), "log"))
    return made


def is_published(settings: Mapping[str, Any]) -> bool:
    """Whether the model is a network of another package."""
    return settings["model"]["name"] in PUBLISHED


def changed_options(room: str, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """``chosen`` without the options that have the value of the choice's file.

    In a published network an operator takes all others from what it replaces.
    """
    usual = _content(room, chosen["name"])
    return {k: v for k, v in chosen.items() if k == "name" or k not in usual or v != usual[k]}


@cache
def _content(room: str, stem: str) -> dict[str, Any]:
    """All options of a choice at their usual values; none where a file of the user's own has them."""
    path = conf_dir() / room / f"{stem}.yaml"
    content: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return content


@contextmanager
def located(path: str, chosen: Mapping[str, Any]) -> Iterator[None]:
    """Prefix errors that begin with an option's name by ``path``, its place on the command line."""
    try:
        yield
    except ValueError as error:
        if str(error).partition(" ")[0] in _options(chosen):
            raise ValueError(f"{path}.{error}") from None
        raise
