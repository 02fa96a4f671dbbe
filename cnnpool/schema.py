"""The groups of a configuration, their choices and their options, known without torch.

They come from signatures and docstrings, for which every group is imported, and are kept in ``schema.json``
until a source of the package changes. A wheel carries that file.
"""

import json
import pkgutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from inspect import Parameter
from pathlib import Path
from typing import Any

from cnnpool.bounds import Seed
from cnnpool.registry import Option
from cnnpool.signatures import decode, described
from cnnpool.system.process import cache_of

PACKAGE = Path(__file__).resolve().parent
Content = dict[str, dict[str, dict[str, Any]]]


@dataclass(frozen=True)
class Group:
    """A group of choices in ``conf``: its entry points ``cnnpool.<entries>``, and its tables or its class."""

    entries: str
    tables: tuple[str, ...]
    needed: bool = False
    built: tuple[str, ...] = ()  # Arguments that a configuration does not set by their own names
    several: bool = False  # Any number is chosen at once, each with its options below its own name


GROUPS = {
    "data": Group("datasets", ("cnnpool.data:DATASETS",), needed=True),
    "model": Group(
        "models", ("cnnpool.model:MODELS", "cnnpool.published.build:PUBLISHED"), True, ("pool", "readout")
    ),
    "pool": Group("operators", ("cnnpool.pool:OPERATORS",), needed=True),
    "readout": Group("readouts", ("cnnpool.readout:READOUTS",), needed=True),
    "fit": Group("", ("cnnpool.recipe:Recipe",), needed=True),
    "trainer": Group("", ("cnnpool.recipe:TrainerFlags",)),
    "callback": Group("callbacks", ("cnnpool.fit.callbacks:CALLBACKS",), several=True),
    "probe": Group("probes", ("cnnpool.probe:PROBES",), several=True),
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
        key: Option(decode(content["type"]), content.get("default", Parameter.empty), content["text"])
        for key, content in _content()[group][name].items()
    }


@cache
def _content() -> Content:
    sources = digest()
    for path in places():
        if kept := _kept(path, sources):
            return kept
    from cnnpool.system.progress import Progress

    with Progress("reading the options of all choices, once for these sources"):
        text = json.dumps({"sources": sources, "groups": generate()})
    _keep(text)
    content: Content = json.loads(text)["groups"]
    return content


def generate() -> Content:
    """Group -> choice -> option -> its type, a sentence on it, and its default if it has one."""
    return {
        group: {name: described(entry, one.built) for name, entry in entries(group).items()}
        for group, one in GROUPS.items()
    }


def entries(group: str) -> dict[str, Callable[..., Any]]:
    """The classes and functions of a group by name, imported with their packages."""
    found: dict[str, Callable[..., Any]] = {}
    for place in GROUPS[group].tables:
        table = pkgutil.resolve_name(place)
        found |= table if isinstance(table, Mapping) else {"": table}
    return found


def file() -> Path | None:
    """The file that has all options, written if there was none; None if no place for it is writable."""
    _content()
    sources = digest()
    return next((path for path in places() if _kept(path, sources)), None)


def places() -> list[Path]:
    """Where ``schema.json`` may be: in a wheel, beside the sources' bytecode, or in the user's cache."""
    folders = PACKAGE, PACKAGE / "__pycache__", cache_of(PACKAGE)
    return [folder / "schema.json" for folder in folders]


def digest() -> str:
    """A digest of the package's sources."""
    found = sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        source = path.read_bytes()
        found.update(f"{path.relative_to(PACKAGE).as_posix()} {len(source)}\n".encode() + source)
    return found.hexdigest()


def _kept(path: Path, sources: str) -> Content | None:
    """The options in ``path``, unless it is missing, damaged or of other sources."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return found["groups"] if isinstance(found, dict) and found.get("sources") == sources else None


def _keep(text: str) -> None:
    """Write ``text`` to the first place that is writable; where none is, every process generates it."""
    from cnnpool.system.atomic import write_text

    for path in places()[1:]:
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_text(path, text, flush=False)
            return
