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
from pathlib import Path
from typing import Any, Literal

from cnnpool.registry import did_you_mean
from cnnpool.report import logs
from cnnpool.report.logs import Row
from cnnpool.report.runs import Run, entered, is_report, read_all
from cnnpool.report.scalars import Series, is_log, number, table
from cnnpool.report.steps import STEPS, refuse_curves
from cnnpool.run_folder import layout
from cnnpool.run_folder.results import NAMED, Results

log = logging.getLogger(__name__)

LOWER = re.compile(
    r"(?i:loss|error|perplexity|regret)"
    r"|(?:(?<![A-Za-z])|(?<=[a-z])(?=[A-Z]))(?i:err|nll|ppl|r?mse|mae|wer|cer|fid|bpc)(?![a-z])"
)
"""Words of a metric of which less is better, the short ones as words of their own."""
HIGHER = re.compile(
    r"(?i:acc|score|precision|recall|reward|return|bleu|rouge|psnr|ssim|dice|auc|auroc)"
    r"|(?:(?<![A-Za-z])|(?<=[a-z])(?=[A-Z]))(?i:f1|m?ap|m?iou|r2|top.?[15])(?![a-z])"
)
UNPAIRED = "none"  # Instead of a column of seeds: the runs are independent
HEADS = 20  # Most runs that are read to list what there is
MOST = 12  # Most columns, curves or values that are listed


@dataclass(frozen=True)
class Value:
    """The number of a run: the mean of its ``last`` points, or the ``best``, which says what is better."""

    best: Literal["", "max", "min"] = ""
    last: int | None = None

    def __post_init__(self) -> None:
        if self.last is not None and self.last < 1:
            raise ValueError(f"the mean of the last {self.last} points: name 1 or more")

    @property
    def points(self) -> int:
        """Number of last points that count; 0 for the best."""
        return int(not self.best) if self.last is None else self.last

    def of(self, series: Series, place: str) -> float:
        """The value of ``series``; NaN if it ends with NaN, or, for the best, if it holds nothing else."""
        values = series[1][-self.points :]
        if len(values) < self.points:
            raise ValueError(f"{place} has {len(values)} points, too few for --mean-of-last {self.points}")
        if self.points:
            return sum(values) / len(values)
        numbers = [x for x in values if x == x] or [math.nan]
        return max(numbers) if self.best == "max" else min(numbers)

    def better(self, tag: str) -> Literal["higher", "lower"] | None:
        """Which direction is better, by ``best`` or else by the name; None if that does not say it."""
        if self.best:
            return "lower" if self.best == "min" else "higher"
        return "lower" if LOWER.search(tag) else "higher" if HIGHER.search(tag) else None

    def said(self, tags: Sequence[str]) -> str:
        how = f"the mean of its last {self.last} points" if self.points > 1 else "its last value"
        if not self.points:
            how = f"its {self.best}imum, which is optimistic: on other data it would be worse"
        known = {tag: self.better(tag) for tag in tags}
        told = " and ".join(f"{way} {tag}" for tag, way in known.items() if way)
        said = f"{told} {'are' if ' and ' in told else 'is'} better" * bool(told)
        open_ = ", ".join(tag for tag, way in known.items() if not way)
        said += "; " * bool(told and open_) + f"{open_} names no better side" * bool(open_)
        return (
            f"Each run counts by {how}; {said if self.best else f'by name, {said} (--best says otherwise)'}."
        )


LAST = Value()


@dataclass(frozen=True)
class Names:
    """All that was named: metrics, the keys of a choice, that of the seed, a pattern of paths, conditions."""

    metric: Sequence[str] = ()
    by: Sequence[str] = ()
    seed: str = ""
    runs: str = ""
    where: Sequence[str] = ()
    decimal: str = "."

    @property
    def whole(self) -> bool:
        return bool(self.metric and (self.by or self.runs) and (self.seed or "{seed}" in self.runs))


@dataclass(frozen=True)
class Logged(Run):
    """A run of another program, grouped ``by`` some of its facts; ``numbered``: it has a seed."""

    parts: Mapping[str, str] = field(default_factory=dict)
    by: tuple[str, ...] = ()
    numbered: bool = True
    series: Mapping[str, Series] = field(default_factory=dict, repr=False)
    value: Value = LAST

    @cached_property
    def settings(self) -> Mapping[str, Any]:
        return self.parts


def logged(runs: Iterable[Run]) -> list[Logged]:
    """The runs of other programs among ``runs``; in a comparison these are all or none."""
    return [run for run in runs if isinstance(run, Logged)]


def read(data: Any, names: Names, value: Value, each: Callable[[], object] = lambda: None) -> list[Run]:
    """The runs of cnnpool at or under paths, or else of other programs, as for ``cnnpool.compare``.

    ``data`` is a table with a row a run, as a mapping of columns or a frame, or paths: folders, or CSV files.
    """
    one = isinstance(data, str | os.PathLike)
    if not one and (isinstance(data, Mapping) or hasattr(data, "columns")):
        return _grouped(_frame(data, names), names, value)
    paths = list(map(Path, [data] if one else data))
    files = [path for path in dict.fromkeys(paths) if path.name.endswith(".csv") and path.is_file()]
    folders = entered(path for path in paths if path not in files)
    if files and folders and not names.runs:
        raise ValueError(f"{files[0]} is a table of runs: give it without folders, or name --runs")
    if files and not names.runs:
        return _grouped([row for path in files for row in _table(path, names)], names, value)
    own = {one.folder for one in folders if layout.MARK in one.files}
    found = [one for one in folders if any(map(is_log, one.files)) and not is_report(one.folder)]
    found = [one for one in found if not own & {one.folder, *one.folder.parents}]
    if own and (value != LAST or names.seed or names.runs):
        raise ValueError(
            f"{min(own)} is a run of cnnpool: --best, --last, --mean-of-last, --seed and --runs are for "
            "other programs, so give the folder of these alone"
        )
    if own:
        if found:
            left = f"logs of other programs in {len(found)} folders, such as {found[0].folder}, are left out"
            log.warning("%s: cnnpool's own runs are compared", left)
        return read_all(sorted(own), each)
    if not found and not files:
        raise ValueError(
            f"no run found under {', '.join(map(str, paths))}: a folder with {layout.MARK} is a run of "
            "cnnpool, and of other programs TensorBoard's event files and CSV files are read"
        )
    return _logs(
        *logs.homes(paths, found, files, names.runs), shlex.join(map(str, paths)), names, value, each
    )


def _logs(
    homes: Sequence[logs.Home],
    unfit: Sequence[str],
    source: str,
    names: Names,
    value: Value,
    each: Callable[[], object],
) -> list[Run]:
    rows = []
    for home in homes if names.whole else homes[:HEADS]:
        rows.append(logs.read(home, names.metric, names.decimal))
        each()
    tags = Counter(tag for row in rows for tag in row.tags or ())
    if not names.whole:
        facts, places = [row.facts for row in rows], [home.place for home in homes]
        raise ValueError(_listing(source, names, facts, tags, places))
    if not rows:
        raise ValueError(f"--runs {names.runs}: no path fits it, such as {unfit[0]}")
    for tag in names.metric:
        if not any(row.curve(tag) for row in rows):
            raise ValueError(f"--metric {tag}: no run has it; {did_you_mean(tag, tags)}")
    why = f"one of {len(unfit)} logs whose paths do not fit --runs {names.runs}"
    return [Run(Path(path), "unfinished", why) for path in unfit[:1]] + _grouped(rows, names, value)


def _table(path: Path, names: Names) -> list[Row]:
    """A CSV file with a row a run."""
    read = table(path)
    for name in {*names.metric, *names.by, names.seed} & {*read.header}:
        read.at(name)
    places = [f"{path}, line {line}" for line, _ in read.rows]
    return _rows(str(path), read.header, places, [cells for _, cells in read.rows], names)


def _frame(data: Any, names: Names) -> list[Row]:
    keys = list(getattr(data, "columns", data))
    columns = {str(key): list(data[key]) for key in keys}
    lengths = {name: len(column) for name, column in columns.items()}
    if len(columns) < len(keys) or len({*lengths.values()}) > 1:
        raise ValueError(f"a table has columns of different names and of one length, not {lengths}")
    cells = list(zip(*columns.values(), strict=True))
    return _rows("", list(columns), [f"row {place}" for place in range(len(cells))], cells, names)


def _rows(
    source: str, header: Sequence[str], places: Sequence[str], cells: Sequence[Sequence[Any]], names: Names
) -> list[Row]:
    facts = [dict(zip(header, map(_text, row), strict=True)) for row in cells]
    for name in filter(None, [*names.metric, *names.by, names.seed]):
        if name not in header and name != UNPAIRED:
            raise ValueError(f"{source or 'the table'} has no column {name}; {did_you_mean(name, header)}")
    if not names.whole:
        raise ValueError(_listing(source, names, facts))

    def curve(place: str, row: Sequence[Any], tag: str) -> Series | None:
        cell = row[header.index(tag)]
        if not _text(cell) and not isinstance(cell, float):
            return None
        return array("d", [0]), array("d", [number(cell, f"{place}, {tag}", names.decimal)])

    every = zip(places, facts, cells, strict=True)
    return [Row(place, own, partial(curve, place, row)) for place, own, row in every]


def _text(cell: Any) -> str:
    """A cell as text; empty where it is missing."""
    text = str(cell).strip()
    return (
        "" if cell is None or text in ("<NA>", "NaT") or (isinstance(cell, float) and cell != cell) else text
    )


def _grouped(rows: Sequence[Row], names: Names, value: Value) -> list[Run]:
    """The runs of ``rows`` that meet the conditions, with their groups and seeds."""
    for condition in names.where:
        key, _, wanted = condition.partition("=")
        there = sorted({row.facts.get(key, "") for row in rows})
        rows = [row for row in rows if row.facts.get(key) in {wanted, *wanted.split(",")}]
        if not rows:
            raise ValueError(f"--where {condition}: no run has it; {key} is one of {', '.join(there[:MOST])}")
    pattern = tuple(key for key in re.findall(r"\{(\w+)\}", names.runs) if key != "seed")
    keys, seed = tuple(names.by) or pattern, names.seed or "seed"
    runs: list[Run] = []
    groups: dict[tuple[str, ...], dict[int, tuple[Row, dict[str, Series]]]] = {}
    known = {key for row in rows for key in row.facts}
    numbered = seed != UNPAIRED or seed in known
    if not numbered:
        refuse_curves(rows, keys, {*keys, *names.metric})
    for row in rows:
        series = {tag: curve for tag in names.metric if (curve := row.curve(tag))}
        if not series and row.tags is not None:
            why = row.problem or f"no {' or '.join(names.metric)} in it"
            runs.append(Run(Path(row.place), "damaged" if row.problem else "unfinished", why))
            continue
        group = tuple(_fact(row, key, "--by", known) for key in keys)
        own = groups.setdefault(group, {})
        at = _seed(row, seed, known) if numbered else len(own)
        if at in own:
            said = ", ".join(f"{key} {text}" for key, text in zip((*keys, "seed"), (*group, at), strict=True))
            raise ValueError(
                f"{own[at][0].place} and {row.place} are both {said}: keep one, tell them apart by --by, or, "
                "if they are steps of one run, keep the last"
            )
        own[at] = row, series
    quantities = _described(
        [series for own in groups.values() for _, series in own.values()], names.metric, value
    )
    for own in groups.values():
        for at, (row, series) in own.items():
            rooms: dict[str, Any] = {name: {"name": row.facts.get(name, "")} for name in NAMED}
            values: Any = {tag: value.of(one, row.place) for tag, one in series.items()}
            found = Results(**rooms, seed=at, measured=values, quantities=quantities)
            place = Path(row.place)
            runs.append(Logged(place, "done", row.problem, found, row.facts, keys, numbered, series, value))
    return runs


def _fact(row: Row, key: str, option: str, known: Iterable[str]) -> str:
    if key not in known:
        other = did_you_mean(key, known) if known else "--runs names parts of their paths"
        raise ValueError(f"{option} {key}: no run has it; {other}")
    if not row.facts.get(key):
        raise ValueError(f"{row.place}: {key} is missing; --where KEY=VALUE keeps a part of the runs")
    return row.facts[key]


def _seed(row: Row, key: str, known: Iterable[str]) -> int:
    text = _fact(row, key, "--seed", known)
    if STEPS.search(key) and "seed" not in key.lower():
        raise ValueError(
            f"--seed {key}: that numbers steps of a run; give a table with the last row of each run"
        )
    # A column of whole numbers in which one is missing holds 3.0 for 3.
    if not re.fullmatch(r"[0-9]{1,18}(\.0*)?", text):
        raise ValueError(
            f'{row.place}, {key}: "{text}" is not a whole number from 0; --seed {UNPAIRED} does without'
        )
    return int(text.partition(".")[0])


def _described(
    runs: Sequence[Mapping[str, Series]], metrics: Sequence[str], value: Value
) -> dict[str, dict[str, Any]]:
    """The quantity of each metric, as in ``results.json``; values near 1 are shown with four decimals."""
    found: dict[str, dict[str, Any]] = {}
    for tag in metrics:
        sizes = [abs(run[tag][1][-1]) for run in runs if tag in run]
        form = "ratio" if 0.1 <= max(filter(math.isfinite, sizes), default=0.0) < 10 else "number"
        shown = {"shown": "compare", "headline": tag in metrics[1:]}
        found[tag] = {"title": tag, "definition": "", "form": form, "better": value.better(tag), **shown}
    return found


def _listing(
    source: str,
    names: Names,
    facts: Sequence[Mapping[str, str]],
    tags: Mapping[str, int] | None = None,
    places: Sequence[str] = (),
) -> str:
    """All that can be named, and the line to type."""
    columns = {key: list(dict.fromkeys(own.get(key, "") for own in facts)) for own in facts for key in own}
    differing = {key: values for key, values in columns.items() if len(values) > 1}
    count = len(places) or len(facts)
    lines = [
        f"{source or 'the table'} holds {count} runs: name the metric, what makes a choice, and the seed"
    ]
    for key, values in list(differing.items())[:MOST]:
        more = ", ..." * (len(values) > 4)
        lines.append(f"  {key or '(no name)'}: {len(values)} values, {', '.join(values[:4])[:60]}{more}")
    lines += [f"  {tag}: logged by {often} runs" for tag, often in list((tags or {}).items())[:MOST]]
    lines += [f"  runs: {', '.join(places[:4])}{', ...' * (len(places) > 4)}"] * bool(places)
    seeds = [key for key in differing if "seed" in key.lower()] or ["COLUMN"]
    some = [key for key, values in differing.items() if key not in seeds and 2 * len(values) <= len(facts)]
    metrics = list(tags) if tags is not None else [key for key in differing if key not in (*seeds, *some)]
    metric = ",".join(names.metric) or (metrics[0] if len(metrics) == 1 else "METRIC")
    asked = {
        "metric": metric,
        "by": ",".join(names.by) or [*some, "COLUMN"][0],
        "seed": names.seed or seeds[0],
    }
    if places and (names.runs or "COLUMN" in asked.values()):
        asked = {"metric": metric, "runs": names.runs or "{group}/seed_{seed}"}
    said = " ".join(f"--{key} {shlex.quote(text)}" for key, text in asked.items())
    python = ", ".join(f"{key}={text!r}" for key, text in asked.items())
    lines.append(f"type: cnnpool compare {source} {said}" if source else f"type: compare(table, {python})")
    lines.append(f"where no number says which runs belong together: --seed {UNPAIRED}")
    return "\n".join(lines)


def short(label: str, runs: Iterable[Run], tag: str) -> list[str]:
    """A sentence if some runs of a group end at an earlier step than most: they may be unfinished."""
    ends = {run.folder: run.series[tag][0][-1] for run in logged(runs) if tag in run.series}
    usual = max(ends.values(), key=[*ends.values()].count, default=0)
    early = [f"{folder} at step {step:g}" for folder, step in ends.items() if step < usual]
    listed = ", ".join(early[:3])
    said = (
        f"{label}: {len(early)} of {len(ends)} runs end before step {usual:g}, such as {listed}: unfinished?"
    )
    return [said] * bool(early)


def paired(groups: Sequence[Mapping[int, Run]]) -> bool:
    """Whether to pair runs by seed: runs of cnnpool, and others that share half of their seeds."""
    own = logged(run for group in groups for run in group.values())
    shared = set.intersection(*(set(group) for group in groups))
    return not own or (own[0].numbered and 2 * len(shared) >= max(map(len, groups)))


def understood(groups: Sequence[Mapping[int, Run]], tags: Sequence[str]) -> str:
    """Number of groups and runs, how they are paired and read; empty for runs of cnnpool."""
    own = logged(run for group in groups for run in group.values())
    if not own:
        return ""
    sizes = sorted({len(group) for group in groups})
    size = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    numbered, keys = own[0].numbered, own[0].by
    why = "their seeds differ" if numbered else "no seed says which belong together"
    pairs = "paired by seed" if paired(groups) else f"not paired, since {why} (Welch's test)"
    by = "" if keys == ("group",) else f" by {', '.join(keys)}"
    counted = f"{len(groups)} group{'s' * (len(groups) > 1)}{by}"
    return f"{counted}, {size} run{'s' * (sizes[-1] > 1)} each, {pairs}. {own[0].value.said(tags)}"
