"""What an examination leaves on disk: results.json, schema 1."""

import json
import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from cnnpool import __version__


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


def environment(device: torch.device) -> dict[str, Any]:
    """What the results were made with."""
    on = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cnnpool": __version__,
        "device": on,
        "threads": torch.get_num_threads(),
    }


def write(folder: Path, results: Mapping[str, Any]) -> Path:
    """Write results.json, which is either the old file or the whole new one.

    Raises:
        ValueError: if it cannot be written.
    """
    path, part = folder / "results.json", folder / ".results.json.part"
    finished = datetime.now(UTC).isoformat(timespec="seconds")
    try:
        with part.open("w", encoding="utf-8") as file:
            file.write(json.dumps({**results, "finished": finished}, indent=2, allow_nan=False) + "\n")
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        raise ValueError(f"cannot write {path}: {error.strerror or error}") from None
    return path
