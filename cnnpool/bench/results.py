"""Results of benchmarks, as a file and as a table in the terminal."""

import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cnnpool import tables
from cnnpool.system.atomic import write_text

if TYPE_CHECKING:
    import torch

Row = dict[str, Any]
WIDTHS, WORDS = (14, 16, 13, 8, 8, 8, 6, 11, 7, 10, 11, 8), {0, 1, 2, 3, 7}
NAMES = ("operator", "shape", "layout", "dtype", "ours ms", "rival ms", "faster", "quartiles", "bound")


def check_out(out: Path | None) -> None:
    """Raise ValueError if ``out`` cannot become a results file."""
    if out and not Path(os.path.realpath(out)).parent.is_dir():
        raise ValueError(f"--out {out}: no such folder")
    if out and out.exists() and not out.is_file():
        raise ValueError(f"--out {out}: not a file that the results could replace")


def record(
    rows: Iterable[tuple[dict[str, Any], str]],
    suite: str,
    command: str,
    device: "torch.device",
    out: Path | None,
) -> None:
    """Print the line of each of ``rows``, and write the rows to ``out`` as JSON as they are measured."""
    from cnnpool.bench import measure

    kept = []
    for row, line in rows:
        kept.append(row)
        sys.stdout.write(line)
        sys.stdout.flush()
        if out:
            head = {"schema": 1, "suite": suite, "command": command}
            results = {**head, "machine": measure.facts(device), "rows": kept}
            try:
                write_text(Path(os.path.realpath(out)), json.dumps(results, indent=1) + "\n")
            except OSError as error:
                raise ValueError(f"--out {out}: {error.strerror}") from None
    if out:
        sys.stdout.write(f"wrote {out}\n")


def header(gpu: bool = False) -> str:
    return tables.line((*NAMES, "kept", "rival keeps", "replayed" * gpu), WIDTHS, WORDS)


def line(row: Row) -> str:
    case = (row["operator"], shape(row), row["layout"], row["dtype"])
    if "missing" in row:
        return f"{row['operator']}: not measured: {row['missing']}\n"
    speed, ms = row["speedup"], row["ms"]
    again = row.get("replayed")
    figures = (
        f"{ms['ours']:.3f}",
        f"{ms['rival']:.3f}",
        f"{speed['median']:.2f}x",
        f"[{speed['q1']:.2f} {speed['q3']:.2f}]",
        f"{row['over_bound']['median']:.1f}x",
        *(count(row, who) for who in ("ours", "rival")),
        f"{again['speedup']['median']:.2f}x" if again else "-" * ("replayed" in row),
    )
    return tables.line((*case, *figures), WIDTHS, WORDS)


def shape(row: Row) -> str:
    return "x".join(map(str, row["shape"]))


def count(row: Row, who: str) -> str:
    kept = row["kept"][who]
    for unit, size in (("MB", 1e6), ("kB", 1e3)):
        if kept >= size:
            return f"{kept / size:.1f} {unit}"
    return f"{kept} B"
