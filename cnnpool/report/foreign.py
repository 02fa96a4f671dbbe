"""Runs of other programs: rows of a table, or logs -> runs with a group, a seed and the value to compare."""

import logging
import math
import os
import re
import shlex
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from numbers import Real
from pathlib import Path
from typing import Any, Literal

from cnnpool.quantity import by_name
from cnnpool.registry import did_you_mean
from cnnpool.report import logs
from cnnpool.report.logs import STEPS, Row, Series, Table, numbers, table
from cnnpool.report.runs import Run, entered, is_report, joined, meeting, read_all
from cnnpool.run_folder import layout
from cnnpool.run_folder.results import NAMED, Results

log = logging.getLogger(__name__)

UNPAIRED = "none"  # Instead of a column of seeds: the runs are independent
HEADS = 20  # Most runs that are read to list what there is
# The text before the number of a seed in a path: a whole name, or else only the word in it.
SEEDS = [re.compile(rf"({name}seed[^/{{}}\d]*)\d+(?=/|$)") for name in ("/[^/{}]*", "[/_.-]?")]
MOST, FEW = 12, 4  # Most columns or curves that are listed, and values or places


@dataclass(frozen=True)
class Asked:
    """The given names: metrics, keys of a choice, that of the seed, a pattern of paths, conditions.

    A run counts by the mean of its ``last`` points, or by the ``best``, which also says what is better.
    """

    metric: Sequence[str] = ()
    by: Sequence[str] = ()
    seed: str = ""
    runs: str = ""
    where: Sequence[str] = ()
    decimal: str = "."
    best: Literal["", "max", "min"] = ""
    last: int | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of a choice: parts of the pattern where nothing else is named."""
        parts = re.findall(r"\{(\w+)\}", self.runs)
        return tuple(self.by) or tuple(key for key in parts if key not in ("seed", self.seed))

    @property
    def number(self) -> str:
        """The key of the seed; empty if runs are not paired."""
        return "" if self.seed == UNPAIRED else self.seed or "seed"

    @property
    def whole(self) -> bool:
        return bool(self.metric and self.keys and (self.seed or "{seed}" in self.runs))

    @property
    def points(self) -> int:
        """Number of last points that count; 0 for the best."""
        return int(not self.best) if self.last is None else self.last

    @property
    def counted(self) -> str:
        names = {0: f"{self.best}imum", 1: "last value"}
        return names.get(self.points, f"mean of its last {self.points} points")

    def value(self, series: Series, place: str) -> float:
        """The value of ``series``: that of its end if this is NaN or infinite, since the run has diverged."""
        count = len(series[1])
        if self.last is not None and not 0 < self.last <= count:
            raise ValueError(f"{place} has {count} points: name 1 to {count} with --mean-of-last")
        values = series[1][-self.points :]
        if self.points:
            return sum(values) / len(values)
        finite = filter(math.isfinite, values)
        return (max if self.best == "max" else min)(finite) if math.isfinite(values[-1]) else values[-1]

    def better(self, tag: str) -> str | None:
        """The better direction, higher or lower: by ``best`` or else by the name; None if neither says it."""
        return {"min": "lower", "max": "higher"}.get(self.best) or by_name(tag)


@dataclass(frozen=True)
class Logged(Run):
    """A run of another program: ``parts`` are its columns or parameters, ``series`` the curves of a log."""

    parts: Mapping[str, str] = field(default_factory=dict)
    asked: Asked = Asked()
    series: Mapping[str, Series] = field(default_factory=dict, repr=False)
    counted: str = ""  # Which number of its curves counts; empty for a row of a table

    @cached_property
    def settings(self) -> Mapping[str, Any]:
        return self.parts


def logged(runs: Iterable[Run]) -> list[Logged]:
    """The runs of other programs among ``runs``; in a comparison these are all or none."""
    return [run for run in runs if isinstance(run, Logged)]


def read(data: Any, asked: Asked = Asked(), each: Callable[[], object] = lambda: None) -> list[Run]:
    """The runs of cnnpool at or under paths, or else of other programs, as for ``cnnpool.compare``.

    ``data`` is a table with a row a run, as a frame, a mapping of columns or a list of dicts, or paths:
    folders, or CSV files.
    """
    if isinstance(data, Mapping) or hasattr(data, "columns"):
        return _grouped(_rows(_frame(data), asked), asked)
    given: list[Any] = [data] if isinstance(data, str | os.PathLike) else list(data)
    if given and all(isinstance(row, Mapping) for row in given):
        named = {f"row {at}": {str(key): cell for key, cell in row.items()} for at, row in enumerate(given)}
        return _grouped(_rows(named, asked), asked)
    if not all(isinstance(path, str | os.PathLike) for path in given):
        raise ValueError("a table is a frame, a mapping of columns, or a list of a dict for each row")
    # A file or folder and a link to it are one.
    given.sort(key=os.path.islink, reverse=True)
    paths = [*{os.path.realpath(path): Path(path) for path in given}.values()]
    files = [path for path in paths if path.name.endswith(".csv") and path.is_file()]
    folders = entered(path for path in paths if path not in files)
    source = shlex.join(map(str, paths))
    if files and not asked.runs:
        if folders:
            raise ValueError(f"{files[0]} is a table of runs: give it without folders, or name --runs")
        cells = {place: row for path in files for place, row in table(path).items()}
        return _grouped(_rows(cells, asked), asked, source)
    own = {folder for folder, names in folders.items() if layout.MARK in names}
    found = {path: path.parent for path in files}
    for folder, names in folders.items():
        if layout.STUDY not in names and not own & {folder, *folder.parents} and not is_report(folder):
            found |= dict.fromkeys(logs.within(folder, names), folder)
    if not own:
        return _logs(source, *logs.homes(paths, found, asked.runs), asked, each)
    if asked.best or asked.last is not None or asked.seed not in ("", UNPAIRED) or asked.runs:
        raise ValueError(
            f"{min(own)} is a run of cnnpool: --best, --last, --mean-of-last, --seed KEY and --runs are for "
            "other programs, so give the folder of these alone; some seeds of it: --where seed=0,1"
        )
    if found:
        left = f"logs of other programs, such as in {next(iter(found.values()))}, are left out"
        log.warning("%s: cnnpool's own runs are compared", left)
    return read_all(sorted(own), each)


def _logs(
    source: str, homes: Sequence[logs.Home], unfit: Sequence[Path], asked: Asked, each: Callable[[], object]
) -> list[Run]:
    if not homes:
        raise ValueError(
            f"no run found under {source}: a folder with {layout.MARK} is a run of cnnpool, and of other "
            "programs TensorBoard's event files and CSV files are read, and tables of W&B and MLflow"
        )
    rows = []
    for home in homes if asked.whole else homes[:HEADS]:
        rows.append(logs.read(home, asked.metric, asked.decimal))
        each()
    why = f"one of {len(unfit)} logs whose paths do not fit --runs {asked.runs}"
    return [Run(path, "unfinished", why) for path in unfit[:1]] + _grouped(rows, asked, source, len(homes))


def _frame(data: Any) -> Table:
    keys = list(getattr(data, "columns", data))
    columns = {str(key): list(data[key]) for key in keys}
    lengths = {name: len(column) for name, column in columns.items()}
    if len(columns) < len(keys) or len({*lengths.values()}) > 1:
        raise ValueError(f"a table has columns of different names and of one length, not {lengths}")
    rows = enumerate(zip(*columns.values(), strict=True))
    return {f"row {at}": dict(zip(columns, row, strict=True)) for at, row in rows}


def _rows(cells: Table, asked: Asked) -> list[Row]:
    def curve(place: str, tag: str) -> Series | None:
        cell = cells[place].get(tag)
        if not _text(cell) and not isinstance(cell, Real):
            return None
        return array("d", [0]), numbers({place: cells[place]}, tag, asked.decimal)

    return [
        Row(place, {name: _text(cell) for name, cell in row.items()}, partial(curve, place))
        for place, row in cells.items()
    ]


def _text(cell: Any) -> str:
    """A cell as text; empty where it is missing."""
    text = str(cell).strip()
    return text if isinstance(cell, str) or text not in ("None", "nan", "<NA>", "NaT") else ""


def _grouped(rows: Sequence[Row], asked: Asked, source: str = "", count: int = 0) -> list[Run]:
    """The runs of ``rows`` that meet the conditions, with their groups and seeds."""
    if not asked.whole:
        raise ValueError(_listing(rows, asked, source, count or len(rows)))
    known = dict.fromkeys(key for row in rows for key in row.facts)
    rows = meeting(rows, asked.where, known, lambda row, key: row.facts.get(key, ""))
    runs: list[Run] = []
    quantities: dict[str, dict[str, Any]] = {}
    for at, row in enumerate(rows):
        series = {tag: curve for tag in asked.metric if (curve := row.curve(tag))}
        if not series and row.tags is not None:
            why = row.problem or f"no {' or '.join(asked.metric)} in it"
            runs.append(Run(Path(row.place), "damaged" if row.problem else "unfinished", why))
            continue
        for key in asked.keys:
            _fact(row, key, known)
        seed = _seed(row, asked.number, known) if asked.number else at
        values: Any = {tag: asked.value(one, row.place) for tag, one in series.items()}
        choices: dict[str, Any] = {name: {"name": row.facts.get(name, "")} for name in NAMED}
        found = Results(**choices, seed=seed, measured=values, quantities=quantities)
        counted = "" if row.tags is None else asked.counted
        runs.append(Logged(Path(row.place), "done", row.problem, found, row.facts, asked, series, counted))
    tags = {tag for row in rows for tag in (row.facts if row.tags is None else row.tags)}
    for tag in asked.metric:
        sizes = [abs(run.measured[tag]) for run in runs if tag in run.measured]
        if not sizes and tags - {tag}:
            raise ValueError(f"--metric {tag}: no run has it; {did_you_mean(tag, map(joined, tags - {tag}))}")
        # Values near 1 are shown with four decimals, those near 100 with two.
        most = max(filter(math.isfinite, sizes), default=0)
        form = "ratio" if 0.1 <= most < 10 else "hundredths" if 10 <= most < 1000 else "number"
        shown = {"form": form, "better": asked.better(tag), "shown": "compare"}
        quantities[tag] = {"title": tag, "definition": "", "headline": tag != asked.metric[0]} | shown
    return runs


def _fact(row: Row, key: str, known: Iterable[str]) -> str:
    if not row.facts.get(key):
        other = did_you_mean(key, map(joined, known)) if known else "--runs names parts of their paths"
        part = "--where KEY=VALUE keeps a part of the runs"
        raise ValueError(f"{row.place}: {key} is missing; {part if key in known else other}")
    return row.facts[key]


def _seed(row: Row, key: str, known: Iterable[str]) -> int:
    text = _fact(row, key, known)
    if STEPS.search(key) and "seed" not in key.lower():
        raise ValueError(f"--seed {key}: that numbers steps of a run; keep the last row of each run")
    # A column of whole numbers in which one is missing holds 3.0 for 3.
    if not re.fullmatch(r"[0-9]{1,18}(\.0*)?", text):
        said = f'"{text}" is not a whole number from 0; --seed {UNPAIRED} does without'
        raise ValueError(f"{row.place}, {key}: {said}")
    return int(text.partition(".")[0])


def _listing(rows: Sequence[Row], asked: Asked, source: str, count: int) -> str:
    """All that can be named, and the line to type."""
    every = dict.fromkeys(key for row in rows for key in row.facts)
    values = {key: list(dict.fromkeys(row.facts.get(key, "") for row in rows)) for key in every}
    values = {key: texts for key, texts in values.items() if len(texts) > 1}
    tags = Counter(tag for row in rows for tag in row.tags or ())
    places = [row.place for row in rows if row.tags is not None]
    shown = {f"{key}: {len(texts)} values,": [text[:30] for text in texts] for key, texts in values.items()}
    of_which = f", of which {len(rows)} were read for this list" * (len(rows) < count)
    held = f"{count} run{'s' * (count > 1)}{of_which}"
    lines = [f"{source or 'the table'} holds {held}: name the metric, the keys of a choice, and the seed"]
    lines += [f"  {name} {_some(texts)}" for name, texts in list(shown.items())[:MOST]]
    lines += [f"  {tag}: logged by {often} run{'s' * (often > 1)}" for tag, often in tags.most_common(MOST)]
    lines += [f"  runs: {_some(places)}"] * bool(places)
    seed = asked.seed or next((key for key in values if "seed" in key.lower()), "COLUMN")
    few = [key for key, texts in values.items() if key != seed and 2 * len(texts) <= len(rows)]
    metrics = list(tags) if places else [key for key in values if key not in (seed, *few)]
    words = {"metric": joined(*asked.metric) or (joined(*metrics) if len(metrics) == 1 else "METRIC")}
    words |= {"by": joined(*asked.by) or joined(*few[:1]) or "COLUMN", "seed": seed}
    if places and (asked.runs or "COLUMN" in words.values()):
        # Of several files in a folder without --runs, the names stand before those of their curves.
        texts = ((*places, *tags), (*places, *(f"/{tag}" for tag in tags)))
        ways = [
            {found[1] for text in named if (found := way.search(text))}
            for way, named in zip(SEEDS, texts, strict=True)
        ]
        before = next((found.pop() for found in ways if len(found) == 1), "/seed_")
        words["runs"] = asked.runs or f"{{group}}{before}{{seed}}"
        parts = ["by", "seed"] if "{seed}" in words["runs"] else ["by"]
        words = {key: text for key, text in words.items() if key not in parts or getattr(asked, key)}
    words |= {"decimal": asked.decimal.strip("."), "best": asked.best}
    options = [*words.items(), ("mean-of-last", asked.last), *(("where", one) for one in asked.where)]
    typed = " ".join(f"--{key} {shlex.quote(str(text))}" for key, text in options if text)
    given: dict[str, Any] = {**words, "last": asked.last, "where": asked.where}
    python = ", ".join(f"{key}={text!r}" for key, text in given.items() if text)
    lines.append(f"type: cnnpool compare {source} {typed}" if source else f"type: compare(table, {python})")
    if not places and seed == "COLUMN" and (first := next(iter(every), "")) and STEPS.search(first):
        lines.append(f"if its rows are steps, as {first} suggests: give a table with a row a run")
    return "\n".join([*lines, f"where no number says which runs belong together: --seed {UNPAIRED}"])


def _some(texts: Sequence[str]) -> str:
    return ", ".join(texts[:FEW]) + ", ..." * (len(texts) > FEW)
