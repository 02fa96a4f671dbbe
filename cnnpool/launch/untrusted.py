"""Checks of a user's configuration folder: it can neither run code nor fill the memory."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from cnnpool.launch.config import NO_CODE
from cnnpool.launch.overrides import HYDRA_KEYS

MOST_VALUES = 10_000
HYDRA_KEYS_IN_FILES = (*HYDRA_KEYS, "hydra.sweeper.params")
HYDRA_NOTES = (
    "hydra.runtime",
    "hydra.overrides",
    "hydra.searchpath",
    "hydra.job.override_dirname",
    "hydra.job.config_name",
)
"""Notes of Hydra's own on what it composed, and the folder itself."""


def check_folder(folder: Path, ours: Path) -> None:
    """Refuse a folder that cannot be read as configuration.

    Args:
        folder: with choices to add.
        ours: the configuration to which it adds.

    Raises:
        ValueError: naming the file, if it is no YAML, stands for too many values, or would be passed over.
    """
    if not folder.is_dir():
        raise ValueError(f"--config-dir {folder}: not found, or no folder")
    for path in _files(folder):
        content = _read(path)
        name = path.relative_to(folder)
        if (ours / name).is_file() and _read(ours / name) != content:
            raise ValueError(f"{path}: there is a {name.with_suffix('')} already; give it another name")


def _files(folder: Path) -> Iterator[Path]:
    """All YAML below ``folder``, behind symbolic links too, as Hydra would find them."""
    seen = set()
    for root, folders, names in os.walk(folder, followlinks=True):
        place = os.stat(root)
        if (place.st_dev, place.st_ino) in seen:
            folders.clear()
            continue
        seen.add((place.st_dev, place.st_ino))
        yield from (Path(root, name) for name in sorted(names) if name.endswith((".yaml", ".yml")))


def _read(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8")
        size = _expanded(yaml.compose(text, yaml.SafeLoader), {})
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8 text: save it as that") from None
    except yaml.YAMLError as error:
        raise _no_yaml(path, error) from None
    except RecursionError:
        raise ValueError(f"{path} is nested too deep") from None
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    if size > MOST_VALUES:
        raise ValueError(f"{path} stands for {size} values by its aliases; at most {MOST_VALUES} are read")
    return text


def _expanded(node: yaml.Node | None, known: dict[int, int]) -> int:
    """How many values a YAML node stands for, once its aliases are followed."""
    if not isinstance(node, yaml.CollectionNode):
        return 1
    if id(node) not in known:
        # A node that contains itself stands for infinitely many values.
        known[id(node)] = MOST_VALUES
        parts = (
            node.value
            if isinstance(node, yaml.SequenceNode)
            else [part for pair in node.value for part in pair]
        )
        known[id(node)] = 1 + sum(_expanded(part, known) for part in parts)
    return known[id(node)]


def _no_yaml(path: Path, error: yaml.YAMLError) -> ValueError:
    return ValueError(f"{path} is not valid YAML: {' '.join(str(error).split())[:200]}")


def check_primary(path: Path) -> None:
    """Refuse a file to begin with that extends Hydra's search path, by which packages are imported.

    Raises:
        ValueError: naming the file.
    """
    try:
        found = OmegaConf.select(OmegaConf.load(path), "hydra.searchpath")
    except FileNotFoundError:
        raise ValueError(f"no {path.name} in conf or {path.parent}") from None
    except yaml.YAMLError as error:
        # Of a key that is there twice, which the reading of the whole folder lets pass.
        raise _no_yaml(path, error) from None
    except (OmegaConfBaseException, OSError) as error:
        raise ValueError(f"{path}: {str(error).splitlines()[0]}") from None
    if found is not None:
        raise ValueError(f"{path}: hydra.searchpath: {NO_CODE}")


def check_hydra(settings: DictConfig, ours: DictConfig) -> None:
    """Refuse a composed configuration whose Hydra settings differ from ours where others may change nothing.

    Such settings have no effect here; a callback, for instance, would never be called.

    Raises:
        ValueError: naming the key.
    """
    found, expected = (dict(_flat(OmegaConf.to_container(node), "hydra")) for node in (settings, ours))
    for key in [*found, *expected]:
        free = any(f"{key}.".startswith(f"{one}.") for one in (*HYDRA_KEYS_IN_FILES, *HYDRA_NOTES))
        if not free and found.get(key) != expected.get(key):
            only = ", ".join(HYDRA_KEYS_IN_FILES)
            raise ValueError(f"{key}: of Hydra's settings only {only} can be given; {NO_CODE}")


def _flat(node: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(node, dict) and node:
        for key, value in node.items():
            yield from _flat(value, f"{path}.{key}")
    else:
        yield path, node
