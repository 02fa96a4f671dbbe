"""The files of a study: study.json has its design and its time; study.live.json its state, for others."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Ge, Le
from filelock import FileLock, Timeout
from pydantic import BaseModel, Field, FiniteFloat, NonNegativeInt, TypeAdapter, ValidationError

from cnnpool import __version__
from cnnpool.choose.options import MOST_ROUNDS
from cnnpool.choose.rounds import FIRST_ROUND
from cnnpool.report.page import Drawn, Sheet
from cnnpool.report.plots.panels import colours
from cnnpool.run_folder import layout
from cnnpool.run_folder.identity import differences
from cnnpool.run_folder.reading import damaged, read_bytes
from cnnpool.system.atomic import write_json
from cnnpool.system.lock_file import is_locked, lock
from cnnpool.tables import Column

FILE, LOG, LIVE = layout.STUDY, "choose.log", "study.live.json"
SCHEMA = 1
Seconds = Annotated[float, Ge(0), Le(1e9)]
Count = Annotated[int, Ge(0), Le(10**9)]
Passed = Annotated[FiniteFloat, Ge(0)]


class Ledger(BaseModel, strict=True, allow_inf_nan=False):
    """The design of a study, which must not change on resuming, and the time it has taken.

    ``rounds`` and ``resolution`` are known after the first round, ``margin`` before the first look. All
    ``sessions`` of the command took ``spent_s``, of which ``batch_s`` went to ``batch_runs`` runs.
    """

    folder: Path = Field(exclude=True)
    design: Mapping[str, Any]
    rounds: Annotated[int, Ge(FIRST_ROUND), Le(MOST_ROUNDS)] | None = None
    resolution: Annotated[float, Ge(0), Le(1)] = 0.0
    margin: Annotated[float, Ge(0)] = 0.0
    spent_s: Seconds = 0.0
    batch_s: Seconds = 0.0
    batch_runs: Count = 0
    sessions: Count = 0

    def save(self) -> None:
        content = {"schema": SCHEMA, "cnnpool": __version__, **self.model_dump()}
        write_json(self.folder / FILE, content)

    def run_s(self, usual: float) -> float:
        """Average seconds per run; ``usual`` before the first one."""
        return self.batch_s / self.batch_runs if self.batch_runs else usual


def opened(folder: Path, design: Mapping[str, Any]) -> Ledger:
    """The ledger of the study in ``folder``, which must be ``held``; a new one if there is none."""
    path = folder / FILE
    found = _read(path, design) if path.exists() else Ledger(folder=folder, design=design)
    found.sessions += 1
    found.save()
    return found


def held(folder: Path) -> FileLock:
    """A lock on the study, which prevents two commands from sharing it; makes the folder."""
    found = lock(folder / layout.LOCK)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        found.acquire()
    except Timeout:
        raise ValueError(f"{folder} is in use by another cnnpool choose: wait for it, or stop it") from None
    except OSError as error:
        raise ValueError(f"{error.filename}: {error.strerror}; choose another choose.out=") from None
    return found


def _read(path: Path, design: Mapping[str, Any]) -> Ledger:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["schema"] != SCHEMA:
            raise ValueError
        # Require every field, so that none falls back to its default.
        known = {name: content[name] for name in Ledger.model_fields.keys() - {"folder"}}
        found = Ledger(folder=path.parent, **known)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise ValueError(
            f"{path} is damaged: delete it to continue with the finished runs (the time that they took "
            "is forgotten)"
        ) from None
    if differ := differences(found.design, json.loads(json.dumps(design))):
        more = f" and {len(differ) - 3} more" if len(differ) > 3 else ""
        raise ValueError(
            f"{path.parent} holds a study of another design ({'; '.join(differ[:3])}{more}): "
            "name another folder by choose.out=, or delete it"
        )
    return found


@dataclass(frozen=True, kw_only=True)
class Live:
    """Progress snapshot: the round announced by ``said``, and its finished of the requested runs.

    ``candidates`` is their table; each is ``left`` or ``gone``, and has ``dots``, a value per seed.
    """

    schema: Literal[1] = 1
    said: str
    rounds: NonNegativeInt
    planned: NonNegativeInt | None
    ended: NonNegativeInt
    requested: NonNegativeInt
    spent_s: Passed
    budget_s: Passed
    time: Passed  # When it was written, since 1970
    candidates: Sequence[Column]
    left: Sequence[bool]
    gone: Sequence[tuple[str, str]]
    intervals: Sequence[Sequence[float | None]] = ()  # Mean and interval of each, as far as it has them
    dots: Sequence[Sequence[float]] = ()
    verdict: str = ""  # Empty while the study is running

    def __post_init__(self) -> None:
        if not self.candidates:
            raise ValueError("it has no candidates")
        drawn = [len(one) for one in (self.intervals, self.dots) if one]
        rows = {len(self.left), *(len(one.cells) for one in self.candidates), *drawn}
        if len(rows) != 1:
            raise ValueError("its lists differ in length")

    @property
    def sheet(self) -> Sheet:
        """The table of the candidates, as every page shows it."""
        labels = self.candidates[0].cells
        rows = [[math.nan if x is None else x for x in row] for row in self.intervals]
        place, known = min(2, len(self.candidates) - 1), any(not math.isnan(row[0]) for row in rows)
        plots = {place: Drawn("mean, interval, a dot per seed", rows, self.dots)} if known else {}
        faint = [not left for left in self.left]
        return Sheet(self.candidates, drawn=plots, colours=colours(labels, labels), faint=faint)


ADAPTER = TypeAdapter(Live)


def content_of(live: Live) -> bytes:
    return json.dumps(asdict(live), indent=1, allow_nan=False).encode()


def read_live(path: Path) -> Live | None:
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
