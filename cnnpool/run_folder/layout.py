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
LOGGED = "logged.json"  # Which logs beside the run's own have its history, with its names in services
TABLE = "csv/metrics.csv"
OUTPUT = "output.log"
SETTINGS = ".hydra"
LOCK = ".lock"
STUDY = "study.json"  # In the folder of a study of cnnpool choose, beside its own tables
MARK = ".cnnpool"  # Marks the folder as a run's, and contains the run's own random name


def clear(folder: Path) -> None:
    """Delete the files of the run in ``folder``; its log goes on, and files of others stay."""
    if _name(folder):
        # Not the folders themselves, which may be links, or disks of their own.
        for place in (folder / CHECKPOINTS, folder / SETTINGS, folder / "csv"):
            for file in filter(Path.is_file, [*place.glob("*")]):
                file.unlink()
        named = (RESULTS, STATUS, METRICS, ROUTING, LOGGED, MARK)
        for file in [*(folder / name for name in named), *folder.glob("events.out.tfevents.*")]:
            file.unlink(missing_ok=True)


def begin(folder: Path) -> str:
    """Make ``folder`` a run's, remove unfinished files of killed processes, and return its random name."""
    if not _name(folder):
        now = datetime.now(UTC).isoformat(timespec="seconds")
        content = {"id": secrets.token_hex(8), "cnnpool": __version__, "created": now}
        # After damage by a power cut, unfinished files stay; nothing else depends on the name.
        (folder / MARK).write_text(json.dumps(content) + "\n")
    name = _name(folder)
    for place in (folder, folder / CHECKPOINTS, folder / SETTINGS):
        for part in place.glob(f".*.{name}-*.part") if name else ():
            part.unlink(missing_ok=True)
    return name


def refuse_lost(folder: Path, name: str, files: Sequence[str] = ()) -> None:
    """Raise LostError unless ``folder`` still belongs to the run called ``name`` and has ``files``."""
    if _name(folder) != name:
        raise lost(folder)
    if gone := [file for file in files if not (folder / file).exists()]:
        raise lost(folder / gone[0])


def lost(path: Path) -> LostError:
    """The error that ``path`` was deleted, or replaced by another run, from outside."""
    return LostError(f"{path} was deleted or replaced while its run was running: {AGAIN}")


def temp_prefix(folder: Path) -> str:
    """Prefix of this process's unfinished files of the run in ``folder``; empty if there is no run."""
    name = _name(folder)
    return f"{name}-{os.getpid()}" if name else ""


def _name(folder: Path) -> str:
    try:
        name = json.loads((folder / MARK).read_text())["id"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ""
    return name if isinstance(name, str) and name.isalnum() else ""
