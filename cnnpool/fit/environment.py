"""What a result was made with."""

import platform
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from cnnpool import __version__


def environment(device: torch.device) -> dict[str, Any]:
    """Versions, commit, device and threads, as results.json stores them."""
    commit, dirty = _commit()
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "lightning": version("lightning"),
        "cnnpool": __version__,
        "commit": commit,
        "dirty": dirty,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else _processor(),
        "threads": torch.get_num_threads(),
    }


def _commit() -> tuple[str | None, bool | None]:
    """The checkout's commit, and whether files differ from it; nothing where cnnpool runs from a wheel."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None, None
    try:
        head = _git(root, "rev-parse", "HEAD")
        return head, bool(_git(root, "status", "--porcelain", "--untracked-files=no"))
    except (OSError, subprocess.SubprocessError):
        return None, None


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
