"""The machine that a benchmark runs on: how it is set up, and what is said of it."""

import datetime
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

from cnnpool import __version__
from cnnpool.machine import commit, keep_memory, processor


def prepare(threads: int) -> None:
    """As in training: so many threads, and freed memory stays in the process (see docs/performance.md)."""
    torch.set_num_threads(threads)
    keep_memory()


def facts() -> dict[str, Any]:
    """Hardware, versions, commit and date, as a results file stores them."""
    head, dirty = commit()
    names = ("torch", "numba", "timm", "antialiased-cnns")
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        **{name: _version(name) for name in names},
        "cnnpool": __version__,
        "commit": head and head[:12] + "-dirty" * bool(dirty),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
