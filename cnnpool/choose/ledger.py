"""study.json: what was fixed before a study began, and the time that it has taken."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

from filelock import FileLock, Timeout

from cnnpool import __version__
from cnnpool.choose.boundary import FIRST_ROUND
from cnnpool.choose.options import MOST_ROUNDS
from cnnpool.run_folder.identity import differences
from cnnpool.run_folder.results import CHECKSUM, checksum
from cnnpool.system.atomic import write_json

FILE, LOG = "study.json", "choose.log"
SCHEMA = 1
LONG = 1e9
RANGES: dict[str, tuple[type, float, float]] = {
    "rounds": (int, FIRST_ROUND, MOST_ROUNDS),
    "resolution": (float, 0, 1),
    "spent_s": (float, 0, LONG),
    "batch_s": (float, 0, LONG),
    "batch_runs": (int, 0, LONG),
    "sessions": (int, 0, LONG),
}
"""Name -> type, least and largest value of what a study fixes and counts."""


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
        with self._writing:
            content = {"schema": SCHEMA, "cnnpool": __version__, "design": dict(self.design)}
            content |= {name: getattr(self, name) for name in RANGES}
            write_json(self.folder / FILE, {**content, CHECKSUM: checksum(content)})


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
        raise _unwritable(error) from None
    return found


def held(folder: Path) -> FileLock:
    """A lock on the study, so that two commands do not share one; its folder is made.

    Raises:
        ValueError: if another process holds it, or it cannot be written.
    """
    lock = FileLock(folder / ".lock", blocking=False)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        raise ValueError(f"{folder} is in use by another cnnpool choose: wait for it, or stop it") from None
    except OSError as error:
        raise _unwritable(error) from None
    return lock


def _unwritable(error: OSError) -> ValueError:
    return ValueError(f"{error.filename}: {error.strerror}; choose another folder by choose.out=")


def _read(path: Path, design: Mapping[str, Any]) -> Ledger:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        written = content.pop(CHECKSUM, None)
        if content["schema"] != SCHEMA or (written and written != checksum(content)):
            raise ValueError
        known = {name: content[name] for name in RANGES}
        for name, value in known.items():
            _check(name, value)
        earlier = dict(content["design"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ValueError(
            f"{path} is damaged: delete it to go on with the runs that are there (their time is forgotten)"
        ) from None
    if differ := differences(earlier, json.loads(json.dumps(design))):
        more = f" and {len(differ) - 3} more" if len(differ) > 3 else ""
        raise ValueError(
            f"{path.parent} holds a study of another design ({'; '.join(differ[:3])}{more}): "
            "name another folder by choose.out=, or delete it"
        )
    return Ledger(path.parent, design, **known)


def _check(name: str, value: Any) -> None:
    """Raise ValueError if a study cannot have ``value``."""
    kind, low, high = RANGES[name]
    if name == "rounds" and value is None:
        return
    if type(value) not in (int, kind) or not low <= value <= high:
        raise ValueError
