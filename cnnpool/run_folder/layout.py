"""The files of a run's folder, and the random name that marks a run's unfinished files."""

import json
import os
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from cnnpool import __version__
from cnnpool.run_folder.errors import AGAIN, LostError

RESULTS = "results.json"
STATUS = "status.json"
METRICS = "metrics.jsonl"
ROUTING = "routing.npz"
CHECKPOINTS = "checkpoints"
LAST, PREVIOUS, BEST = "last.ckpt", "previous.ckpt", "best.ckpt"
LOG = "train.log"
LOGGED = "logged.json"
"""The names by which services such as Weights & Biases know the run."""
OUTPUT = "output.log"
SETTINGS = ".hydra"
LOCK = ".lock"
MARK = ".cnnpool"
"""Says that the folder is a run's, and holds the run's own random name."""


def begin(folder: Path) -> str:
    """Make ``folder`` a run's, without what killed processes of the run left unfinished; returns its name.

    The run's own random name is empty if a power cut has damaged it.
    """
    if not _name(folder):
        now = datetime.now(UTC).isoformat(timespec="seconds")
        content = {"id": secrets.token_hex(8), "cnnpool": __version__, "created": now}
        # After damage by a power cut, unfinished files are kept; nothing else depends on it.
        (folder / MARK).write_text(json.dumps(content) + "\n")
    name = _name(folder)
    for place in (folder, folder / CHECKPOINTS, folder / SETTINGS):
        for part in place.glob(f".*.{name}-*.part") if name else ():
            part.unlink(missing_ok=True)
    return name


def refuse_lost(folder: Path, name: str, files: Sequence[str] = ()) -> None:
    """Raise LostError unless ``folder`` is still that of the run called ``name`` and holds ``files``."""
    if _name(folder) != name:
        raise lost(folder)
    if gone := [file for file in files if not (folder / file).exists()]:
        raise lost(folder / gone[0])


def lost(path: Path) -> LostError:
    """The error that somebody else has deleted ``path``, or put another run in its place."""
    return LostError(f"{path} was deleted or replaced while its run went on: {AGAIN}")


def temp_prefix(folder: Path) -> str:
    """The mark of this process's unfinished files of the run in ``folder``; empty where there is no run."""
    name = _name(folder)
    return f"{name}-{os.getpid()}" if name else ""


def _name(folder: Path) -> str:
    try:
        name = json.loads((folder / MARK).read_text())["id"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ""
    return name if isinstance(name, str) and name.isalnum() else ""
