"""The operator of an example: found by its name, built for images of one channel, its options in words."""

import json
from typing import Literal

from torch import nn

from cnnpool import pool, readout, registry, tables

Room = Literal["pool", "readout"]
LARGEST = 64
"""Of options that are whole numbers: more make no worked example, and might fill the memory."""


def build(
    name: str, size: tuple[int, int], room: Room | None = None, options: dict[str, object] | None = None
) -> nn.Module:
    """The operator or readout called ``name`` for images of one channel and (H, W) = ``size``.

    Raises:
        ValueError: for an unknown name or option, or a value out of range.
    """
    for key, value in (options or {}).items():
        parts = value if isinstance(value, tuple) else (value,)
        if any(isinstance(part, int) and part > LARGEST for part in parts):
            raise ValueError(f"{name}: {key}={shown(value)} is too large to explain: at most {LARGEST:,}")
    if room_of(name, room) == "readout":
        return readout.build(name, 1, size, **(options or {}))
    return pool.build(name, 1, **(options or {}))


def room_of(name: str, room: Room | None = None) -> Room:
    """``readout`` for what is a readout alone, else ``pool``; a ``room`` that is asked for comes first.

    Raises:
        ValueError: for an unknown name; the message suggests the nearest.
    """
    operators = registry.names(pool.OPERATORS, "operators")
    readouts = registry.names(readout.READOUTS, "readouts")
    known = {"pool": operators, "readout": readouts, None: [*operators, *readouts]}[room]
    if name not in known:
        kind = "readout" if room == "readout" else "operator"
        raise ValueError(f"no {kind} named {name!r}; {registry.did_you_mean(name, known)}")
    return room or ("pool" if name in operators else "readout")


def options_text(name: str, room: Room | None = None) -> str:
    """A table of the options with their defaults and their legal values."""
    is_readout = room_of(name, room) == "readout"
    entry = (
        registry.lookup(readout.READOUTS, "readouts", name)
        if is_readout
        else registry.lookup(pool.OPERATORS, "operators", name)
    )
    options = registry.options_of(entry)
    if not options:
        return f"{name} takes no options\n"
    rows = [(key, shown(option.default), option.words) for key, option in options.items()]
    table = tables.text(tables.from_rows(("option", "default", "legal values"), rows))
    return f"options of {name}, each set by KEY=VALUE:\n{table}"


def shown(value: object) -> str:
    """A value as it is typed: ``null``, ``true``, ``2``, ``[2, 1]``."""
    return json.dumps(value) if isinstance(value, bool | tuple | None) else str(value)
