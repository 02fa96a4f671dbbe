"""study.live.json: the state of a study, for other processes."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

from annotated_types import Ge
from pydantic import FiniteFloat, NonNegativeInt, TypeAdapter, ValidationError

from cnnpool.run_folder import layout
from cnnpool.run_folder.reading import damaged, read_bytes
from cnnpool.system.lock_file import is_locked
from cnnpool.tables import Column

FILE = "study.live.json"
Seconds = Annotated[FiniteFloat, Ge(0)]


@dataclass(frozen=True, kw_only=True)
class Live:
    """A study at one moment, written at ``time``, in seconds since 1970.

    It ``said`` such as ``round 3 of at most 12``; ``ended`` of the ``asked`` runs of that round are finished.
    ``candidates`` is their table; each has ``trained`` for so many rounds, and is ``left`` or ``gone``. The
    ``verdict`` is empty while the study is running.
    """

    schema: Literal[1] = 1
    said: str
    rounds: NonNegativeInt
    planned: NonNegativeInt | None
    ended: NonNegativeInt
    asked: NonNegativeInt
    spent_s: Seconds
    budget_s: Seconds
    time: Seconds
    candidates: Sequence[Column]
    trained: Sequence[int]
    left: Sequence[bool]
    gone: Sequence[tuple[str, str]]
    verdict: str = ""

    def __post_init__(self) -> None:
        if not self.candidates:
            raise ValueError("it has no candidates")
        if len({len(self.trained), len(self.left), *(len(one.cells) for one in self.candidates)}) != 1:
            raise ValueError("its lists differ in length")


ADAPTER = TypeAdapter(Live)


def content(live: Live) -> bytes:
    return json.dumps(asdict(live), indent=1, allow_nan=False).encode()


def read(path: Path) -> Live | None:
    """The study in the file ``path``; None if there is none."""
    try:
        found = read_bytes(path)
        return None if found is None else ADAPTER.validate_json(found, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        reason = f"{'.'.join(map(str, first['loc']))} {first['msg']}"
        raise damaged(path, " ".join(reason.split())) from None


def lives(path: Path) -> bool:
    """Whether the command that wrote the file ``path`` is still running."""
    return bool(is_locked(path.with_name(layout.LOCK)))
