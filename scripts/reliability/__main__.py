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
from collections.abc import Mapping
from datetime import UTC, datetime

import torch

from cnnpool.system.hardware import commit, processor
from scripts.docs.pages import DOCS, ROOT, filled, table
from scripts.reliability.faults import FAULTS

RESULTS = DOCS / "reliability.json"
ROOMS = ["fit", "data", "probe", "report", "choose", "readout", "pool", "run_folder", "launch", "system"]
ROOMS += ["lightning", "surgery"]
MEASUREMENTS = {
    "kills": [f"scripts/reliability/kill_test.py 10 {seed}" for seed in range(20)],
    "sweeps": [f"scripts/reliability/kill_test.py 10 {seed} local" for seed in range(2)],
    "processes": [f"scripts/reliability/kill_test.py 5 {seed} processes" for seed in range(2)],
    "bits": ["scripts/reliability/flip_bits.py 3000"],
    "files": [f"scripts/reliability/fuzz_files.py 300 {seed}" for seed in range(10)],
    "configuration": ["scripts/reliability/fuzz_configuration.py 1000"],
    "faults": [f"scripts/reliability/faults.py {part}/8" for part in range(8)],
    "same": ["scripts/reliability/same_against_same.py 200"],
    "mutants": [f"scripts/reliability/mutants.py {room}" for room in ROOMS],
}
KILLED = "`kill -9` at random instants of"
SWEEP_KILLED = (
    f"{KILLED} {{}}: files broken, restarts failed, jobs done twice, results that differ by a bit",
    "{broken files}, {failed restarts}, {done twice}, {different} of {kills} kills ({sweeps} sweeps)",
)
ROWS = {
    "kills": (
        f"{KILLED} a training: files broken, steps lost, restarts failed, results that differ by a bit",
        "{broken files}, {steps lost}, {failed restarts}, {different} of {kills} kills ({runs} runs)",
    ),
    "sweeps": (SWEEP_KILLED[0].format("a sweep in one process"), SWEEP_KILLED[1]),
    "processes": (SWEEP_KILLED[0].format("a sweep in several processes"), SWEEP_KILLED[1]),
    "bits": (
        "single bits flipped in a checkpoint and read with other content",
        "{read otherwise} of {bits} ({refused} refused, {read alike} read alike)",
    ),
    "files": (
        "a file below a log folder altered or replaced before `cnnpool compare` and the tab read it: "
        "crashes, hangs of 60 s, more than a line on a file, runs left out in silence",
        "{crashed}, {hung}, {more than a line}, {left out in silence} of {alterations:,} "
        "({told:,} named, {of no effect:,} of no effect)",
    ),
    "configuration": (
        "words of a command line altered: crashed, hung, more than one line that a terminal can show",
        "{crashed}, {hung}, {not one line} of {cases:,} ({refused:,} refused, {fine:,} fine)",
    ),
    "faults": (
        "faults answered by one line that names what and the remedy, the right status and no traceback "
        "([those still tried](faults.md))",
        "{answered} of {faults}",
    ),
    "same": (
        "an operator compared with itself: called better, worse; on the same seeds it differs from itself by",
        "{better}, {worse} of {comparisons} (chance allows {most that chance allows of either}); "
        "{difference from itself:g}",
    ),
    "mutants": (
        "a change of what the program means: noticed by the tests, by those of `make test` alone",
        "{noticed}, {noticed quickly} of {changes} ({noticed %:.0f}, {noticed quickly %:.0f} %)",
    ),
}
"""Measurement -> what it is, and the figures of its results."""
COUNTS = ("changes", "noticed", "noticed quickly")
FAULTS_PAGE = """\
# Faults and their messages

Tried with the real commands by `python scripts/reliability/faults.py`, and again by
`pytest tests/scripts/test_reliability.py`.
Options that make training quick are left out.
"""


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


def page(kept: Mapping[str, Mapping], text: str) -> str:
    """``text`` of docs/reliability.md with the table of what was measured."""
    rows = []
    for name, (figure, reached) in ROWS.items():
        if name in kept:
            found, parts = total(kept[name]), kept[name].values()
            if "changes" in found:
                found |= {f"{key} %": 100 * found[key] / found["changes"] for key in COUNTS}
            at = sorted({(one["commit"] or "")[:8] for one in parts}) + sorted({one["date"] for one in parts})
            command = f"`python scripts/reliability {name}`"
            rows.append((figure, reached.format_map(found), command, ", ".join(at)))
    shown = table(("figure", "reached", "command", "commit, date"), rows)
    if "mutants" in kept:
        rows = [
            (
                command.split()[1],
                *(str(one["result"][key]) for key in COUNTS),
                f"{one['commit'][:8]}, {one['date']}",
            )
            for command, one in kept["mutants"].items()
        ]
        counts = ("changes of meaning", "noticed", "noticed by `make test`")
        shown += f"\n\n{table(('room of the tests', *counts, 'commit, date'), rows)}"
    every = [one for parts in kept.values() for one in parts.values()]
    made = sorted({f"{one['processor']}, Python {one['python']}, torch {one['torch']}" for one in every})
    return filled(text, "measured", f"{shown}\n\nOne thread each, on: {'; '.join(made)}.")


def total(parts: Mapping[str, Mapping]) -> dict:
    """The results of a measurement's parts: numbers and lists added up, of all else the last."""
    results = [part["result"] for part in parts.values()]
    found = {key: value for result in results for key, value in result.items()}
    for key, value in found.items():
        if isinstance(value, int | list):
            found[key] = sum((result.get(key, type(value)()) for result in results), type(value)())
    return found


def faults(kept: Mapping[str, Mapping]) -> str:
    """docs/faults.md."""
    rows, tried = [], {fault.what for fault in FAULTS}
    for row in total(kept["faults"])["rows"]:
        if row["fault"] in tried:
            said = row["said"] or "(continues)"
            cells = (row["fault"], f"`cnnpool {row['command']}`", said, row["status"])
            rows.append([_cell(text) for text in cells])
    return f"{FAULTS_PAGE}\n{table(('fault', 'command', 'what the user sees', 'status'), rows)}\n"


def _cell(text: str, most: int = 300) -> str:
    flat = " / ".join(text.split("\n"))
    return flat if len(flat) <= most else f"{flat[:most]} ..."


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
