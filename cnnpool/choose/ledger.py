"""study.json: what was fixed before a study began, and the time that it has taken."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

from filelock import FileLock, Timeout

from cnnpool import __version__
from cnnpool.run_folder.atomic import write_json
from cnnpool.run_folder.identity import differences

FILE, LOG = "study.json", "choose.log"
SCHEMA = 1


@dataclass
class Ledger:
    """The file of one study.

    Args:
        folder: of the study.
        design: what decides how it ends, in plain JSON; a study goes on by the same one only.
        rounds: that were planned; None until the first one has shown how long a run takes.
        resolution: the metric's smallest step, found with them.
        spent_s: seconds that all calls of the study have taken.
        batch_s: those in which runs were made.
        batch_runs: how many were.
        sessions: calls of the command.
    """

    folder: Path
    design: Mapping[str, Any]
    rounds: int | None = None
    resolution: float = 0.0
    spent_s: float = 0.0
    batch_s: float = 0.0
    batch_runs: int = 0
    sessions: int = 0
    _writing: Lock = field(default_factory=Lock, repr=False)

    def save(self) -> None:
        """Write the file, whole or not at all.

        Raises:
            OSError: naming the file.
        """
        names = ("rounds", "resolution", "spent_s", "batch_s", "batch_runs", "sessions")
        content = {"schema": SCHEMA, "cnnpool": __version__, "design": dict(self.design)}
        with self._writing:
            write_json(self.folder / FILE, content | {name: getattr(self, name) for name in names})


def opened(folder: Path, design: Mapping[str, Any]) -> Ledger:
    """The ledger of the study in ``folder``, a new one where there is none.

    Raises:
        ValueError: if the folder holds another study, is damaged, or cannot be written.
    """
    path = folder / FILE
    found = Ledger(folder, design)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if path.exists():
            found = _read(path, design)
        found.sessions += 1
        found.save()
    except OSError as error:
        raise ValueError(
            f"{error.filename}: {error.strerror}; choose another folder by choose.out="
        ) from None
    return found


def held(folder: Path) -> FileLock:
    """A lock on the study, so that two commands do not share one.

    Raises:
        ValueError: if another process holds it.
    """
    lock = FileLock(folder / ".lock", blocking=False)
    try:
        lock.acquire()
    except Timeout:
        raise ValueError(f"{folder} is in use by another cnnpool choose: wait for it, or stop it") from None
    return lock


def _read(path: Path, design: Mapping[str, Any]) -> Ledger:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        known = {key: content[key] for key in ("spent_s", "batch_s", "batch_runs", "sessions", "resolution")}
        numbers = [*known.values(), content["rounds"] or 0]
        if content["schema"] != SCHEMA or not all(isinstance(one, int | float) for one in numbers):
            raise ValueError
        earlier = dict(content["design"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError(
            f"{path} is damaged: delete it to go on with the runs that are there (their time is forgotten)"
        ) from None
    if differ := differences(earlier, json.loads(json.dumps(design))):
        more = f" and {len(differ) - 3} more" if len(differ) > 3 else ""
        raise ValueError(
            f"{path.parent} holds a study by another design ({'; '.join(differ[:3])}{more}): "
            "name another folder by choose.out=, or delete it"
        )
    return Ledger(path.parent, design, rounds=content["rounds"], **known)
