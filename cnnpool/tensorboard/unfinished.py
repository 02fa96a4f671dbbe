"""Runs that are not finished: what they were asked, read from the settings that they began with."""

from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from cnnpool.run_folder import layout
from cnnpool.run_folder.results import NAMED, Results

LONGEST = 1 << 20
"""Bytes; the settings of a run are a thousandth of them."""
INHERIT = "inherit"
"""The operator of a stage that has none of its own."""


def asked(folder: Path) -> Results | None:
    """The run's choices and settings, no number measured; None if they cannot be read."""
    settings = _load(folder / layout.SETTINGS / "config.yaml")
    if not isinstance(settings, dict):
        return None
    named: dict[str, dict[str, Any]] = {
        name: settings[name] for name in NAMED if _has_name(settings.get(name))
    }
    if len(named) < len(NAMED):
        return None
    seed, stages = settings.get("seed"), settings.get("stage")
    own = stages.items() if isinstance(stages, dict) else ()
    overrides = _load(folder / layout.SETTINGS / "overrides.yaml")
    words = [word for word in overrides if isinstance(word, str)] if isinstance(overrides, list) else []
    fit = settings.get("fit")
    return Results(
        pool=named["pool"],
        readout=named["readout"],
        model=named["model"],
        data=named["data"],
        seed=seed if isinstance(seed, int) else 0,
        stages={str(stage): node for stage, node in own if _has_name(node) and node["name"] != INHERIT},
        overrides=words,
        fit=dict(fit) if isinstance(fit, dict) else {},
    )


def _has_name(node: Any) -> bool:
    return isinstance(node, dict) and isinstance(node.get("name"), str)


def _load(path: Path) -> Any:
    try:
        now = path.stat()
        return _parsed(path, now.st_mtime_ns, now.st_ino) if now.st_size <= LONGEST else None
    except OSError:
        return None


@lru_cache(maxsize=4096)
def _parsed(path: Path, _changed: int, _inode: int) -> Any:
    try:
        return yaml.safe_load(path.read_bytes())
    except (OSError, ValueError, yaml.YAMLError, RecursionError):
        return None
