"""Run folders on disk: ``find`` them, with their state; ``curve`` reads one scalar's history."""

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SCHEMA = 1
NAMED = ("pool", "readout", "model", "data")
MEANS = "_mean"
"""The folder beside runs that holds what TensorBoard shows of their comparison."""


@dataclass(frozen=True)
class Run:
    """One run folder: ``results`` is empty unless ``state`` is done; ``reason`` says why it is not."""

    folder: Path
    state: str
    """done, failed, running, unfinished or damaged."""
    reason: str = ""
    results: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def seed(self) -> int:
        return self.results["seed"]


def find(paths: Iterable[str | os.PathLike]) -> list[Run]:
    """Every run folder at or under ``paths``, each once, in the order in which they lie there.

    Raises:
        ValueError: if a path does not exist or is no folder, or no run is found.
    """
    roots = [Path(path) for path in paths]
    for root in roots:
        if not root.exists():
            raise ValueError(f"{root} does not exist")
        if not root.is_dir():
            raise ValueError(f"{root} is not a folder: give the run's folder or one above it")
    folders = {folder.resolve(): folder for root in roots for folder in _folders(root)}
    if not folders:
        raise ValueError(
            f"no run found under {', '.join(map(str, roots))}: a run's folder holds results.json"
        )
    return [_read(folder) for folder in folders.values()]


def finished(runs: Iterable[Run]) -> list[Run]:
    """The runs that are done.

    Raises:
        ValueError: if a results.json is damaged (naming the file) or no run is done.
    """
    runs = list(runs)
    for run in runs:
        if run.state == "damaged":
            raise ValueError(run.reason)
    done = [run for run in runs if run.state == "done"]
    if not done:
        states = sorted({run.state for run in runs})
        counts = ", ".join(f"{sum(run.state == state for run in runs)} {state}" for state in states)
        raise ValueError(f"no finished run among {len(runs)} ({counts}): --status lists them")
    return done


def curve(run: Run, tag: str) -> dict[int, float]:
    """Epoch -> the last value of ``tag`` logged in it, from metrics.jsonl; empty if there is none."""
    values: dict[int, float] = {}
    for record in records(run):
        if is_number(record.get(tag)) and isinstance(record.get("epoch"), int):
            values[record["epoch"]] = float(record[tag])
    return dict(sorted(values.items()))


def records(run: Run) -> Iterator[dict[str, Any]]:
    """The lines of metrics.jsonl, without those that are no JSON object: a killed run leaves half a line."""
    try:
        lines = (run.folder / "metrics.jsonl").read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict):
            yield record


def is_number(value: Any) -> bool:
    """True for int and float, NaN included; False for bool."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _folders(root: Path) -> Iterable[Path]:
    for folder, below, files in os.walk(root):
        marks = {"results.json", "metrics.jsonl", "status.json"} & set(files)
        if marks or Path(folder, ".hydra", "config.yaml").is_file():
            yield Path(folder)
        below[:] = sorted(name for name in below if not name.startswith(".") and name != MEANS)


def _read(folder: Path) -> Run:
    path = folder / "results.json"
    if path.exists():
        try:
            results = json.loads(path.read_text("utf-8"))
            _validate(results)
        except (OSError, ValueError, RecursionError) as error:
            return Run(folder, "damaged", f"{path} is damaged: {error}; run the training again")
        return Run(folder, "done", results=results)
    try:
        status = json.loads((folder / "status.json").read_text("utf-8"))
        state, reason = status.get("state"), str(status.get("error") or "")
    except (OSError, ValueError, AttributeError):
        state, reason = None, ""
    if state in ("failed", "running"):
        return Run(folder, state, reason)
    return Run(folder, "unfinished", reason or "no results.json")


def _validate(results: Any) -> None:
    if not isinstance(results, dict):
        raise ValueError("not a JSON object")
    if results.get("schema") != SCHEMA:
        raise ValueError(f"schema {results.get('schema')!r} where this version reads {SCHEMA}")
    for key in NAMED:
        if not isinstance(results.get(key), dict) or not isinstance(results[key].get("name"), str):
            raise ValueError(f"{key} has no name")
    if not isinstance(results.get("seed"), int) or isinstance(results["seed"], bool):
        raise ValueError("seed is not a whole number")
    for key in ("test", "val", "stages", "fit", "gradient", "invariance", "cost", "environment"):
        if not isinstance(results.get(key, {}), dict):
            raise ValueError(f"{key} is not a JSON object")
    if not isinstance(results.get("overrides", []), list):
        raise ValueError("overrides is not a list")
