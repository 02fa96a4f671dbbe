"""Bounded numbers as option types, a float without an upper bound if infinity is one; types in words."""

import math
import types
from collections.abc import Iterable
from itertools import chain
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import DocInfo, Ge, GroupedMetadata, Gt, Le, Lt, MaxLen, MinLen, Predicate

Count = Annotated[int, Ge(1), Le(10**9)]
CountOrZero = Annotated[int, Ge(0), Le(10**9)]
Seed = Annotated[int, Ge(0), Le(2**32 - 1)]  # Seeds that every random generator accepts

AboveZero = Annotated[float, Gt(0), Lt(math.inf)]
AtLeastZero = Annotated[float, Ge(0), Lt(math.inf)]
Share = Annotated[float, Ge(0), Le(1)]
ShareBelowOne = Annotated[float, Ge(0), Lt(1)]
Table = dict[str, str | int | float | bool]


def odd(number: int) -> bool:
    """Whether ``number`` is odd: a window of that size has a centre."""
    return number % 2 == 1


def other_than_0(number: int) -> bool:
    return number != 0


def is_norm(p: float) -> bool:
    return p in (1, 2, math.inf)


KINDS: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    str: "a text",
    bool: "true or false",
    type(None): "null",
    Any: "anything",
    Table: "options by name, as {name: value}",
}


def describe(hint: Any) -> str:
    """The values that a bounded type allows, in words: ``a whole number from 1 to 8``."""
    origin, parts = get_origin(hint), get_args(hint)
    if hasattr(hint, "__metadata__"):
        flat = (one if isinstance(one, GroupedMetadata) else [one] for one in hint.__metadata__)
        return _bounded(describe(parts[0]), chain.from_iterable(flat))
    if origin is Literal:
        return f"one of {', '.join(map(str, parts))}" if len(parts) > 1 else str(parts[0])
    if origin in (Union, types.UnionType):
        return _either(parts)
    if origin is tuple:
        return f"a list, each {describe(parts[0])}" if parts[-1] is ... else _listed(parts)
    return KINDS.get(hint, "") or str(getattr(hint, "__name__", hint))


def choices(hint: Any) -> tuple[str, ...]:
    """The legal values of a type as written on the command line, if they are few."""
    if hint is bool:
        return "true", "false"
    if get_origin(hint) is Literal:
        return tuple(map(str, get_args(hint)))
    if get_origin(hint) in (Union, types.UnionType):
        return tuple(one for part in get_args(hint) for one in choices(part))
    return ("null",) if hint in (None, types.NoneType) else ()


def _listed(parts: tuple[Any, ...]) -> str:
    if all(part == parts[0] for part in parts):
        return f"a list of {len(parts)}, each {describe(parts[0])}"
    return f"a list of {', '.join(map(describe, parts))}"


def _either(parts: tuple[Any, ...]) -> str:
    words = [
        "two of them" if get_args(part) == parts[:1] * 2 and get_origin(part) is tuple else describe(part)
        for part in parts
    ]
    return ", or ".join(words)


def _bounded(kind: str, bounds: Iterable[Any]) -> str:
    low, high, rest = "", "", []
    for bound in bounds:
        match bound:
            case DocInfo():
                return bound.documentation
            case Ge():
                low = f"at least {_number(bound.ge)}"
            case Gt():
                low = f"above {_number(bound.gt)}"
            case Le():
                high = f"at most {_number(bound.le)}"
            case Lt():
                high = "finite" if bound.lt == math.inf else f"below {_number(bound.lt)}"
            case MinLen():
                rest.append(f"at least {bound.min_length} of them")
            case MaxLen():
                rest.append(f"at most {bound.max_length} of them")
            case Predicate():
                rest.append(bound.func.__name__.replace("_", " "))
    if kind.startswith("a number") and not high:
        rest.append("or inf")
    return ", ".join([_between(kind, low, high), *rest])


def _between(kind: str, low: str, high: str) -> str:
    if low.startswith("at least") and high.startswith("at most"):
        return f"{kind} from {low.removeprefix('at least ')} to {high.removeprefix('at most ')}"
    ends = " and ".join(filter(None, (low, high)))
    return f"{kind}{',' * ends.startswith('at')} {ends}".rstrip()


def _number(bound: Any) -> str:
    if isinstance(bound, int):
        zeros = len(str(bound)) - 1
        return f"10^{zeros}" if zeros >= 6 and bound == 10**zeros else f"{bound:,}"
    return f"{bound:g}"
