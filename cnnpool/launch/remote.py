"""Sweeps on other machines: a Hydra plugin brings the jobs there, their folders say how they ended."""

import json
import os
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml

from cnnpool.launch.config import conf_dir
from cnnpool.launch.job import Outcome
from cnnpool.launch.untrusted import FOLDERS, values

REMOTE = {"slurm": "hydra_submitit_launcher"}
"""Launchers, by the plugin that they need; each is an extra of this package."""


def remote(arguments: Sequence[str]) -> str | None:
    """The name of the launcher that a command line asks for, if it leads to other machines.

    Raises:
        ValueError: if its plugin is not installed.
    """
    name = _value(arguments, "launch", "local")
    if name not in REMOTE:
        return None
    if not find_spec("hydra_plugins") or not find_spec(f"hydra_plugins.{REMOTE[name]}"):
        raise ValueError(f"launch={name} needs a plugin: pip install 'cnnpool[{name}]'")
    return name


def gather(arguments: Sequence[str], launch: Callable[[], object]) -> tuple[list[Outcome], str]:
    """What the jobs that ``launch`` waits for left below the output root, and what it complained of."""
    root, since, error = Path(_value(arguments, "out", "outputs")), time.time(), ""
    try:
        launch()
    except ValueError as mistake:
        error = str(mistake)
    outcomes = [_read(path, root) for path in sorted(root.rglob("status.json"))]
    return [outcome for moment, outcome in outcomes if moment >= since], error


def _read(path: Path, root: Path) -> tuple[float, Outcome]:
    try:
        found = json.loads(path.read_text())
        moment, state, error = found["time"], found["state"], found["error"]
    except (ValueError, TypeError, KeyError):
        # The machine that wrote it went down.
        found, moment, state, error = {}, path.stat().st_mtime, "running", None
    done = state == "done"
    said = error or ("" if done else "ended without a word")
    status = 0 if done else found.get("status") or 1
    return moment, Outcome(os.path.relpath(path.parent, root), state, said, status, path.parent / "train.log")


def _value(arguments: Sequence[str], key: str, default: str) -> str:
    """What ``key`` is on the command line, else in the experiment that it chooses."""
    if given := _given(arguments, key):
        return given[-1]
    for name in _given(arguments, "experiment"):
        for folder in (*values(arguments, FOLDERS), conf_dir()):
            path = Path(folder, "experiment", f"{name}.yaml")
            if path.is_file():
                return str(_settings(path).get(key, default))
    return default


def _given(arguments: Sequence[str], key: str) -> list[str]:
    found = (argument.partition("=") for argument in arguments)
    return [value.strip("'\"") for name, _, value in found if name.lstrip("+") == key]


def _settings(path: Path) -> dict[str, Any]:
    """An experiment's own keys, and the choices that it overrides."""
    content = yaml.safe_load(path.read_text()) or {}
    chosen = [entry for entry in content.get("defaults", ()) if isinstance(entry, dict)]
    choices = {key.split()[-1].strip("/"): value for entry in chosen for key, value in entry.items()}
    return {**content, **choices}
