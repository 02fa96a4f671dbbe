"""JSON: one rule for non-finite numbers, one walk over the keys, one validation of what was read."""

import json
import math
from collections.abc import Mapping
from dataclasses import MISSING, fields
from functools import cache
from typing import Any, NoReturn, TypeVar, get_type_hints

T = TypeVar("T")
LEAVES = {float, int, str, bool, type(None), list}
MOST_DIGITS = 19  # Most digits of an integer that is read: enough for any 64-bit integer


def flat(node: Any, path: str = "") -> list[tuple[str, Any]]:
    """The dotted key and value of each leaf below ``node``: anything but a non-empty mapping."""
    if not (isinstance(node, Mapping) and node):
        return [(path, node)]
    found: list[tuple[str, Any]] = []
    for key, value in node.items():
        at = f"{path}.{key}" if path else str(key)
        # A call for each leaf, which asks whether it is a mapping, takes twice as long.
        if type(value) in LEAVES:
            found.append((at, value))
        else:
            found += flat(value, at)
    return found


def finite(node: Any) -> Any:
    """``node`` with null for each infinite or NaN number, which JSON cannot represent."""
    if isinstance(node, float):
        return node if math.isfinite(node) else None
    if isinstance(node, Mapping):
        return {str(key): finite(value) for key, value in node.items()}
    return [finite(value) for value in node] if isinstance(node, list | tuple) else node


def parse(content: bytes) -> Any:
    """Parse ``content``, UTF-8, as JSON of finite numbers, and integers of 64 bits."""
    return json.loads(content.decode(), parse_constant=_not_finite, parse_float=_float, parse_int=_integer)


def validated(kind: type[T], content: Any) -> T:
    """The dataclass ``kind`` of ``content``, which may hold more; a ValueError names the wrong field."""
    # Slow to import.
    from pydantic import ValidationError

    try:
        return kind(**vars(_model(kind).model_validate(content)))  # type: ignore[arg-type]
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where, value = ".".join(map(str, first["loc"])), str(first["input"])[:40]
        got = "" if first["type"] == "missing" else f", got {value!r}"
        raise ValueError(f"{where or 'content'}: {first['msg']}{got}") from None


@cache
def _model(kind: type) -> Any:
    from pydantic import create_model

    hints = get_type_hints(kind, include_extras=True)
    known: Any = {}
    for one in fields(kind):
        default = one.default if one.default_factory is MISSING else one.default_factory()
        known[one.name] = (hints[one.name], ... if default is MISSING else default)
    return create_model(kind.__name__, __config__={"strict": True}, **known)


def _not_finite(word: str) -> NoReturn:
    raise ValueError(f"a number is not finite: {word[:40]}")


def _float(digits: str) -> float:
    value = float(digits)
    return value if math.isfinite(value) else _not_finite(digits)


def _integer(digits: str) -> int:
    if len(digits.lstrip("-")) > MOST_DIGITS:
        raise ValueError(f"an integer has more than {MOST_DIGITS} digits: {digits[:40]}")
    return int(digits)
