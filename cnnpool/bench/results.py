"""Results files of benchmarks."""

import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cnnpool.system.atomic import write_text

if TYPE_CHECKING:
    import torch


def check_out(out: Path | None) -> None:
    """Raise ValueError if ``out`` cannot become a results file."""
    if out and not Path(os.path.realpath(out)).parent.is_dir():
        raise ValueError(f"--out {out}: no such folder")
    if out and out.exists() and not out.is_file():
        raise ValueError(f"--out {out}: not a file, which the results could replace")


def record(
    rows: Iterable[tuple[dict[str, Any], str]],
    suite: str,
    command: str,
    device: "torch.device",
    out: Path | None,
) -> None:
    """Print the lines of ``rows`` and write the rows to ``out``, each as soon as it is measured.

    Args:
        rows: measured lazily, each with its line for the terminal.
        suite: its name.
        command: the command that measures.
        device: where it measures.
        out: file for the results, in JSON.

    Raises:
        ValueError: if ``out`` cannot be written.
    """
    from cnnpool.bench import machine

    kept = []
    for row, line in rows:
        kept.append(row)
        sys.stdout.write(line)
        sys.stdout.flush()
        if out:
            _write(
                out,
                {
                    "schema": 1,
                    "suite": suite,
                    "command": command,
                    "machine": machine.facts(device),
                    "rows": kept,
                },
            )
    if out:
        sys.stdout.write(f"wrote {out}\n")


def _write(out: Path, results: dict[str, Any]) -> None:
    try:
        write_text(Path(os.path.realpath(out)), json.dumps(results, indent=1) + "\n")
    except OSError as error:
        raise ValueError(f"--out {out}: {error.strerror}") from None
