"""The suite of starting: from the command to an answer, in processes of their own."""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from cnnpool.bench.figures import row
from cnnpool.bench.measure import ratio

COMMANDS = {
    "cnnpool --help": (["--help"], "0.3 s"),
    "cnnpool train --help": (["train", "--help"], "0.7 s"),
    "an unknown choice": (["train", "pool=nonsense"], "0.7 s"),
    "a value out of range": (["train", "fit.lr=-1"], "0.7 s"),
    "a run of one step, to its end": (["train", "fit=smoke", "fit.max_steps=1", "probe=none"], "3.0 s"),
}


def rows(repeat: int) -> Iterator[dict[str, Any]]:
    """Seconds of every command, beside those of a process that imports torch and ends."""
    for title, (arguments, wanted) in COMMANDS.items():
        ours, torch = [], []
        for _ in range(repeat):
            ours.append(seconds(["-m", "cnnpool", *arguments]))
            torch.append(seconds(["-c", "import torch"]))
        figures = statistics.median(ours), statistics.median(torch)
        yield row(title, "s", *figures, "import torch", ratio(ours, torch), f"at most {wanted}")


def seconds(arguments: Sequence[str]) -> float:
    """Wall time of one Python process in an empty folder."""
    package = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH"))))
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        subprocess.run(
            [sys.executable, *arguments],
            cwd=folder,
            env=environment | {"PYTHONPATH": path},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        return time.perf_counter() - start
