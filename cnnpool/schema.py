"""The groups of a configuration, their choices and their options, known without torch.

They come from signatures and docstrings, for which every group is imported, and are kept in ``schema.json``
until a source of the package changes. A wheel carries that file.
"""

import json
import pkgutil
import re
import types
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from hashlib import sha256
from inspect import Parameter, cleandoc, getmro, isclass
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import DocInfo, Ge, Gt, Le, Lt, MaxLen, MinLen, Predicate, doc

from cnnpool import bounds, registry
from cnnpool.bounds import Seed
from cnnpool.registry import Option
from cnnpool.system.process import cache_of

PACKAGE = Path(__file__).resolve().parent
Content = dict[str, dict[str, dict[str, Any]]]
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


def described(entry: Callable[..., Any], left_out: Collection[str] = ()) -> dict[str, Any]:
    """Option -> its type, a sentence on it, and its default if it has one, of a class or function."""
    texts: dict[str, str] = {}
    for one in reversed(getmro(entry)) if isclass(entry) else [entry]:
        texts |= sentences(cleandoc(one.__doc__ or ""))
    return {
        key: {"type": encode(option.hint), "text": texts.get(key, "")}
        | ({} if option.default is Parameter.empty else {"default": option.default})
        for key, option in registry.options_of(entry).items()
        if key not in left_out
    }


def sentences(docstring: str) -> dict[str, str]:
    """The descriptions in the ``Args`` of a docstring, by argument."""
    lines = re.split(r"^Args:\n", docstring, flags=re.MULTILINE)
    found: dict[str, str] = {}
    keys: list[str] = []
    for line in lines[1].split("\n\n")[0].splitlines() if len(lines) > 1 else []:
        if start := re.match(r" {4}(\w+(?:, \w+)*): (.*)", line):
            keys = start[1].split(", ")
            found |= dict.fromkeys(keys, start[2])
        else:
            found |= {key: f"{found[key]} {line.strip()}" for key in keys}
    return found


def encode(hint: Any) -> Any:
    """A type as plain data, of which ``decode`` makes the type again."""
    origin, parts = get_origin(hint), get_args(hint)
    if hasattr(hint, "__metadata__"):
        return {"kind": encode(parts[0])} | dict(map(_bound, hint.__metadata__))
    if origin is Literal:
        return {"one_of": list(parts)}
    if origin in (Union, types.UnionType):
        return {"any_of": list(map(encode, parts))}
    if origin is tuple:
        return {"list_of": encode(parts[0])} if parts[-1] is ... else {"list": list(map(encode, parts))}
    hint = None if hint is types.NoneType else hint
    for name, kind in KINDS.items():
        if hint is kind:
            return name
    raise ValueError(f"{hint} is no type of an option: cnnpool/schema.py has their names")


def _bound(bound: Any) -> tuple[str, Any]:
    if isinstance(bound, DocInfo):
        return "doc", bound.documentation
    if isinstance(bound, Predicate):
        assert getattr(bounds, bound.func.__name__) is bound.func, "predicates stand in cnnpool/bounds.py"
        return "predicate", bound.func.__name__
    ((name, value),) = asdict(bound).items()
    return name, value


def decode(node: Any) -> Any:
    """The type that ``encode`` wrote as ``node``."""
    if isinstance(node, str):
        return KINDS[node]
    match node:
        case {"one_of": values}:
            return FORMS["one_of"][tuple(values)]
        case {"list_of": part}:
            return FORMS["list"][decode(part), ...]
        case {"kind": kind, **rest}:
            found = (BOUNDS[str(name)](value) for name, value in rest.items())
            return FORMS["bounded"][(decode(kind), *found)]
    ((form, parts),) = node.items()
    return FORMS[str(form)][tuple(map(decode, parts))]


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
