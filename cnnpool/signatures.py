"""Options as plain data, from signatures and docstrings, and their types again from that."""

import dataclasses
import inspect
import re
import types
from collections.abc import Callable, Collection
from itertools import chain
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import DocInfo, Ge, GroupedMetadata, Gt, Le, Lt, MaxLen, MinLen, Predicate, doc

from cnnpool import bounds, registry

KINDS: dict[str, Any] = {"int": int, "float": float, "str": str, "bool": bool, "null": None, "any": Any}
KINDS["table"] = bounds.Table
BOUNDS: dict[str, Any] = {"ge": Ge, "gt": Gt, "le": Le, "lt": Lt, "doc": doc}
BOUNDS |= {"min_length": MinLen, "max_length": MaxLen}
BOUNDS["predicate"] = lambda name: Predicate(getattr(bounds, name))
FORMS: dict[str, Any] = {"one_of": Literal, "any_of": Union, "list": tuple, "bounded": Annotated}


def described(entry: Callable[..., Any], left_out: Collection[str] = ()) -> dict[str, Any]:
    """Option -> its type, a sentence on it, and its default if it has one, of a class or function."""
    texts: dict[str, str] = {}
    for one in reversed(inspect.getmro(entry)) if inspect.isclass(entry) else [entry]:
        texts |= sentences(inspect.cleandoc(one.__doc__ or ""))
    return {
        key: {"type": encode(option.hint), "text": texts.get(key, ""), **_default(option)}
        for key, option in registry.options_of(entry).items()
        if key not in left_out
    }


def _default(option: registry.Option) -> dict[str, Any]:
    return {} if option.default is inspect.Parameter.empty else {"default": option.default}


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
        grouped = (bound if isinstance(bound, GroupedMetadata) else [bound] for bound in hint.__metadata__)
        return {"kind": encode(parts[0])} | dict(map(_bound, chain.from_iterable(grouped)))
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
    raise ValueError(f"{hint} is no type of an option: cnnpool/signatures.py has their names")


def _bound(bound: Any) -> tuple[str, Any]:
    if isinstance(bound, DocInfo):
        return "doc", bound.documentation
    if isinstance(bound, Predicate):
        assert getattr(bounds, bound.func.__name__) is bound.func, "predicates stand in cnnpool/bounds.py"
        return "predicate", bound.func.__name__
    ((name, value),) = dataclasses.asdict(bound).items()
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
