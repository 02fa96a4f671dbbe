"""Measure what docs/reliability.md says, and write it.

usage: python scripts/reliability.py [NAME...]

Runs the named measurements (default: all; --write: none, only the pages are written), keeps
each result in docs/reliability.json with its command, commit and machine, and writes docs/reliability.md and
docs/faults.md.
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
from reliability_page import faults, page

from cnnpool.machine import commit, processor

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
RESULTS = DOCS / "reliability.json"
MEASUREMENTS = {
    "kills": "scripts/kill_test.py 100",
    "sweeps": "scripts/kill_sweep.py 20 local",
    "processes": "scripts/kill_sweep.py 10 processes",
    "bits": "scripts/flip_bits.py 3000",
    "faults": "scripts/faults.py",
    "peers": "scripts/count_checks.py tests/pool/test_opinfo.py",
    "operators": "scripts/count_checks.py tests/pool tests/readout",
    "mutants": "scripts/mutants.py",
    "same": "scripts/same_against_same.py 200",
}


def main(arguments: list[str]) -> int:
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    names = [] if arguments == ["--write"] else arguments or list(MEASUREMENTS)
    if unknown := set(names) - set(MEASUREMENTS):
        sys.exit(f"no measurement {', '.join(unknown)}; choose from {', '.join(MEASUREMENTS)}")
    for name in names:
        kept[name] = measured(MEASUREMENTS[name])
        RESULTS.write_text(json.dumps(kept, indent=1) + "\n")
    (DOCS / "reliability.md").write_text(page(kept))
    if "faults" in kept:
        (DOCS / "faults.md").write_text(faults(kept))
    return int(any(kept[name]["status"] for name in names))


def measured(command: str) -> dict:
    """What ``command`` printed last, and what it was run with."""
    begun = time.monotonic()
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *shlex.split(command)], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
    )
    return {
        "command": f"python {command}",
        "status": done.returncode,
        "result": json.loads(done.stdout.strip().splitlines()[-1]),
        "seconds": round(time.monotonic() - begun),
        "date": datetime.now(UTC).date().isoformat(),
        "commit": commit()[0],
        "python": ".".join(map(str, sys.version_info[:3])),
        "torch": torch.__version__,
        "processor": processor(),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
