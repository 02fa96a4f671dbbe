"""The results.json of an examination, in the form of a run's."""

import dataclasses
from datetime import UTC, datetime
from pathlib import Path

from cnnpool.run_folder import results
from cnnpool.run_folder.errors import DamagedError
from cnnpool.run_folder.results import Results

LONGEST = 100
"""Characters of a folder's name."""


def folder_of(out: str | None, name: str) -> Path:
    """The folder to write to, made if need be.

    Raises:
        ValueError: if it holds a training run, or cannot be made.
    """
    folder = Path(out) if out else Path("outputs", "probe", word(name.strip("./")))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        held = results.read(folder)
    except OSError as error:
        raise ValueError(f"cannot write to {folder}: {error.strerror or error}") from None
    except DamagedError as error:
        raise ValueError(f"{error}; delete it, or choose another folder by --out") from None
    if held and not held.examined:
        raise ValueError(f"{folder} holds a run that was trained: choose another folder by --out")
    return folder


def word(text: str) -> str:
    """``text`` as a folder's name, other characters than letters, digits and a few marks replaced."""
    return "".join(c if c.isalnum() or c in "._-+=" else "_" for c in text)[:LONGEST]


def write(folder: Path, found: Results) -> Path:
    """Write results.json, which is either the old file or the whole new one.

    Raises:
        ValueError: if it cannot be written.
    """
    finished = datetime.now(UTC).isoformat(timespec="seconds")
    try:
        return results.write(folder, dataclasses.replace(found, finished=finished))
    except OSError as error:
        raise ValueError(f"cannot write {error.filename}: {error.strerror or error}") from None
