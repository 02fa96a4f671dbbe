"""What an examination leaves on disk: results.json, schema 1."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cnnpool.run_folder.atomic import write_json


def folder_of(out: str | None, name: str) -> Path:
    """The folder to write to, made if need be.

    Raises:
        ValueError: if it holds a training run, or cannot be made.
    """
    words = "".join(c if c.isalnum() or c in "._-" else "_" for c in name.strip("./"))
    folder = Path(out) if out else Path("outputs", "probe", words)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        held = folder / "results.json"
        if held.exists() and "examined" not in json.loads(held.read_text(encoding="utf-8")):
            raise ValueError(f"{folder} holds a run that was trained: choose another folder by --out")
    except OSError as error:
        raise ValueError(f"cannot write to {folder}: {error.strerror or error}") from None
    except json.JSONDecodeError:
        raise ValueError(f"{held} is damaged: delete it, or choose another folder by --out") from None
    return folder


def write(folder: Path, results: Mapping[str, Any]) -> Path:
    """Write results.json, which is either the old file or the whole new one.

    Raises:
        ValueError: if it cannot be written.
    """
    path = folder / "results.json"
    finished = datetime.now(UTC).isoformat(timespec="seconds")
    try:
        write_json(path, {**results, "finished": finished})
    except OSError as error:
        raise ValueError(f"cannot write {path}: {error.strerror or error}") from None
    return path
