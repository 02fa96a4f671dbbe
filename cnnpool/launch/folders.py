"""Names of run folders, unique within a sweep."""

import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from cnnpool.launch.job import Job
from cnnpool.run_folder.identity import differences, effect

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
)
"""Overrides left out of a run folder's name: its path contains them, or they do not affect the result.

Settings without effect by ``cnnpool.run_folder.identity.EFFECTS`` are left out too.
"""


def run_name(
    settings: Mapping[str, Any], choices: Mapping[str, Any], overrides: Iterable[str], swept: Collection[str]
) -> str:
    """A run's folder below the output root, [experiment/]data/model/choice/seed; ``swept`` keys differ.

    ``choices`` has the chosen name of each room, ``overrides`` the job's part of the command line.
    """
    named = [text for text in overrides if _is_named(_key(text), swept)]
    parts = [
        _word("-".join(filter(None, (choices.get("data"), _which(settings["data"]))))),
        _word("-".join(filter(None, (choices.get("model"), settings["model"].get("arch"))))),
        choice_name(choices["pool"], named),
        _word(f"seed{settings['seed']}"),
    ]
    if choices.get("experiment"):
        parts.insert(0, choices["experiment"])
    return "/".join(parts)


def _which(data: Mapping[str, Any]) -> str | None:
    """The data set within a package of several."""
    path = data.get("path")
    return str(path).strip("/.") if path else data.get("dataset")


def is_harmless(key: str) -> bool:
    """Whether a setting changes no result, so a run's name leaves it out."""
    return effect(key) == "nothing"


def _is_named(key: str, swept: Collection[str]) -> bool:
    if key in UNNAMED or key.startswith(("launch.", "log.")):
        return False
    return key in swept or not is_harmless(key)


def _key(override: str) -> str:
    return override.split("=", 1)[0].lstrip("+~")


def choice_name(pool: str, overrides: Iterable[str]) -> str:
    """The name of a choice: the pool and all other overrides, in a fixed order.

    ``max``, ``max+kernel_size=3``, ``blur+s2=avg+s2.kernel_size=3+readout=gap``.
    """
    words = [re.sub(r"^[+~]*(pool@stage\.|stage\.|pool\.)?", "", text) for text in overrides]
    return "+".join([pool, *sorted(map(_word, words))])


def _word(text: str) -> str:
    return re.sub(r"[^\w.=+@-]", "_", text)


def distinct(jobs: Iterable[Job]) -> list[Job]:
    """``jobs`` without duplicates."""
    found: dict[Path, Job] = {}
    for job in jobs:
        other = found.setdefault(job.folder, job)
        if other is not job and (differ := _differences(other, job)):
            raise ValueError(
                f"{job.name} would be the folder of two jobs ({'; '.join(differ)}): give each its own, "
                "or leave hydra.sweep.subdir out"
            )
    return list(found.values())


def _differences(one: Job, other: Job) -> list[str]:
    if not (one.settings and other.settings):
        return [] if one.overrides == other.overrides else [*one.overrides, "and", *other.overrides]
    return differences(one.settings, other.settings)
