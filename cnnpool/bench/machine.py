"""The machine that runs a benchmark: its set-up and its description."""

import datetime
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

from cnnpool import __version__
from cnnpool.system.hardware import commit, keep_memory, processor, usable


def prepare(threads: int | None, device: str, *, plain: bool = False) -> torch.device:
    """Set up ``device``, current if it is a GPU, with ``threads`` torch threads; None: torch's default.

    As in training, freed memory stays in the process (see docs/performance.md), unless ``plain``.

    Raises:
        ValueError: if the device does not exist.
    """
    chosen = usable(device)
    if chosen.type == "cuda":
        torch.cuda.set_device(chosen)
    if threads is not None:
        torch.set_num_threads(threads)
    if not plain:
        keep_memory()
    return chosen


def facts(device: torch.device) -> dict[str, Any]:
    """Hardware, versions, commit and date, as in a results file; the GPU only if it was used."""
    head, dirty = commit()
    names = ("torch", "numba", "timm", "antialiased-cnns")
    gpu: dict[str, str | None] = {}
    if device.type == "cuda":
        gpu["gpu"] = torch.cuda.get_device_name(device)
        gpu |= {"cuda": torch.version.cuda, "triton": _version("triton")}
    return {
        **gpu,
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
