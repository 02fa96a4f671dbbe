"""Names of run folders, unique within a sweep."""

import json
import os
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from cnnpool.choices import own_operators, whole
from cnnpool.launch.job import Job
from cnnpool.run_folder.identity import differences, digest, effect
from cnnpool.system.next_command import from_here

UNNAMED = (
    "seed",
    "data",
    "data.dataset",
    "data.path",
    "model",
    "model.arch",
    "pool",
    "experiment",
    "out",
    "launch",
    "log",
    "objective",
    "overwrite",
)
"""Overrides left out of a run folder's name: its path contains them, or they do not affect the result.

Settings without effect by ``cnnpool.run_folder.identity.EFFECTS`` are left out too.
"""
FILES = ("data.root", "model.weights")
"""Settings that are paths: a name has their last component, and a digest if there are others."""
FIXED = ("cifar10", "cifar100", "digits", "fashion_mnist", "huggingface", "mnist", "torchvision")
"""Data sets whose images do not depend on ``data.root``."""
MOST, MOST_OF_VALUE = 100, 24  # Bytes of a component of the path, and of a value in it


def run_name(
    settings: Mapping[str, Any], choices: Mapping[str, Any], overrides: Iterable[str], swept: Collection[str]
) -> str:
    """A run's folder below the output root, [experiment/]data/model/choice/seed; ``swept`` keys differ.

    ``choices`` has the chosen name of each group, ``overrides`` the job's part of the command line.
    """
    rooted = choices.get("data") not in FIXED and settings["data"].get("root") is not None
    unnamed = (*UNNAMED, "data.root") if rooted else UNNAMED
    named = [text for text in overrides if _is_named(_key(text), swept, unnamed)]
    parts = [
        _word("-".join(filter(None, (choices.get("data"), _which(settings["data"], rooted))))),
        # A package's network is chosen by its own name.
        _word("-".join(filter(None, dict.fromkeys((choices.get("model"), settings["model"].get("arch")))))),
        choice_name(choices["pool"], named),
        _word(f"seed{settings['seed']}"),
    ]
    if choices.get("experiment"):
        parts.insert(0, choices["experiment"])
    return "/".join(_shortened(part, MOST) for part in parts)


def _which(data: Mapping[str, Any], rooted: bool) -> str | None:
    """The data set within a package of several, or the folder of a user's own images."""
    if path := data.get("path"):
        return str(path).strip("/.")
    return _file(str(data["root"])) if rooted else data.get("dataset")


def is_harmless(key: str) -> bool:
    """Whether a setting changes no result, so a run's name leaves it out."""
    return effect(key) == "nothing"


def _is_named(key: str, swept: Collection[str], unnamed: Collection[str]) -> bool:
    if key in unnamed or key.startswith(("launch.", "log.")):
        return False
    return key in swept or not is_harmless(key)


def _key(override: str) -> str:
    return override.split("=", 1)[0].lstrip("+~")


def choice_name(pool: str, overrides: Iterable[str]) -> str:
    """The name of a choice: the pool and all other overrides, in a fixed order.

    ``max``, ``max+kernel_size=3``, ``blur+s2=avg+s2.kernel_size=3+readout=gap``.
    """
    return _shortened("+".join([pool, *sorted(map(_setting, overrides))]), MOST)


def _setting(override: str) -> str:
    """An override as part of a name: ``kernel_size=3`` of ``pool.kernel_size=3``, a deletion as ``=off``."""
    key, equals, value = override.partition("=")
    if override.startswith("~") or value == "[]":
        equals, value = "=", "off"
    elif _key(override) in FILES:
        value = _file(value)
    name = re.sub(r"^[+~]*(pool@stage\.|stage\.|pool\.)?", "", key)
    return f"{_word(name)}{equals}{_shortened(_word(value), MOST_OF_VALUE)}"


def _file(path: str) -> str:
    """The stem of a path, and a digest of the whole if there is more to it."""
    path = os.path.normpath(path.strip("\"'"))
    stem = os.path.splitext(os.path.basename(path))[0]
    return stem if path == os.path.basename(path) else f"{stem or 'root'}-{digest(path)}"


def _shortened(text: str, most: int) -> str:
    """``text`` in at most so many bytes: its beginning and a digest of it where it is longer."""
    whole = text.encode()
    if len(whole) <= most:
        return text
    end = f"-{digest(text)}"
    return whole[: most - len(end)].decode(errors="ignore") + end


def _word(text: str) -> str:
    return re.sub(r"[^\w.=+@-]", "_", text)


def distinct(jobs: Iterable[Job]) -> list[Job]:
    """``jobs`` without duplicates, among them those that differ in the spelling of their settings alone."""
    found: dict[Path, Job] = {}
    said: dict[str, Job] = {}
    for job in jobs:
        if said.setdefault(_meant(job), job).overrides != job.overrides:
            continue
        other = found.setdefault(job.folder, job)
        if other is not job and (differ := differences(other.settings, job.settings)):
            raise ValueError(
                f"{from_here(job.folder)} would be the folder of two jobs ({'; '.join(differ)}): "
                "give each its own, or leave hydra.sweep.subdir out"
            )
    return list(found.values())


def _meant(job: Job) -> str:
    """The settings of a job as text, with the operators of those stages alone that differ from ``pool``."""
    every = {stage: whole(spec, job.settings["pool"]) for stage, spec in own_operators(job.settings).items()}
    own = {stage: operator for stage, operator in every.items() if operator != job.settings["pool"]}
    return json.dumps({**job.settings, "stage": own}, sort_keys=True, default=str)
