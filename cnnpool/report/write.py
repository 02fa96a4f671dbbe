"""The report's files: ``write`` puts them into one folder, each whole or not at all."""

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from cnnpool import tables
from cnnpool.report import render
from cnnpool.report.columns import records, runs
from cnnpool.report.comparison import Comparison
from cnnpool.report.document import compose
from cnnpool.report.plots import Plot
from cnnpool.run_folder.errors import DamagedError
from cnnpool.run_folder.reading import read_json
from cnnpool.system.atomic import write_bytes

NUMBERS = "table.json"
"""Is written first, and says that a folder is a report's."""
COMMAND = ["cnnpool", "compare"]
LONGEST = 1 << 26


def write(comparison: Comparison, folder: Path, argv: Sequence[str], plots: Sequence[Plot]) -> None:
    """Write report.md, report.html, tables, the numbers of every run and ``plots`` as PNG and SVG.

    Raises:
        ValueError: if the folder cannot be written.
    """
    title, blocks = compose(comparison, plots, argv)
    files: dict[str, bytes | str] = {
        NUMBERS: _json(comparison, argv),
        "report.md": render.markdown(title, blocks),
        "report.html": render.html(title, blocks),
        "table.csv": tables.csv(records(comparison)),
        "runs.csv": tables.csv(runs(comparison)),
        "table.tex": render.latex(comparison),
    }
    for plot in plots:
        files |= {f"{plot.name}.png": plot.png, f"{plot.name}.svg": plot.svg}
    put(files, folder)


def refuse_foreign(folder: Path) -> None:
    """Raise unless ``folder`` is missing, empty, or holds a report of ``cnnpool compare``.

    Raises:
        ValueError: naming what it holds.
    """
    try:
        with suppress(FileNotFoundError):
            names = sorted(os.listdir(folder))
            if names and not _is_report(folder):
                more = f" and {len(names) - 1} more" if len(names) > 1 else ""
                raise ValueError(
                    f"--out {folder} holds files that are no report of cnnpool ({names[0]}{more}): "
                    "choose a new or empty folder with --out"
                )
    except OSError as error:
        raise _unwritable(folder, error) from error


def _is_report(folder: Path) -> bool:
    def checked(content: object) -> bool:
        return isinstance(content, dict) and (content.get("command") or [])[:2] == COMMAND

    try:
        return bool(read_json(folder / NUMBERS, checked, most=LONGEST))
    except (DamagedError, TypeError):
        return False


def put(files: Mapping[str, bytes | str], folder: Path) -> None:
    """Write ``files``, name -> content, each whole or not at all.

    Names that are not UTF-8, of folders for example, stand in a text as escapes.

    Raises:
        ValueError: if the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            data = content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
            write_bytes(folder / name, data, flush=False)
    except OSError as error:
        raise _unwritable(folder, error) from error


def _unwritable(folder: Path, error: OSError) -> ValueError:
    return ValueError(f"--out {folder} cannot be written: {error.strerror}; choose another with --out")


def _json(comparison: Comparison, argv: Sequence[str]) -> str:
    content = {
        "schema": 1,
        "command": [*COMMAND, *argv],
        "metric": comparison.metric.key,
        "by": comparison.by,
        "baseline": comparison.baseline.choice.label,
        "choices": [
            record
            | {"values": {str(seed): None if value != value else value for seed, value in row.values.items()}}
            for record, row in zip(records(comparison), comparison.rows, strict=True)
        ],
        "notes": comparison.notes,
        "runs": [
            {"folder": str(run.folder), "state": run.state, "reason": run.reason} for run in comparison.runs
        ],
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"
