"""From a name to an object: one explicit table per room, the constructor's signature as the schema."""

import difflib
import inspect
import math
import types
from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints


def lookup(table: Mapping[str, Callable], room: str, name: str) -> Callable:
    """The class or function called ``name``: the room's own, else an installed package's entry point.

    Own names win, so an installed package cannot replace a built-in choice unseen.

    Raises:
        ValueError: if no such name exists; the message suggests the nearest.
    """
    if name in table:
        return table[name]
    foreign = _foreign(f"cnnpool.{room}")
    if name in foreign:
        return foreign[name].load()
    raise ValueError(f"no {room[:-1]} named {name!r}; {_nearest(name, [*table, *foreign])}")


def construct(table: Mapping[str, Callable], room: str, name: str, *args: Any, **options: Any) -> Any:
    """Call the entry of ``name`` with ``options`` checked against its keyword-only parameters.

    Raises:
        ValueError: for an unknown name, an unknown option, or a value of the wrong type; options
            out of range are refused by the constructor itself.
    """
    entry = lookup(table, room, name)
    return entry(*args, **check(entry, name, options))


def options_of(entry: Callable) -> dict[str, inspect.Parameter]:
    """The keyword-only parameters of ``entry``: what a configuration may set."""
    parameters = inspect.signature(entry).parameters.values()
    return {p.name: p for p in parameters if p.kind is p.KEYWORD_ONLY}


def check(entry: Callable, name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """``options`` with lists turned into tuples, refused if unknown to ``entry`` or of the wrong type."""
    hints = get_type_hints(entry.__init__ if inspect.isclass(entry) else entry)
    return check_types(name, options, {key: hints.get(key, Any) for key in options_of(entry)})


def check_types(name: str, options: Mapping[str, Any], hints: Mapping[str, Any]) -> dict[str, Any]:
    """``options`` with lists turned into tuples, refused if not in ``hints`` or not of its type there."""
    checked = {}
    for key, value in options.items():
        if key not in hints:
            raise ValueError(f"{name} has no option {key!r}; {_nearest(key, list(hints))}")
        value = tuple(value) if isinstance(value, list) else value
        if not _fits(value, hints[key]):
            raise ValueError(f"{name}: {key}={value!r} is not {_describe(hints[key])}")
        checked[key] = value
    return checked


@cache
def _foreign(group: str) -> dict[str, Any]:
    return {point.name: point for point in entry_points(group=group)}


def _nearest(word: str, known: list[str]) -> str:
    if not known:
        return "it takes none"
    close = difflib.get_close_matches(word, known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"choose from {', '.join(sorted(known))}"


def _fits(value: Any, hint: Any) -> bool:
    origin = get_origin(hint)
    if hint is Any:
        return True
    if origin is Literal:
        # By type too: True equals 1, and is no choice of 1.
        return any(value == choice and type(value) is type(choice) for choice in get_args(hint))
    if origin in (Union, types.UnionType):
        return any(_fits(value, option) for option in get_args(hint))
    if origin is tuple:
        parts = get_args(hint)
        if not isinstance(value, tuple):
            return False
        if len(parts) == 2 and parts[1] is ...:
            return all(_fits(v, parts[0]) for v in value)
        return len(value) == len(parts) and all(map(_fits, value, parts))
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if hint is type(None):
        return value is None
    return isinstance(value, hint) if isinstance(hint, type) else True


def _describe(hint: Any) -> str:
    origin = get_origin(hint)
    if origin is Literal:
        return "one of " + ", ".join(map(repr, get_args(hint)))
    if origin in (Union, types.UnionType):
        return " or ".join(_describe(option) for option in get_args(hint))
    if origin is tuple:
        parts = get_args(hint)
        return "a list of " + ("numbers" if parts[-1] is ... else str(len(parts)))
    return {
        int: "a whole number",
        float: "a number",
        str: "a text",
        bool: "true or false",
        type(None): "null",
    }.get(hint, str(hint))
