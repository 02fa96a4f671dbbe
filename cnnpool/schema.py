"""The groups of a configuration, their choices and their options, read from ``schema.json`` without torch.

``python scripts/schema.py`` writes that file from the signatures; a test compares them.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, Literal, Union

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen, Predicate, doc

from cnnpool import bounds
from cnnpool.bounds import Seed
from cnnpool.registry import Option

PATH = Path(__file__).with_suffix(".json")
KINDS: dict[str, Any] = {"int": int, "float": float, "str": str, "bool": bool, "null": None, "any": Any}
KINDS["table"] = bounds.Table
BOUNDS: dict[str, Any] = {"ge": Ge, "gt": Gt, "le": Le, "lt": Lt, "doc": doc}
BOUNDS |= {"min_length": MinLen, "max_length": MaxLen}
BOUNDS["predicate"] = lambda name: Predicate(getattr(bounds, name))
FORMS: dict[str, Any] = {"one_of": Literal, "any_of": Union, "list": tuple, "bounded": Annotated}


@dataclass(frozen=True)
class Group:
    """A group of choices in ``conf``: its entry points ``cnnpool.<entries>``, and its tables or its class."""

    entries: str
    tables: tuple[str, ...]
    needed: bool = False


GROUPS = {
    "data": Group("datasets", ("cnnpool.data:DATASETS",), needed=True),
    "model": Group("models", ("cnnpool.model:MODELS", "cnnpool.published.build:PUBLISHED"), needed=True),
    "pool": Group("operators", ("cnnpool.pool:OPERATORS",), needed=True),
    "readout": Group("readouts", ("cnnpool.readout:READOUTS",), needed=True),
    "fit": Group("", ("cnnpool.recipe:Recipe",), needed=True),
    "trainer": Group("", ("cnnpool.recipe:TrainerFlags",)),
    "callback": Group("callbacks", ("cnnpool.fit.callbacks:CALLBACKS",)),
    "probe": Group("probes", ("cnnpool.probe:PROBES",)),
    "launch": Group("launchers", ("cnnpool.launch.runners:RUNNERS",)),
    "log": Group("loggers", ("cnnpool.recipe:LOGGERS",)),
}
SECTIONS = (*GROUPS, "stage", "seed", "out", "overwrite", "objective", "experiment")  # First parts of keys
OWN = {
    "seed": Option(Seed, 0, "of the weights, the order of the images, and all draws"),
    "out": Option(str, "outputs", "folder below which every run gets its own"),
    "overwrite": Option(bool, False, "delete the run that is in the folder, finished or not, and train anew"),
    "objective": Option(
        str | tuple[str, ...], "val/accuracy", "number that hydra/sweeper optimises; a list for several"
    ),
}
"""Options that belong to no group."""


def names(group: str) -> list[str]:
    """The names of the classes and functions of a group; one empty name if all choices share one class."""
    return list(_content()[group])


def choices(group: str) -> list[str]:
    """The choices of a group that are a class's or function's own options, all at their defaults."""
    if group == "probe":
        return []
    return ["default"] if names(group) == [""] else names(group)


def options_of(group: str, name: str) -> Mapping[str, Option]:
    """The options of a choice; a KeyError if the group has no such name, which a package may define."""
    names = _content()[group]
    if name not in names and "" not in names:
        raise KeyError(name)
    return _options(group, name if name in names else "")


@cache
def _options(group: str, name: str) -> Mapping[str, Option]:
    return {
        key: Option(_hint(content["type"]), content.get("default", Parameter.empty), content["text"])
        for key, content in _content()[group][name].items()
    }


@cache
def _content() -> dict[str, dict[str, dict[str, Any]]]:
    content: dict[str, dict[str, dict[str, Any]]] = json.loads(PATH.read_text(encoding="utf-8"))
    return content


def _hint(node: Any) -> Any:
    """The type that ``node`` describes, as scripts/schema.py writes it."""
    if isinstance(node, str):
        return KINDS[node]
    match node:
        case {"one_of": values}:
            return FORMS["one_of"][tuple(values)]
        case {"list_of": part}:
            return FORMS["list"][_hint(part), ...]
        case {"kind": kind, **rest}:
            found = (BOUNDS[str(name)](math.inf if value == "inf" else value) for name, value in rest.items())
            return FORMS["bounded"][(_hint(kind), *found)]
    ((form, parts),) = node.items()
    return FORMS[str(form)][tuple(map(_hint, parts))]
