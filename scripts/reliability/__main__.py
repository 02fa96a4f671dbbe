"""Measure what docs/reliability.md says, and write it.

usage: python scripts/reliability [NAME [PART]]

Runs a measurement, or one of its parts (0, 1, ...), or all; keeps each result in docs/reliability.json with
its command, commit and machine, and writes docs/reliability.md and docs/faults.md; with - for NAME only that.
"""

import json
import os
import shlex
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import torch

from cnnpool.system.hardware import commit, processor
from scripts.reliability.page import faults, page

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
RESULTS = DOCS / "reliability.json"
MEASUREMENTS = {
    "kills": [f"scripts/reliability/kill_test.py 10 {seed}" for seed in range(20)],
    "sweeps": [f"scripts/reliability/kill_sweep.py 10 local {seed}" for seed in range(2)],
    "processes": [f"scripts/reliability/kill_sweep.py 5 processes {seed}" for seed in range(2)],
    "bits": ["scripts/reliability/flip_bits.py 3000"],
    "files": [f"scripts/reliability/fuzz_files.py 300 {seed}" for seed in range(10)],
    "configuration": ["scripts/reliability/fuzz_configuration.py 1000"],
    "faults": [f"scripts/reliability/faults.py {part}/8" for part in range(8)],
    "same": ["scripts/reliability/same_against_same.py 200"],
}


def main(arguments: list[str]) -> int:
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    names = [] if arguments[:1] == ["-"] else arguments[:1] or list(MEASUREMENTS)
    if unknown := set(names) - set(MEASUREMENTS):
        sys.exit(f"no measurement {', '.join(unknown)}; choose from {', '.join(MEASUREMENTS)}")
    failed = False
    for name in names:
        for command in [MEASUREMENTS[name][int(part)] for part in arguments[1:]] or MEASUREMENTS[name]:
            found = measured(command)
            failed |= found["status"] != 0
            kept.setdefault(name, {})[command] = found
            RESULTS.write_text(json.dumps(kept, indent=1) + "\n")
    path = DOCS / "reliability.md"
    path.write_text(page(kept, path.read_text()))
    if "faults" in kept:
        (DOCS / "faults.md").write_text(faults(kept))
    return int(failed)


def measured(command: str) -> dict:
    """The last output of ``command``, and the versions it ran with."""
    begun = time.monotonic()
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *shlex.split(command)], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
    )
    lines = done.stdout.strip().splitlines()
    if not lines:
        sys.exit(f"{command} printed nothing, with status {done.returncode}; earlier measurements are kept")
    return {
        "status": done.returncode,
        "result": json.loads(lines[-1]),
        "seconds": round(time.monotonic() - begun),
        "date": datetime.now(UTC).date().isoformat(),
        "commit": commit()[0],
        "python": ".".join(map(str, sys.version_info[:3])),
        "torch": torch.__version__,
        "processor": processor(),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
