"""The report's files: ``write`` puts them into one folder, each whole or not at all."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from cnnpool import tables
from cnnpool.report import html, latex, markdown
from cnnpool.report.columns import records, runs
from cnnpool.report.comparison import Comparison
from cnnpool.report.document import compose
from cnnpool.report.plots import NAMES, Plot
from cnnpool.system.atomic import write_bytes


def write(comparison: Comparison, folder: Path, argv: Sequence[str], plots: Sequence[Plot]) -> None:
    """Write report.md, report.html, tables, the numbers of every run and ``plots`` as PNG and SVG.

    Figures of an earlier report that this comparison does not have are removed.

    Raises:
        ValueError: if the folder cannot be written.
    """
    title, blocks = compose(comparison, plots, argv)
    files = {
        "report.md": markdown.render(title, blocks).encode(),
        "report.html": html.render(title, blocks).encode(),
        "table.csv": tables.csv(records(comparison)).encode(),
        "runs.csv": tables.csv(runs(comparison)).encode(),
        "table.tex": latex.render(comparison).encode(),
        "table.json": _json(comparison, argv).encode(),
    }
    for plot in plots:
        files |= {f"{plot.name}.png": plot.png, f"{plot.name}.svg": plot.svg}
    put(files, folder)
    for stale in {f"{name}.{kind}" for name in NAMES for kind in ("png", "svg")} - files.keys():
        (folder / stale).unlink(missing_ok=True)


def put(files: Mapping[str, bytes], folder: Path) -> None:
    """Write ``files``, name -> content, each whole or not at all.

    Raises:
        ValueError: if the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            write_bytes(folder / name, content, flush=False)
    except OSError as error:
        raise ValueError(
            f"--out {folder} cannot be written: {error.strerror}; choose another with --out"
        ) from error


def _json(comparison: Comparison, argv: Sequence[str]) -> str:
    content = {
        "schema": 1,
        "command": ["cnnpool", "compare", *argv],
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
