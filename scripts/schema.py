"""Write ``cnnpool/schema.json``: every choice's options and defaults, from signatures and docstrings.

usage: python scripts/schema.py
"""

import dataclasses
import inspect
import json
import math
import pkgutil
import re
import types
from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any, Literal, Union, get_args, get_origin

from annotated_types import DocInfo, GroupedMetadata, Predicate

from cnnpool import bounds, registry, schema
from cnnpool.run_folder.identity import as_json

BUILT = {"model": ("pool", "readout")}
"""Arguments that a configuration does not set by their own names."""


def entries(group: str) -> dict[str, Callable[..., Any]]:
    """The classes and functions of a group by name."""
    found: dict[str, Callable[..., Any]] = {}
    for place in schema.GROUPS[group].tables:
        table = pkgutil.resolve_name(place)
        found |= table if isinstance(table, Mapping) else {"": table}
    return found


def generate() -> dict[str, dict[str, dict[str, Any]]]:
    """Group -> choice -> option -> its type, a sentence on it, and its default if it has one."""
    return {
        group: {name: _options(entry, BUILT.get(group, ())) for name, entry in entries(group).items()}
        for group in schema.GROUPS
    }


def _options(entry: Callable[..., Any], left_out: tuple[str, ...]) -> dict[str, Any]:
    texts: dict[str, str] = {}
    for one in reversed(inspect.getmro(entry)) if inspect.isclass(entry) else [entry]:
        texts |= sentences(inspect.cleandoc(one.__doc__ or ""))
    known = registry.options_of(entry)
    return {
        key: {"type": encode(option.hint), "text": texts.get(key, ""), **_default(option)}
        for key, option in known.items()
        if key not in left_out
    }


def _default(option: registry.Option) -> dict[str, Any]:
    return {} if option.default is inspect.Parameter.empty else {"default": as_json(option.default)}


def encode(hint: Any) -> Any:
    """A type as plain data, of which ``cnnpool.schema`` makes the type again."""
    origin, parts = get_origin(hint), get_args(hint)
    if hasattr(hint, "__metadata__"):
        grouped = (bound if isinstance(bound, GroupedMetadata) else [bound] for bound in hint.__metadata__)
        return {"kind": encode(parts[0])} | dict(map(_bound, chain.from_iterable(grouped)))
    if origin is Literal:
        return {"one_of": list(parts)}
    if origin in (Union, types.UnionType):
        return {"any_of": list(map(encode, parts))}
    if origin is tuple:
        return {"list_of": encode(parts[0])} if parts[-1] is ... else {"list": list(map(encode, parts))}
    hint = None if hint is types.NoneType else hint
    for name, kind in schema.KINDS.items():
        if hint is kind:
            return name
    raise ValueError(f"{hint} cannot be written into schema.json")


def _bound(bound: Any) -> tuple[str, Any]:
    if isinstance(bound, DocInfo):
        return "doc", bound.documentation
    if isinstance(bound, Predicate):
        assert getattr(bounds, bound.func.__name__) is bound.func, "predicates stand in cnnpool/bounds.py"
        return "predicate", bound.func.__name__
    ((name, value),) = dataclasses.asdict(bound).items()
    return name, "inf" if value == math.inf else value


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


def written(node: Any, depth: int = 0) -> str:
    """``node`` as JSON with a line for every option."""
    if depth == 3 or not node:
        return json.dumps(node)
    pad = " " * (depth + 1)
    inside = (f"{pad}{json.dumps(key)}: {written(below, depth + 1)}" for key, below in node.items())
    return "{\n" + ",\n".join(inside) + f"\n{' ' * depth}}}"


def main() -> None:
    schema.PATH.write_text(written(generate()) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
