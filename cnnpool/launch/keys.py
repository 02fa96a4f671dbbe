"""Keys that a command line may set, and their values as far as they can be listed: without Hydra or torch."""

from collections.abc import Iterable
from pathlib import Path

import yaml

from cnnpool.launch import conf_dir
from cnnpool.launch.signatures import options_of

ROOMS = ("data", "model", "pool", "readout", "probe", "fit", "launch", "log")
FOLDERS = ("data.root", "out", "hydra.run.dir", "hydra.sweep.dir")


def names_of(key: str, more: Path | None = None) -> list[str]:
    """The files from which a choice is made, those in the user's folder ``more`` too."""
    folders = [conf_dir(), *([more] if more else [])]
    found = {path.stem for folder in folders for path in (folder / key).glob("*.yaml")}
    return sorted(found - {"inherit"})


def keys_of(overrides: Iterable[str], more: Path | None = None) -> dict[str, list[str] | None]:
    """Every key with its values; an empty list for values that cannot be listed, None for a folder.

    Args:
        overrides: those on the command line, whose choices decide which options there are.
        more: a folder with choices of the user's own.
    """
    chosen = _defaults() | dict(_choices(overrides))
    stages = [key for key in chosen if key.startswith("pool@")]
    found: dict[str, list[str] | None] = {key: names_of(key, more) for key in (*ROOMS, "experiment")}
    found |= {key: [*names_of("pool", more), "inherit"] for key in stages}
    found |= {"seed": [], **dict.fromkeys(FOLDERS)}
    for room in (*ROOMS, *stages):
        where = room.removeprefix("pool@")
        for name in chosen.get(room, "").split(","):
            for part, path in _parts(room, name, where):
                options = options_of(room.partition("@")[0], part)
                found |= {f"{path}.{key}": list(one.choices) for key, one in options.items()}
    return found | dict.fromkeys(FOLDERS)


def _parts(room: str, name: str, where: str) -> list[tuple[str, str]]:
    """(name, place on the command line) of every entry with options in a choice."""
    if room != "probe":
        return [(name, where)]
    return [(probe, f"probe.{probe}") for probe in _probes(name)]


def _probes(name: str) -> list[str]:
    path = conf_dir() / "probe" / f"{name}.yaml"
    return list(yaml.safe_load(path.read_text()) or {}) if path.is_file() else []


def _defaults() -> dict[str, str]:
    content = yaml.safe_load((conf_dir() / "train.yaml").read_text())["defaults"]
    return {key: str(value) for one in content if isinstance(one, dict) for key, value in one.items()}


def _choices(overrides: Iterable[str]) -> Iterable[tuple[str, str]]:
    for override in overrides:
        key, _, value = override.partition("=")
        yield key, value
