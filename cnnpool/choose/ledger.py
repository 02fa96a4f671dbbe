"""study.json: the fixed design of a study, and the time it has taken."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Ge, Le
from filelock import FileLock, Timeout
from pydantic import BaseModel, Field

from cnnpool import __version__
from cnnpool.choose.options import MOST_ROUNDS
from cnnpool.choose.rounds import FIRST_ROUND
from cnnpool.run_folder import layout
from cnnpool.run_folder.identity import differences
from cnnpool.system.atomic import write_json
from cnnpool.system.lock_file import lock

FILE, LOG = "study.json", "choose.log"
SCHEMA = 1
Seconds = Annotated[float, Ge(0), Le(1e9)]
Count = Annotated[int, Ge(0), Le(10**9)]


class Ledger(BaseModel, strict=True, allow_inf_nan=False):
    """The file of one study: its design, which must not change on resuming, and the time it has taken.

    ``rounds`` are planned, and ``resolution`` is found, when the first round has shown how long a run takes.
    All ``sessions`` of the command took ``spent_s``, of which ``batch_s`` went to ``batch_runs`` runs.
    """

    folder: Path = Field(exclude=True)
    design: Mapping[str, Any]
    rounds: Annotated[int, Ge(FIRST_ROUND), Le(MOST_ROUNDS)] | None = None
    resolution: Annotated[float, Ge(0), Le(1)] = 0.0
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
