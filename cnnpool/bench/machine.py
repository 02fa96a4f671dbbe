"""The machine that a benchmark runs on: how it is set up, and what is said of it."""

import ctypes
import datetime
import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from cnnpool import __version__

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3


def prepare(threads: int) -> None:
    """As in training: so many threads, and freed memory stays in the process (see docs/performance.md)."""
    torch.set_num_threads(threads)
    if sys.platform.startswith("linux"):
        try:
            mallopt = ctypes.CDLL("libc.so.6").mallopt
        except (OSError, AttributeError):
            return
        mallopt(M_MMAP_THRESHOLD, 1 << 30)
        mallopt(M_TRIM_THRESHOLD, 1 << 30)


def facts() -> dict[str, Any]:
    """Hardware, versions, commit and date, as a results file stores them."""
    names = ("torch", "numba", "timm")
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        **{name: _version(name) for name in names},
        "cnnpool": __version__,
        "commit": _commit(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _commit() -> str | None:
    root = Path(__file__).resolve().parents[2]
    command = ["git", "-C", str(root), "describe", "--always", "--abbrev=12", "--dirty", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()
