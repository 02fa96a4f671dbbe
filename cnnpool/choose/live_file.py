"""study.live.json: where a study stands, for whoever watches it from another process."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from cnnpool.run_folder.reading import read_json
from cnnpool.tables import Column

FILE = "study.live.json"
SCHEMA = 1
LONGEST = 1 << 22
"""Bytes; a study of a hundred candidates writes a hundredth of them."""


@dataclass(frozen=True)
class Live:
    """A study at one moment.

    Args:
        said: what goes on, such as ``round 3 of at most 12``.
        rounds: complete ones.
        planned: the most rounds; None until the first one has shown how long a run takes.
        ended, asked: runs of the round, or of the tries, that have ended, and all of them.
        spent_s, budget_s: time that the study has taken and may take, in seconds.
        time: of writing, in seconds since 1970.
        candidates: the table of candidates, a row each.
        trained: rounds that each of them has been trained for.
        left: whether each of them is still in.
        gone: candidate, and when and why it was dropped, or is out.
        verdict: the recommendation; empty while the study goes on.
    """

    said: str
    rounds: int
    planned: int | None
    ended: int
    asked: int
    spent_s: float
    budget_s: float
    time: float
    candidates: Sequence[Column]
    trained: Sequence[int]
    left: Sequence[bool]
    gone: Sequence[tuple[str, str]]
    verdict: str = ""


def content(live: Live) -> bytes:
    """The file of ``live``."""
    return json.dumps({"schema": SCHEMA, **asdict(live)}, indent=1, allow_nan=False).encode()


def read(path: Path) -> Live | None:
    """The study in the file ``path``; None where there is none.

    Raises:
        DamagedError: if the file is not what a study wrote.
    """
    return read_json(path, _checked, most=LONGEST)


def _checked(node: Any) -> Live:
    if not isinstance(node, dict) or node.get("schema") != SCHEMA:
        raise ValueError(f"not a study of schema {SCHEMA}")
    candidates = [_column(one) for one in _list(node, "candidates", lambda one: isinstance(one, dict))]
    found = Live(
        said=_one(node, "said", str),
        planned=None if node.get("planned") is None else _one(node, "planned", int),
        candidates=candidates,
        trained=_list(node, "trained", lambda one: type(one) is int),
        left=_list(node, "left", lambda one: isinstance(one, bool)),
        gone=[(one[0], one[1]) for one in _list(node, "gone", lambda one: _texts(one) and len(one) == 2)],
        verdict=_one(node, "verdict", str),
        **{name: _one(node, name, int) for name in ("rounds", "ended", "asked")},
        **{name: _one(node, name, float) for name in ("spent_s", "budget_s", "time")},
    )
    if not candidates:
        raise ValueError("it has no candidates")
    if len({len(found.trained), len(found.left), *(len(one.cells) for one in candidates)}) != 1:
        raise ValueError("its lists are not of one length")
    return found


def _column(node: Mapping[str, Any]) -> Column:
    if not isinstance(node.get("words"), bool):
        raise ValueError("a column does not say whether it holds words")
    return Column(
        _one(node, "header", str), _list(node, "cells", lambda one: isinstance(one, str)), node["words"]
    )


def _one(node: Mapping[str, Any], name: str, kind: type) -> Any:
    value: Any = node.get(name)
    if type(value) not in (int, kind) or (kind is str) != isinstance(value, str):
        raise ValueError(f"{name} is {str(value)[:40]!r}")
    if kind is not str and not (isfinite(value) and value >= 0):
        raise ValueError(f"{name} is {value}")
    return value


def _list(node: Mapping[str, Any], name: str, is_one: Callable[[Any], bool]) -> list[Any]:
    value = node.get(name)
    if not isinstance(value, list) or not all(is_one(one) for one in value):
        raise ValueError(f"{name} is {str(value)[:40]!r}")
    return value


def _texts(node: Any) -> bool:
    return isinstance(node, list) and all(isinstance(one, str) for one in node)
