"""Options of the choices, parsed from source code instead of imported, since torch takes seconds."""

import ast
import builtins
import math
import re
import types
import typing
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import annotated_types

from cnnpool import bounds
from cnnpool.bounds import describe

PACKAGE = Path(__file__).resolve().parents[1]
TABLES = {
    "data": (("cnnpool.data", "DATASETS"),),
    "model": (("cnnpool.model", "MODELS"), ("cnnpool.published.build", "PUBLISHED")),
    "pool": (("cnnpool.pool", "OPERATORS"),),
    "readout": (("cnnpool.readout", "READOUTS"),),
    "probe": (("cnnpool.probe", "PROBES"),),
    "launch": (("cnnpool.launch.runners", "RUNNERS"),),
    "log": (("cnnpool.loggers", "LOGGERS"),),
}
LIGHT = {one.__name__: one for one in (builtins, typing, math, annotated_types, bounds)}
"""Modules that types are made of."""


@dataclass(frozen=True)
class Described:
    """An option in words.

    Args:
        text: a sentence or two on it.
        hint: its type and bounds, as far as they are made of what ``LIGHT`` defines.
    """

    text: str
    hint: Any

    @property
    def values(self) -> str:
        """The legal values in words."""
        return describe(self.hint)

    @property
    def choices(self) -> tuple[str, ...]:
        """The legal values themselves, where they can be listed."""
        return choices(self.hint)


def options_of(room: str, name: str) -> dict[str, Described]:
    """The options of a choice; none where an installed package brings it.

    Args:
        room: data, model, pool, readout, probe, launch, log, or fit, all of whose files have the same ones.
        name: of the choice.
    """
    if room == "fit":
        return _options(_module("cnnpool.recipe"), "Recipe")
    for place, table in TABLES[room]:
        module = _module(place)
        entries = module.values[table]
        assert isinstance(entries, ast.Dict)
        for key, value in zip(entries.keys, entries.values, strict=True):
            if isinstance(key, ast.Constant) and key.value == name and isinstance(value, ast.Name):
                return _options(module, value.id)
    return {}


class _Module:
    """The names that a module's source gives to values, classes, functions and imports."""

    def __init__(self, path: Path):
        self.values: dict[str, ast.expr] = {}
        self.definitions: dict[str, ast.ClassDef | ast.FunctionDef] = {}
        self.imports: dict[str, tuple[str, str]] = {}
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            match node:
                case ast.ClassDef() | ast.FunctionDef():
                    self.definitions[node.name] = node
                case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)) if (
                    node.value
                ):
                    self.values[name] = node.value
                case ast.ImportFrom(module=str(module)):
                    self.imports |= {alias.asname or alias.name: (module, alias.name) for alias in node.names}
                case ast.Import():
                    self.imports |= {alias.asname or alias.name: (alias.name, "") for alias in node.names}


@cache
def _module(name: str) -> _Module:
    path = PACKAGE.joinpath(*name.split(".")[1:])
    return _Module(path / "__init__.py" if path.is_dir() else path.with_suffix(".py"))


def _options(module: _Module, name: str) -> dict[str, Described]:
    """The options of a class with those of its bases, or of a function."""
    if name not in module.definitions:
        place, original = module.imports.get(name, ("", ""))
        return _options(_module(place), original) if place.startswith("cnnpool") else {}
    node = module.definitions[name]
    bases = node.bases if isinstance(node, ast.ClassDef) else []
    found: dict[str, Described] = {}
    for base in reversed(bases):
        found |= _options(module, base.id) if isinstance(base, ast.Name) else {}
    said = _sentences(ast.get_docstring(node) or "")
    hints = _hints(node)
    if hints is not None:
        own = {key: Described("", _value(module, hint)) for key, hint in hints.items()}
        if not _is_dataclass(node):
            found = {key: one for key, one in found.items() if key in own}
        texts = {key: one.text for key, one in found.items()}
        found |= {key: replace(one, text=texts.get(key, "")) for key, one in own.items()}
    return {key: replace(one, text=said.get(key, one.text)) for key, one in found.items()}


def _hints(node: ast.ClassDef | ast.FunctionDef) -> dict[str, ast.expr] | None:
    """The annotations of the keyword-only parameters, or the fields; None for a class without either."""
    function = node
    if isinstance(node, ast.ClassDef):
        if _is_dataclass(node):
            fields = (each for each in node.body if isinstance(each, ast.AnnAssign))
            named = {ast.unparse(each.target): each.annotation for each in fields}
            return {key: hint for key, hint in named.items() if not ast.unparse(hint).startswith("ClassVar")}
        methods = {each.name: each for each in node.body if isinstance(each, ast.FunctionDef)}
        if "__init__" not in methods:
            return None
        function = methods["__init__"]
    assert isinstance(function, ast.FunctionDef)
    return {each.arg: each.annotation for each in function.args.kwonlyargs if each.annotation}


def _is_dataclass(node: ast.ClassDef | ast.FunctionDef) -> bool:
    return any(ast.unparse(each).startswith("dataclass") for each in node.decorator_list)


def _value(module: _Module, node: ast.expr) -> Any:
    """A type that is made of literals, names and what ``LIGHT`` defines."""
    match node:
        case ast.Constant():
            return node.value
        case ast.Name():
            return _named(module, node.id)
        case ast.Attribute():
            return getattr(_value(module, node.value), node.attr, Any)
        case ast.Tuple():
            return tuple(_value(module, each) for each in node.elts)
        case ast.Subscript():
            owner = _value(module, node.value)
            return owner if owner is Any else owner[_value(module, node.slice)]
        case ast.UnaryOp(op=ast.USub()):
            return -_value(module, node.operand)
        case ast.BinOp(op=ast.BitOr()):
            return _value(module, node.left) | _value(module, node.right)
        case ast.BinOp(op=ast.Pow()):
            return _value(module, node.left) ** _value(module, node.right)
        case ast.Call():
            return _value(module, node.func)(*(_value(module, each) for each in node.args))
    return Any


def _named(module: _Module, name: str) -> Any:
    if name in module.values:
        return _value(module, module.values[name])
    if name in module.definitions:
        return _accepting(name)
    place, original = module.imports.get(name, ("builtins", name))
    if place in LIGHT:
        return getattr(LIGHT[place], original) if original else LIGHT[place]
    return _named(_module(place), original) if place.startswith("cnnpool") else Any


def _accepting(name: str) -> Any:
    """In place of a predicate, whose body is not read: true of every value, until torch is there."""

    def predicate(_: Any) -> bool:
        return True

    predicate.__name__ = name
    return predicate


def choices(hint: Any) -> tuple[str, ...]:
    """The legal values of a type as the command line has them, if they are few."""
    if hint is bool:
        return "true", "false"
    if get_origin(hint) is Literal:
        return tuple(map(str, get_args(hint)))
    if get_origin(hint) in (Union, types.UnionType):
        return tuple(one for part in get_args(hint) for one in choices(part))
    return ("null",) if hint in (None, types.NoneType) else ()


def _sentences(docstring: str) -> dict[str, str]:
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
