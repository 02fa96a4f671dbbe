"""Scalars logged by other programs: event files, CSV files, the local folders of MLflow and W&B."""

import csv
import io
import math
from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cnnpool.json_text import flat
from cnnpool.run_folder.errors import DamagedError
from cnnpool.run_folder.reading import damaged, read_bytes, read_json, read_yaml, regular

META, SUMMARY, HPARAMS = "meta.yaml", "wandb-summary.json", "hparams.yaml"
WHOLE = ([META], [SUMMARY])
"""Files that mark a run of MLflow or W&B; the folders below it are not runs of their own."""
STEPS = ("step", "global_step", "trainer/global_step", "_step", "epoch", "iteration", "iter")
"""Columns with the step of a row; the first one present is used."""
SEEDS = ("seed", "random_seed", "random_state")  # Columns and parameters with the seed of a run
GROUPS = ("group", "choice", "model", "method", "algorithm", "name")
"""Columns that name a group; the first one present is used."""
MLFLOW = {1: "running", 2: "not begun", 4: "failed", 5: "killed"}  # Unfinished runs in its meta.yaml
HALVES = ("train", "validation", "val", "valid", "test", "eval")
"""Folders of one run's event files, as written by Keras; they become a part of the tag."""
FRAME = 16  # Bytes of an event file around each record
Files = tuple[Path, Path, Sequence[str]]
"""The requested folder, a folder below it, and the names of its files that contain scalars."""
Points = dict[str, dict[int, tuple[float, float]]]  # Tag -> step -> time and value
Series = tuple["array[int]", "array[float]"]  # Sorted steps, and the value at each


@dataclass(frozen=True)
class Log:
    """One training logged by another program: the wanted tags, and its parameters or columns.

    ``by`` are the keys that form a group, if a table has them; ``named`` says whether the path may form one.
    """

    path: Path
    series: Mapping[str, Series] = field(repr=False, default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    by: Sequence[str] = ()
    named: bool = True
    problem: str = ""
    state: str = "done"


def log_files(files: Iterable[str], below: Collection[str]) -> list[str]:
    """The names in ``files`` that contain scalars; for a run of MLflow or W&B the one that marks it."""
    names = sorted(files)
    if META in names:
        return [META] * ("metrics" in below)
    if SUMMARY in names:
        return [SUMMARY]
    return [name for name in names if is_log(name)]


def is_log(name: str) -> bool:
    return name.endswith(".csv") or ("tfevents" in name and not name.endswith(".profile-empty"))


def read(folder: Path, files: Sequence[str], wanted: Collection[str] | None = None) -> list[Log]:
    """Read the ``wanted`` tags of the logs in ``folder``, None for all; damaged logs with their reason."""
    if files in WHOLE:
        try:
            return [(_mlflow if files == [META] else _wandb)(folder, wanted)]
        except DamagedError as error:
            return [Log(folder, problem=str(error), state="damaged")]
    # Event files and a single CSV with steps are one run; other CSV files are one run each, or one per row.
    points: Points = {}
    prefix, home = "", folder
    if folder.name in HALVES and any("tfevents" in name for name in files):
        prefix, home = f"{folder.name}/", folder.parent
    tables = [_table(folder / name) for name in files if name.endswith(".csv")]
    events = [name for name in files if not name.endswith(".csv")]
    problems = [_events(folder / name, wanted, prefix, points) for name in events]
    curves = [one for one in tables if one.column(STEPS) and not one.column(SEEDS)]
    if len(curves) == 1:
        _rows(curves[0], curves[0].rows, wanted, points)
        problems.append(curves[0].problem)
        tables.remove(curves[0])
    logs = []
    if points or any(problems) or len(tables) < len(files):
        logs.append(_log(home, points, _parameters(home / HPARAMS), "; ".join(filter(None, problems))))
    return logs + [log for one in tables for log in _logs(one, wanted)]


def _log(
    path: Path,
    points: Points,
    settings: Mapping[str, str],
    problem: str = "",
    *,
    by: Sequence[str] = (),
    named: bool = True,
) -> Log:
    series: dict[str, Series] = {}
    for tag, own in points.items():
        steps = sorted(own)
        series[tag] = array("q", steps), array("d", [own[step][1] for step in steps])
    return Log(path, series, settings, by, named, problem, "done" if series or not problem else "damaged")


def _keep(points: Points, tag: str, step: int, at: float, value: float) -> None:
    """Add a point; if a step was logged twice, as by a resumed run, the last value counts."""
    if abs(step) < 2**63 and not points.get(tag, {}).get(step, (at,))[0] > at:
        points.setdefault(tag, {})[step] = at, value


def _events(path: Path, wanted: Collection[str] | None, prefix: str, points: Points) -> str:
    """Add the scalars of an event file to ``points``; returns a description of errors in it.

    ``RawEventFileLoader`` checks and splits 1,000 files of 1,000 points in 22 s; ``EventFileLoader``, which
    also converts every event, takes 170 s. So only events that contain a wanted tag are parsed.
    """
    from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
    from tensorboard.compat.proto.event_pb2 import Event

    marks = None if wanted is None else [tag.removeprefix(prefix).encode() for tag in wanted]
    plugins: dict[str, str] = {}
    done = records = 0
    try:
        size = regular(path).st_size
        for record in RawEventFileLoader(str(path)).Load():
            done, records = done + len(record) + FRAME, records + 1
            if marks is not None and not any(mark in record for mark in marks):
                continue
            event = Event.FromString(record)
            for one in event.summary.value:
                value, tag = _scalar(one, plugins), prefix + one.tag
                if value is not None and (wanted is None or tag in wanted):
                    _keep(points, tag, event.step, event.wall_time, value)
    except DamagedError as error:
        return str(error)
    # Errors of protobuf, which is not a direct dependency, and of sizes beyond any memory.
    except Exception as error:
        reason = " ".join(str(error).split())[:80] or type(error).__name__
        return str(damaged(path, f"record {records + 1}: {reason}"))
    if done == size and records:
        return ""
    return f"{path}: cut or damaged after {records} records" if size else f"{path} is empty"


def _scalar(one: Any, plugins: dict[str, str]) -> float | None:
    """The number of a summary value written by SummaryWriter or Keras; None if it is not a scalar."""
    if one.metadata.plugin_data.plugin_name:
        plugins[one.tag] = one.metadata.plugin_data.plugin_name
    if one.HasField("simple_value"):
        return float(one.simple_value)
    small = all(side.size == 1 for side in one.tensor.tensor_shape.dim)
    if not one.HasField("tensor") or plugins.get(one.tag) != "scalars" or not small:
        return None
    from tensorboard.util.tensor_util import make_ndarray

    return float(make_ndarray(one.tensor).item())


@dataclass(frozen=True)
class _Table:
    path: Path
    header: list[str] = field(default_factory=list)
    rows: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    problem: str = ""

    def column(self, names: Sequence[str]) -> str:
        known = {name.lower(): name for name in reversed(self.header)}
        return next((known[name] for name in names if name in known), "")


def _table(path: Path) -> _Table:
    """Read a CSV file with a header; rows of another length are reported and skipped."""
    try:
        text = (read_bytes(path) or b"").decode("utf-8-sig", "replace")
        reader = csv.reader(io.StringIO(text), delimiter=max(",;\t", key=text.partition("\n")[0].count))
        lines = [(reader.line_num, row) for row in reader if row]
    except (DamagedError, csv.Error) as error:
        return _Table(path, problem=str(error) if isinstance(error, DamagedError) else f"{path}: {error}")
    if len(lines) < 2:
        return _Table(path, problem=f"{path} has no rows below a header")
    header = [name.strip() for name in lines[0][1]]
    rows = [(line, dict(zip(header, row, strict=True))) for line, row in lines[1:] if len(row) == len(header)]
    other = [line for line, row in lines[1:] if len(row) != len(header)]
    more = f" and {len(other) - 1} more" if len(other) > 1 else ""
    problem = f"{path}: line {other[0]}{more} left out: not {len(header)} columns" if other else ""
    return _Table(path, header, rows, problem)


def _rows(
    table: _Table, rows: Iterable[tuple[int, dict[str, str]]], wanted: Collection[str] | None, points: Points
) -> None:
    """Add the numbers of rows to ``points``; without a step column each row is a step."""
    at = table.column(STEPS)
    for line, row in rows:
        step = _number(row[at]) if at else float(line)
        for tag in row if wanted is None else wanted:
            value = _number(row.get(tag, ""))
            if value is not None and step is not None and math.isfinite(step) and tag != at:
                _keep(points, tag, int(step), float(line), value)


def _logs(table: _Table, wanted: Collection[str] | None) -> Iterator[Log]:
    """A file with steps but no seeds is one run; others have one run per row or, with steps, per seed."""
    if not table.rows:
        yield Log(table.path, problem=table.problem, state="damaged")
        return
    step, seed, group = (table.column(names) for names in (STEPS, SEEDS, GROUPS))
    texts = [name for name in table.header if any(_number(row[name]) is None for _, row in table.rows)]
    others = [name for name in texts if name not in (seed, group)]
    # Beside a named group a text that differs in nearly every row is no choice, but a time or an identifier.
    repeated = [name for name in others if 2 * len({row[name] for _, row in table.rows}) <= len(table.rows)]
    by = [group, *repeated] if group else others
    groups: dict[tuple[str, ...], list[tuple[int, dict[str, str]]]] = {}
    for line, row in table.rows:
        own = tuple(row[name] for name in (seed, *by)) if seed else ()
        groups.setdefault(own if step else (str(line),), []).append((line, row))
    for place, (key, rows) in enumerate(groups.items()):
        points: Points = {}
        _rows(table, rows, wanted, points)
        path = Path(f"{table.path}:{rows[0][0]}") if key else table.path.with_suffix("")
        settings = {name: text.strip() for name, text in rows[0][1].items()} if key else {}
        yield _log(path, points, settings, table.problem * (not place), by=by if key else ())


def _number(text: str) -> float | None:
    """The number in a cell, NaN included; None for an empty cell or a text."""
    try:
        return float(text)
    except ValueError:
        return None


def _mlflow(folder: Path, wanted: Collection[str] | None) -> Log:
    """A run in MLflow's folders: one file per metric, with time, value and step on each line."""
    meta = read_yaml(folder / META)
    meta = meta if isinstance(meta, Mapping) else {}
    points: Points = {}
    problem = ""
    for tag, path in _below(folder / "metrics"):
        if wanted is None or tag in wanted:
            for line in (read_bytes(path) or b"").decode("utf-8", "replace").splitlines():
                at, value, step = (*map(_number, line.split()), None, None, None)[:3]
                if at is None or value is None:
                    problem = f"{path} is damaged: {line[:40]!r}"
                else:
                    _keep(points, tag, int(step) if step and math.isfinite(step) else 0, at, value)
    parameters = {}
    for name, path in _below(folder / "params"):
        parameters[name] = (read_bytes(path) or b"").decode("utf-8", "replace").strip()
    status = meta.get("status")
    state = MLFLOW.get(status, "done") if isinstance(status, int) else "done"
    log = _log(folder, points, parameters, problem, named=False)
    return log if state == "done" else replace(log, state=state)


def _below(folder: Path) -> list[tuple[str, Path]]:
    return [
        (path.relative_to(folder).as_posix(), path) for path in sorted(folder.rglob("*")) if not path.is_dir()
    ]


def _wandb(folder: Path, wanted: Collection[str] | None) -> Log:
    """A run in W&B's folders, whose plain files contain only the last values."""
    summary = read_json(folder / SUMMARY, lambda content: dict(flat(content))) or {}
    step = summary.get("_step")
    points: Points = {}
    for tag, value in summary.items():
        number = None if isinstance(value, bool) else _number(str(value))
        if number is not None and not tag.startswith("_") and (wanted is None or tag in wanted):
            _keep(points, tag, step if isinstance(step, int) else 0, 0.0, number)
    config = read_yaml(folder / "config.yaml")
    own = config if isinstance(config, Mapping) else {}
    nodes = {k: v["value"] for k, v in own.items() if isinstance(v, Mapping) and "value" in v}
    nodes.pop("_wandb", None)
    home = folder.parent if folder.name == "files" else folder
    return _log(home, points, _texts(nodes), named=False)


def _parameters(path: Path) -> dict[str, str]:
    """Lightning's hyperparameters; none if they are missing or contain objects."""
    with suppress(DamagedError):
        return _texts(read_yaml(path))
    return {}


def _texts(node: Any) -> dict[str, str]:
    return {key: str(value) for key, value in flat(node) if key and not isinstance(value, Mapping)}
