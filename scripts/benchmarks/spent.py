"""Seconds and memory of a Python command, in a process of its own."""

import json
import subprocess
import sys
from pathlib import Path

from scripts.benchmarks.start import environment

WATCH = """
import json
import resource
import subprocess
import sys
import time

begun = time.perf_counter()
status = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL)
# Linux counts in KiB.
memory = 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(json.dumps([time.perf_counter() - begun, memory]))
sys.exit(status)
"""
"""A small process between, since a process counts in its own what its parent had when it began."""


def spent(command: list[str], folder: Path) -> tuple[float, int]:
    """(seconds, most bytes resident) of a Python command in ``folder``.

    Raises:
        subprocess.CalledProcessError: if it fails.
    """
    watched = [sys.executable, "-c", WATCH, sys.executable, *command]
    done = subprocess.run(
        watched, cwd=folder, env=environment(), check=True, stdout=subprocess.PIPE, text=True
    )
    seconds, memory = json.loads(done.stdout)
    return seconds, memory
