"""A sweep in one process: the time of each run's end and the process's memory then."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from scripts.benchmarks.start import environment

RUNS = 64
ENDS = "test accuracy"
"""How a run's last line begins."""
NAME = "sweep in one process"


def rows(runs: int = RUNS) -> Iterator[dict[str, Any]]:
    """Points at 1, 2, 4, ... runs: seconds since the start, and bytes resident. The kernel is Linux."""
    command = [sys.executable, "-u", "-m", "cnnpool", "train", "-m", "probe=none", "fit.pictures=false"]
    command += ["data.limit=300", "model.width=4", "fit.epochs=1", f"seed=range(0,{runs})"]
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(
            command,
            cwd=folder,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as sweep,
    ):
        yield from points(sweep.stdout, lambda: resident(sweep.pid))


def points(lines: Iterable[str], memory: Callable[[], int]) -> Iterator[dict[str, Any]]:
    """The part to keep of a sweep that prints ``lines``: powers of two of the runs that have ended."""
    start, ended = time.perf_counter(), 0
    for line in lines:
        ended += line.startswith(ENDS)
        if line.startswith(ENDS) and ended.bit_count() == 1:
            seconds = time.perf_counter() - start
            yield {"operator": NAME, "axis": "runs", "value": ended, "seconds": seconds, "kept": memory()}


def resident(pid: int) -> int:
    """Bytes of physical memory that a process holds."""
    status = Path(f"/proc/{pid}/status").read_text()
    return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
