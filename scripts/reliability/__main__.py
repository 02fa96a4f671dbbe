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
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import torch

from cnnpool import tables
from cnnpool.system.hardware import commit, processor
from scripts.reliability.faults import FAULTS

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
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
ROWS: dict[str, Callable[[Mapping], tuple[str, str]]] = {
    "kills": lambda r: (
        "`kill -9` at random instants of a training: files broken, steps lost, restarts failed, "
        "results that differ by a bit",
        f"{r['broken files']}, {r['steps lost']}, {r['failed restarts']}, {r['different']} "
        f"of {r['kills']} kills ({r['runs']} runs)",
    ),
    "sweeps": lambda r: _sweep("a sweep in one process", r),
    "processes": lambda r: _sweep("a sweep in several processes", r),
    "bits": lambda r: (
        "single bits flipped in a checkpoint and read with other content",
        f"{r['read otherwise']} of {r['bits']} ({r['refused']} refused, {r['read alike']} read alike)",
    ),
    "files": lambda r: (
        "a file below a log folder altered or replaced before `cnnpool compare` and the tab read it: "
        "crashes, hangs of 60 s, more than a line on a file, runs left out in silence",
        f"{r['crashed']}, {r['hung']}, {r['more than a line']}, {r['left out in silence']} of "
        f"{r['alterations']:,} ({r['told']:,} named, {r['of no effect']:,} of no effect)",
    ),
    "configuration": lambda r: (
        "words of a command line altered: crashed, hung, more than one line that a terminal can show",
        f"{r['crashed']}, {r['hung']}, {r['not one line'] + r['unprintable']} of {r['cases']:,} "
        f"({r['refused']:,} refused, {r['fine']:,} fine)",
    ),
    "faults": lambda r: (
        "faults answered by one line that names what and the remedy, the right status and no traceback "
        "([those still tried](faults.md))",
        f"{r['answered']} of {r['faults']}",
    ),
    "same": lambda r: (
        "an operator compared with itself: called better, worse; on the same seeds it differs from itself by",
        f"{r['better']}, {r['worse']} of {r['comparisons']} (chance allows "
        f"{r['most that chance allows of either']}); {r['difference from itself']:g}",
    ),
    "mutants": lambda r: (
        "a change of what the program means: noticed by the tests, by those of `make test` alone",
        f"{r['noticed']}, {r['noticed quickly']} of {r['changes']} "
        f"({_share(r, 'noticed')}, {_share(r, 'noticed quickly')} %)",
    ),
}
COUNTS = ("changes", "noticed", "noticed quickly")
START, END = "<!-- measured: begin -->", "<!-- measured: end -->"
"""Lines of docs/reliability.md between which the table is written."""


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


def _sweep(what: str, r: Mapping) -> tuple[str, str]:
    return (
        f"`kill -9` at random instants of {what}: files broken, restarts failed, jobs done twice, "
        "results that differ by a bit",
        f"{r['broken files']}, {r['failed restarts']}, {r['done twice']}, {r['different']} "
        f"of {r['kills']} kills ({r['sweeps']} sweeps)",
    )


def _share(r: Mapping, what: str) -> str:
    return f"{100 * r[what] / r['changes']:.0f}"


def page(kept: Mapping[str, Mapping], text: str) -> str:
    """``text`` of docs/reliability.md with the table of what was measured."""
    rows = []
    for name, row in ROWS.items():
        if name in kept:
            figure, reached = row(total(kept[name]))
            parts = kept[name].values()
            commits = sorted({(one["commit"] or "")[:8] for one in parts})
            at = ", ".join([*commits, *sorted({one["date"] for one in parts})])
            rows.append((figure, reached, f"`python scripts/reliability {name}`", at))
    every = [one for parts in kept.values() for one in parts.values()]
    made = sorted({f"{one['processor']}, Python {one['python']}, torch {one['torch']}" for one in every})
    table = _table(("figure", "reached", "command", "commit, date"), rows)
    if "mutants" in kept:
        rows = [
            (
                command.split()[1],
                *(str(one["result"][key]) for key in COUNTS),
                f"{one['commit'][:8]}, {one['date']}",
            )
            for command, one in kept["mutants"].items()
        ]
        headers = (
            "room of the tests",
            "changes of meaning",
            "noticed",
            "noticed by `make test`",
            "commit, date",
        )
        table += f"\n\n{_table(headers, rows)}"
    before, after = text.split(START)[0], text.split(END)[1]
    return f"{before}{START}\n\n{table}\n\nOne thread each, on: {'; '.join(made)}.\n\n{END}{after}"


def total(parts: Mapping[str, Mapping]) -> dict:
    """The results of a measurement's parts, added up."""
    results = [part["result"] for part in parts.values()]
    found = {key: value for result in results for key, value in result.items()}
    for key, value in found.items():
        if isinstance(value, int):
            found[key] = sum(result.get(key, 0) for result in results)
        elif isinstance(value, list):
            found[key] = [each for result in results for each in result.get(key, [])]
    return found


def faults(kept: Mapping[str, Mapping]) -> str:
    """docs/faults.md."""
    lines = [
        "# Faults and their messages",
        "",
        "Tried with the real commands by `python scripts/reliability/faults.py`, and again by",
        "`pytest tests/scripts/test_reliability.py`.",
        "Options that make training quick are left out.",
        "",
    ]
    rows, tried = [], {fault.what for fault in FAULTS}
    for row in total(kept["faults"])["rows"]:
        if row["fault"] not in tried:
            continue
        said = row["said"] or "(continues)"
        cells = (row["fault"], f"`cnnpool {row['command']}`", said, row["status"])
        rows.append([_cell(text) for text in cells])
    table = _table(("fault", "command", "what the user sees", "status"), rows)
    return "\n".join([*lines, table]) + "\n"


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return tables.markdown(tables.from_rows(headers, rows), markup=True)


def _cell(text: str, most: int = 300) -> str:
    flat = " / ".join(text.split("\n"))
    return flat if len(flat) <= most else f"{flat[:most]} ..."


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
