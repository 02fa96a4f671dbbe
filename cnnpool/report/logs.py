"""Files of other programs -> numbers: tables, curves in CSV and event files, and which logs are one run."""

import csv
import logging
import math
import os
import re
import struct
from array import array
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from cnnpool.json_text import flat
from cnnpool.run_folder import layout
from cnnpool.run_folder.errors import DamagedError
from cnnpool.run_folder.reading import damaged, read_yaml, regular

STEPS = re.compile(r"(?i)epoch|step|iter|round|generation|episode")  # Columns that number steps of a run
HEADER, FOOTER = 12, 4  # Bytes around each record of an event file; the first eight say how long it is
Series = tuple["array[float]", "array[float]"]  # Steps, which rise, and the value at each
Table = Mapping[str, Mapping[str, Any]]  # The place of a row, as a message names it -> its cells by column
PARAMETERS = ("hparams.yaml", f"{layout.SETTINGS}/config.yaml")
"""Files with parameters: Lightning's, beside its logs, and Hydra's, in the folder of a job."""
PATTERN = "{group}/seed_{seed}"  # Suggested for --runs
Found = Mapping[str, Sequence[tuple[int, Path, list[str], Series]]]
"""By name the curves that go by it: depth of their log below the run, its path, all their names, points."""


@dataclass(frozen=True)
class Log:
    """The wanted curves of a CSV file, or of the event files in a folder, and the names of all there are."""

    tags: Collection[str]
    curves: Mapping[str, Series] = field(repr=False)
    problem: str = ""


def is_events(name: str) -> bool:
    return "tfevents" in name and not name.endswith(".profile-empty")


def numbers(rows: Table, name: str, decimal: str) -> "array[float]":
    """The numbers in the column ``name``, NaN included; a ValueError with its place for anything else."""
    found = array("d")
    for place, row in rows.items():
        cell = row[name]
        text = str(cell).strip()
        own = text.translate({46: "?", 44: "."}) if decimal == "," and isinstance(cell, str) else cell
        try:
            # Python takes 1_000 for a number, and True for 1.
            found.append(float("" if "_" in text or text in ("True", "False") else own))
        except (TypeError, ValueError):
            comma = re.fullmatch(r"[-+]?\d+,\d+", text) and decimal == "."
            remedy = "decimal commas? give --decimal ," if comma else "leave out any % or unit, or all of it"
            raise ValueError(f'{place}, {name}: "{text}" is not a number: {remedy}') from None
    return found


def table(path: Path) -> Table:
    """The rows of a CSV file; a DamagedError if it is none, or its rows are not of one length."""
    try:
        regular(path, math.inf)
        with path.open(encoding="utf-8-sig", newline="") as file:
            first = file.readline()
            file.seek(0)
            reader = csv.reader(file, delimiter=max(",;\t", key=first.count))
            lines = [(reader.line_num, row) for row in reader if row]
    except UnicodeDecodeError:
        raise DamagedError(f"{path} is not a text in UTF-8: save it as UTF-8") from None
    except (OSError, csv.Error) as error:
        raise damaged(path, str(getattr(error, "strerror", None) or error)) from None
    if len(lines) < 2:
        raise damaged(path, "it has no rows below a header")
    header = [name.strip() or f"column_{at}" for at, name in enumerate(lines.pop(0)[1], 1)]
    for name in header:
        if (count := header.count(name)) > 1:
            raise ValueError(f"{path}: {count} columns are called {name}: rename them")
    for line, row in lines:
        if len(row) != len(header):
            raise damaged(path, f"line {line} has {len(row)} cells, and the header has {len(header)}")
    where = f"{path}, line"
    return {f"{where} {line}": dict(zip(header, row, strict=True)) for line, row in lines}


def csv_log(path: Path, wanted: Collection[str], decimal: str) -> Log:
    """The ``wanted`` columns of a CSV file with a row a step: another column must rise from row to row.

    Of several, which order rows alike, one called step or epoch gives the steps.
    """
    rows = table(path)
    header = list(next(iter(rows.values())))
    for name in header:
        if name.lower().endswith("seed") and len({row[name].strip() for row in rows.values()} - {""}) > 1:
            raise ValueError(f"{path}: rows differ in {name}: give a table of runs by its name")
    others = [name for name in header if name not in wanted]
    others.sort(key=lambda name: (not STEPS.search(name), "step" not in name.lower()))
    curves = {}
    for tag in sorted({*wanted} & {*header}):
        if own := {place: row for place, row in rows.items() if row[tag].strip()}:
            values = numbers(own, tag, decimal)
            curves[tag] = _steps(path, own, others, decimal), values
    return Log(header, curves)


def _steps(path: Path, rows: Table, names: Sequence[str], decimal: str) -> "array[float]":
    onward: list[bool] = []
    falls = []
    for name in names:
        try:
            column = numbers(rows, name, decimal)
        except ValueError:
            continue
        fall = next((at for at, (x, y) in enumerate(pairwise(column), 1) if not x < y), 0)
        # A clock goes on where a restart repeats steps, but also where they begin anew in each epoch.
        if not fall and (STEPS.search(name) or any(onward) or not onward):
            return column
        if STEPS.search(name) and len({*column}) > 1:
            onward.append(all(x <= y for x, y in pairwise(column)))
        falls += [f"{[*rows][fall]}: {name} goes from {column[fall - 1]:g} to {column[fall]:g}"] * bool(fall)
    if len(rows) == 1:
        return array("d", [0])
    why = [*falls, f"{path}: no other column holds numbers"][0]
    raise ValueError(
        f"{why}, and no column of steps rises from row to row, so rows are not steps of one run: "
        "remove what a restart repeats, or give a table of runs by its name"
    )


def event_log(folder: Path, wanted: Collection[str]) -> Log:
    """The ``wanted`` scalars of the event files in ``folder``, as TensorBoard's own accumulator reads them.

    Where steps repeat or go back, as after a restart that purged nothing, what was logged later counts.
    """
    from tensorboard.backend.event_processing import event_accumulator, plugin_event_accumulator
    from tensorboard.util.tensor_util import make_ndarray

    sizes = dict.fromkeys(event_accumulator.DEFAULT_SIZE_GUIDANCE, 1) | {"scalars": 0}
    # It warns of what it purges.
    logger = logging.getLogger("tensorboard")
    before, logger.disabled = logger.disabled, True
    try:
        problems = [_cut(folder / name) for name in sorted(os.listdir(folder)) if is_events(name)]
        read: Any = event_accumulator.EventAccumulator(str(folder), sizes).Reload()
        points = {tag: [(x.step, x.value) for x in read.Scalars(tag)] for tag in read.Tags()["scalars"]}
        plugins = {tag: one.plugin_data.plugin_name for tag, one in read.summary_metadata.items()}
        if tensors := [tag for tag in read.Tags()["tensors"] if plugins.get(tag) == "scalars"]:
            # Scalars as Keras writes them, which the accumulator above does not purge.
            read = plugin_event_accumulator.EventAccumulator(str(folder), {}, {"scalars": 0}).Reload()
            for tag in tensors:
                own = [(x.step, make_ndarray(x.tensor_proto)) for x in read.Tensors(tag)]
                points[tag] = [(step, float(x.item())) for step, x in own if x.size == 1]
    except DamagedError:
        raise
    # Errors of protobuf, which is no direct dependency.
    except Exception as error:
        raise damaged(folder, f"{type(error).__name__}: {' '.join(str(error).split())[:80]}") from None
    finally:
        logger.disabled = before
    curves = {tag: _forward(points[tag]) for tag in sorted(points.keys() & {*wanted})}
    lost = [tag for tag, (steps, _) in curves.items() if len(steps) < len(points[tag])]
    problems += [f"steps of {tag} repeat or go back: what was logged later counts" for tag in lost]
    return Log(list(points), curves, "; ".join(filter(None, problems)))


def _forward(points: Sequence[tuple[int, float]]) -> Series:
    """The points of which no later one has the same step or one before."""
    kept: list[tuple[int, float]] = []
    for point in reversed(points):
        if not kept or point[0] < kept[-1][0]:
            kept.append(point)
    return array("d", [step for step, _ in reversed(kept)]), array("d", [x for _, x in reversed(kept)])


def _cut(path: Path) -> str:
    """Why an event file ends within a record; empty if it does not."""
    size, at, records = regular(path, math.inf).st_size, 0, 0
    with path.open("rb") as file:
        while len(head := file.read(HEADER)) == HEADER:
            end = at + HEADER + struct.unpack_from("<Q", head)[0] + FOOTER
            if end > size:
                break
            at, records = file.seek(end), records + 1
    return "" if at == size > 0 else f"{path} is {f'cut after {records} records' if size else 'empty'}"


@dataclass(frozen=True)
class Row:
    """A run before it has a group and a seed: its place, what is known of it, and its curves by name."""

    place: str
    facts: Mapping[str, str]
    curve: Callable[[str], Series | None] = field(repr=False)
    tags: Collection[str] | None = None  # The logged names; None for a row of a table
    problem: str = ""


@dataclass(frozen=True)
class Home:
    """A run's place, its logs (a folder with event files, or a CSV file), and its parameters."""

    place: str
    logs: list[Path] = field(default_factory=list)
    facts: dict[str, dict[str, None]] = field(default_factory=lambda: defaultdict(dict))


def within(folder: Path, names: Collection[str]) -> list[Path]:
    """The logs in a folder: itself for its event files, and its CSV files."""
    tables = [folder / name for name in sorted(names) if name.endswith(".csv")]
    return [folder] * any(map(is_events, names)) + tables


def homes(paths: Sequence[Path], logs: Mapping[Path, Path], pattern: str) -> tuple[list[Home], list[Path]]:
    """The runs below ``paths``, whose ``logs`` have their folders, and the logs that do not fit ``pattern``.

    With a pattern a run is a path that fits it, with all logs below. Without, it is the folder of a job of
    Hydra's, or else of Lightning's parameters, or else of logs, with those of ``add_scalars`` below.
    """
    events = {path for path, folder in logs.items() if path == folder}
    base = os.path.commonpath([os.path.abspath(path if path.is_dir() else path.parent) for path in paths])
    parameters = cache(_parameters)
    runs: dict[str, Home] = {}
    unfit = []
    for path, folder in logs.items():
        relative = Path(os.path.relpath(path, base)).as_posix()
        above = [folder, *folder.parents][: len(Path(os.path.relpath(folder, base)).parts) + 1]
        # The nearest of each, in their order.
        nearest = {name: one for name in PARAMETERS for one in reversed(above) if (one / name).is_file()}
        top = folder.parent if folder.parent in events else folder
        place, facts = str([top, *nearest.values()][-1]), []
        if pattern:
            if not (fit := _fit(pattern, relative)):
                unfit.append(path)
                continue
            place, facts = str(path)[: len(str(path)) - len(relative) + fit.end()], [*fit.groupdict().items()]
        home = runs.setdefault(place, Home(place))
        home.logs.append(path)
        for file in [one / name for name, one in nearest.items()]:
            facts += parameters(file)
        for key, value in facts:
            home.facts[key][str(value)] = None
    if unfit and not runs:
        raise ValueError(f"--runs {pattern}: no path fits it, such as {unfit[0]}")
    return list(runs.values()), unfit


def _parameters(file: Path) -> list[tuple[str, Any]]:
    try:
        return [(key, value) for key, value in flat(read_yaml(file)) if key]
    except DamagedError as error:
        raise ValueError(f"{error}; mend or remove it") from None


def read(home: Home, metrics: Sequence[str], decimal: str) -> Row:
    """The curves of a run; logs that are damaged are named, and the rest is read.

    A curve goes by its own name, also below those of folders and of its file: ``loss``, ``validation/loss``.
    """
    wanted = {metric.split("/", cut)[-1] for metric in metrics for cut in range(metric.count("/") + 1)}
    found = defaultdict(list)
    tags: dict[str, None] = {}
    problems = []
    for path in home.logs:
        try:
            one = event_log(path, wanted) if path.is_dir() else csv_log(path, wanted, decimal)
        except DamagedError as error:
            problems.append(str(error))
            continue
        problems.append(one.problem)
        below = Path(os.path.relpath(str(path).removesuffix(".csv"), home.place)).parts
        folders = below[:-1] if path.is_file() else below
        for tag, series in one.curves.items():
            ends = [own[at:] for own in (below, folders) for at in range(len(own), -1, -1)]
            names = list(dict.fromkeys("/".join([*end, tag]) for end in ends))
            for name in names:
                found[name].append((len(folders), path, names, series))
        for tag in one.tags:
            tags["/".join([*below[-1:], tag]) if tag in tags else tag] = None
    # A key of which two sources say different things has both as its value, which a choice's label shows.
    facts = {key: " and ".join(texts) for key, texts in home.facts.items()}
    problem = "; ".join(filter(None, problems))
    return Row(home.place, facts, partial(_curve, home.place, found), tags, problem)


def _curve(place: str, found: Found, name: str) -> Series | None:
    """The curve ``name`` of the logs that lie highest, which must agree."""
    known = found.get(name, ())
    highest = [one for one in known if one[0] == min(depth for depth, *_ in known)]
    for _, path, names, (_, values) in highest[1:]:
        _, first, others, (_, wanted) = highest[0]
        # Event files hold 32 bits.
        if array("f", values).tobytes() != array("f", wanted).tobytes():
            every = [*names, *others]
            other = next((one for one in every if every.count(one) == 1), name)
            raise ValueError(
                f"{place} is one run, but {name} differs between {first} and {path}: name one, as in "
                f"--metric {other}, or say by --runs which paths are runs"
            )
    return highest[0][3] if highest else None


def _fit(pattern: str, path: str) -> re.Match[str] | None:
    """Where ``path`` fits the ``pattern``, and the texts in its braces."""
    # If the shortest fit is the longest, there is no other.
    shortest, longest = (way.match(path.removesuffix(".csv")) for way in _ways(pattern))
    if shortest and longest and (shortest.span(), shortest.groups()) != (longest.span(), longest.groups()):
        several = f"{shortest.groupdict()} or {longest.groupdict()}"
        raise ValueError(f"--runs {pattern}: {path} fits in several ways, {several}: write more of the path")
    return shortest


@cache
def _ways(pattern: str) -> list[re.Pattern[str]]:
    """``pattern`` as an expression that takes as little text as it can, and one that takes as much."""
    parts = re.split(r"\{(\w+)\}", pattern.removesuffix(".csv"))
    keys = parts[1::2]
    if not {*keys} - {"seed"} or len({*keys}) < len(keys) or {*"{}"} & {*"".join(parts[::2])}:
        raise ValueError(f"--runs {pattern}: name parts of a path, once each, such as {PATTERN}")
    ways = []
    for few in ("?", ""):
        of = {key: f"(?P<{key}>[^/]+{few})" for key in keys} | {"seed": f"(?P<seed>[0-9]{{1,18}}{few})"}
        found = "".join(of[part] if place % 2 else re.escape(part) for place, part in enumerate(parts))
        ways.append(re.compile(rf"(?:[^/]+/)*{few}{found}(?=/|$)"))
    return ways
