"""Settings checked as plain values, so that a mistake is named before torch is imported."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import yaml

from cnnpool import registry
from cnnpool.launch.config import conf_dir, own_operators
from cnnpool.launch.ranges import Size, range_of
from cnnpool.recipe import Recipe

ENTRIES = {
    "data": "datasets",
    "model": "models",
    "pool": "operators",
    "readout": "readouts",
    "probe": "probes",
}
LARGEST_SEED = 2**32 - 1
"""The largest that all generators take."""
CONVOLUTIONS = ("depthwise", "strided")
"""Operators that may pad by more than half of their window."""


def check(settings: Mapping[str, Any]) -> Recipe:
    """Refuse what is a mistake whatever the model and the data; what is left is how to train.

    Raises:
        ValueError: naming the setting, its value and what it may be.
    """
    recipe = Recipe(**registry.check(Recipe, "fit", settings["fit"]))
    seed = settings["seed"]
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= LARGEST_SEED:
        raise ValueError(f"seed must be a whole number of 0 to {LARGEST_SEED}, got {seed!r}")
    for room in ("data", "model", "pool", "readout"):
        _check(room, room, settings[room])
    for name, options in settings["probe"].items():
        _check("probe", f"probe.{name}", {"name": name, **options})
    for stage, spec in own_operators(settings).items():
        if spec.get("name") != "inherit":
            _check("pool", f"stage.{stage}", {k: v for k, v in spec.items() if v != "inherit"})
    return recipe


def _check(room: str, path: str, chosen: Mapping[str, Any]) -> None:
    """Refuse a choice that does not exist, and options that are unknown, of another type or out of range."""
    name = chosen.get("name")
    if not isinstance(name, str):
        raise ValueError(f"{path}.name={name} is no name; a choice is made by {path}=NAME")
    names = _names(room)
    if name not in names:
        # Nobody's, or an installed package's, whose constructor knows its options.
        registry.lookup(dict.fromkeys(names), ENTRIES[room], name)
        return
    ranges = {option: range_of(room, name, option) for option in _options(room, name)}
    given = {option: value for option, value in chosen.items() if option != "name"}
    checked = registry.check_types(name, given, {option: one.hint for option, one in ranges.items()})
    for option, value in checked.items():
        ranges[option].check(f"{path}.{option}", value)
    if room == "pool" and name not in CONVOLUTIONS:
        _check_padding(path, checked.get("kernel_size"), checked.get("padding"))


def _check_padding(path: str, kernel_size: Size | None, padding: Size | None) -> None:
    if kernel_size is None or padding is None:
        return
    kernels, sides = ((v, v) if isinstance(v, int) else v for v in (kernel_size, padding))
    if any(2 * side > kernel for side, kernel in zip(sides, kernels, strict=True)):
        raise ValueError(f"{path}.padding must be at most half of kernel_size={kernel_size}, got {padding}")


def _names(room: str) -> list[str]:
    if room == "probe":
        return list(_content(room, "full"))
    return [path.stem for path in (conf_dir() / room).glob("*.yaml") if path.stem != "inherit"]


def _options(room: str, name: str) -> list[str]:
    """The options of a choice, which its file holds all."""
    content = _content(room, "full")[name] if room == "probe" else _content(room, name)
    return [key for key in content if key != "name"]


@cache
def _content(room: str, stem: str) -> dict[str, Any]:
    return yaml.safe_load((conf_dir() / room / f"{stem}.yaml").read_text())
