"""Runs of other programs: rows of a table, or logs -> runs with a group, a seed and the value to compare."""

import logging
import math
import os
import re
import shlex
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from cnnpool.registry import did_you_mean
from cnnpool.report import logs
from cnnpool.report.logs import Row
from cnnpool.report.runs import Run, conditions, entered, is_report, read_all
from cnnpool.report.scalars import STEPS, Series, is_events, numbers, table
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

    def __post_init__(self) -> None:
        if self.last is not None and self.last < 1:
            raise ValueError(f"the mean of the last {self.last} points: name 1 or more")

    @property
    def whole(self) -> bool:
        return bool(self.metric and (self.by or self.runs) and (self.seed or "{seed}" in self.runs))

    @property
    def points(self) -> int:
        """Number of last points that count; 0 for the best."""
        return int(not self.best) if self.last is None else self.last

    @property
    def counted(self) -> str:
        if not self.points:
            return f"{self.best}imum"
        return f"mean of its last {self.points} points" if self.points > 1 else "last value"

    def value(self, series: Series, place: str) -> float:
        """The value of ``series``; NaN if it ends with NaN, or, for the best, if it holds nothing else."""
        values = series[1][-self.points :]
        if len(values) < self.points:
            raise ValueError(f"{place} has {len(values)} points, too few for --mean-of-last {self.points}")
        if self.points:
            return sum(values) / len(values)
        return (max if self.best == "max" else min)([x for x in values if x == x] or [math.nan])

    def better(self, tag: str) -> Literal["higher", "lower"] | None:
        """Which direction is better, by ``best`` or else by the name; None if that does not say it."""
        if self.best:
            return "lower" if self.best == "min" else "higher"
        return "lower" if LOWER.search(tag) else "higher" if HIGHER.search(tag) else None


@dataclass(frozen=True)
class Logged(Run):
    """A run of another program, ``parts``: its columns or parameters; ``numbered``: it has a seed."""

    parts: Mapping[str, str] = field(default_factory=dict)
    by: tuple[str, ...] = ()
    numbered: bool = True
    series: Mapping[str, Series] = field(default_factory=dict, repr=False)
    asked: Asked = Asked()
    counted: str = ""  # Which number of its curves counts; empty for a row of a table

    @cached_property
    def settings(self) -> Mapping[str, Any]:
        return self.parts


def logged(runs: Iterable[Run]) -> list[Logged]:
    """The runs of other programs among ``runs``; in a comparison these are all or none."""
    return [run for run in runs if isinstance(run, Logged)]


def read(data: Any, asked: Asked, each: Callable[[], object] = lambda: None) -> list[Run]:
    """The runs of cnnpool at or under paths, or else of other programs, as for ``cnnpool.compare``.

    ``data`` is a table with a row a run, as a mapping of columns or a frame, or paths: folders, or CSV files.
    """
    if isinstance(data, Mapping) or hasattr(data, "columns"):
        return _grouped(_frame(data, asked), asked)
    given = [data] if isinstance(data, str | os.PathLike) else list(data)
    if not all(isinstance(path, str | os.PathLike) for path in given):
        raise ValueError("a table is a mapping of columns or a frame, such as pandas.DataFrame(rows)")
    paths = list(dict.fromkeys(map(Path, given)))
    # A file or folder and a link to it are one.
    places = {os.path.realpath(path): path for path in sorted(paths, key=os.path.islink, reverse=True)}
    paths = [path for path in paths if path in places.values()]
    files = [path for path in paths if path.name.endswith(".csv") and path.is_file()]
    folders = entered(path for path in paths if path not in files)
    if files and not asked.runs:
        if folders:
            raise ValueError(f"{files[0]} is a table of runs: give it without folders, or name --runs")
        return _grouped([row for path in files for row in _table(path, asked)], asked)
    own = {one.folder for one in folders if layout.MARK in one.files}
    found = [one for one in folders if any(name.endswith(".csv") or is_events(name) for name in one.files)]
    found = [
        one for one in found if not own & {one.folder, *one.folder.parents} and not is_report(one.folder)
    ]
    if not own:
        return _logs(paths, *logs.homes(paths, found, files, asked.runs), asked, each)
    if asked.best or asked.last or asked.seed or asked.runs:
        raise ValueError(
            f"{min(own)} is a run of cnnpool: --best, --last, --mean-of-last, --seed and --runs are for "
            "other programs, so give the folder of these alone"
        )
    if found:
        left = f"logs of other programs in {len(found)} folders, such as {found[0].folder}, are left out"
        log.warning("%s: cnnpool's own runs are compared", left)
    return read_all(sorted(own), each)


def _logs(
    paths: Sequence[Path],
    homes: Sequence[logs.Home],
    unfit: Sequence[Path],
    asked: Asked,
    each: Callable[[], object],
) -> list[Run]:
    if not homes and not unfit:
        raise ValueError(
            f"no run found under {', '.join(map(str, paths))}: a folder with {layout.MARK} is a run of "
            "cnnpool, and of other programs TensorBoard's event files and CSV files are read, and "
            "tables of W&B and MLflow"
        )
    rows = []
    for home in homes if asked.whole else homes[:HEADS]:
        rows.append(logs.read(home, asked.metric, asked.decimal))
        each()
    tags = Counter(tag for row in rows for tag in row.tags or ())
    if not asked.whole:
        source, places = shlex.join(map(str, paths)), [home.place for home in homes]
        raise ValueError(_listing(source, asked, [row.facts for row in rows], places, tags))
    if not rows:
        raise ValueError(f"--runs {asked.runs}: no path fits it, such as {unfit[0]}")
    for tag in asked.metric:
        if not any(row.curve(tag) for row in rows):
            raise ValueError(f"--metric {tag}: no run has it; {did_you_mean(tag, tags)}")
    why = f"one of {len(unfit)} logs whose paths do not fit --runs {asked.runs}"
    return [Run(path, "unfinished", why) for path in unfit[:1]] + _grouped(rows, asked)


def _table(path: Path, asked: Asked) -> list[Row]:
    """A CSV file with a row a run."""
    header, lines = table(path, {*asked.metric, *asked.by, asked.seed})
    cells = {f"{path}, line {line}": row for line, row in lines}
    return _rows(str(path), header, cells, asked)


def _frame(data: Any, asked: Asked) -> list[Row]:
    keys = list(getattr(data, "columns", data))
    columns = {str(key): list(data[key]) for key in keys}
    lengths = {name: len(column) for name, column in columns.items()}
    if len(columns) < len(keys) or len({*lengths.values()}) > 1:
        raise ValueError(f"a table has columns of different names and of one length, not {lengths}")
    cells = {f"row {at}": row for at, row in enumerate(zip(*columns.values(), strict=True))}
    return _rows("", list(columns), cells, asked)


def _rows(source: str, header: Sequence[str], cells: Mapping[str, Sequence[Any]], asked: Asked) -> list[Row]:
    facts = {place: dict(zip(header, map(_text, row), strict=True)) for place, row in cells.items()}
    for name in filter(None, [*asked.metric, *asked.by, asked.seed]):
        if name not in header and name != UNPAIRED:
            raise ValueError(f"{source or 'the table'} has no column {name}; {did_you_mean(name, header)}")
    if not asked.whole:
        raise ValueError(_listing(source, asked, list(facts.values())))

    def curve(place: str, tag: str) -> Series | None:
        cell = cells[place][header.index(tag)]
        if not _text(cell) and not isinstance(cell, float):
            return None
        return array("d", [0]), numbers([cell], lambda _: f"{place}, {tag}", asked.decimal)

    return [Row(place, own, partial(curve, place)) for place, own in facts.items()]


def _text(cell: Any) -> str:
    """A cell as text; empty where it is missing."""
    text = str(cell).strip()
    return text if isinstance(cell, str) or text not in ("None", "nan", "<NA>", "NaT") else ""


def _grouped(rows: Sequence[Row], asked: Asked) -> list[Run]:
    """The runs of ``rows`` that meet the conditions, with their groups and seeds."""
    known = {key for row in rows for key in row.facts}
    for key, wanted in conditions(asked.where).items():
        there = sorted({row.facts.get(key, "") for row in rows})
        rows = [row for row in rows if row.facts.get(key) in wanted]
        if not rows:
            other = f"{key} is one of {', '.join(there[:MOST])}" if key in known else did_you_mean(key, known)
            raise ValueError(f"--where {key}={wanted[0]}: no run has it; {other}")
    pattern = tuple(key for key in re.findall(r"\{(\w+)\}", asked.runs) if key != "seed")
    keys, seed = tuple(asked.by) or pattern, asked.seed or "seed"
    numbered = seed != UNPAIRED or seed in known
    if not numbered:
        _refuse_curves(rows, keys, asked)
    runs: list[Run] = []
    places: dict[tuple[tuple[str, ...], int], str] = {}
    sizes: Counter[tuple[str, ...]] = Counter()
    largest: dict[str, float] = dict.fromkeys(asked.metric, 0.0)
    quantities: dict[str, dict[str, Any]] = {}
    for row in rows:
        series = {tag: curve for tag in asked.metric if (curve := row.curve(tag))}
        if not series and row.tags is not None:
            why = row.problem or f"no {' or '.join(asked.metric)} in it"
            runs.append(Run(Path(row.place), "damaged" if row.problem else "unfinished", why))
            continue
        group = tuple(_fact(row, key, "--by", known) for key in keys)
        at = _seed(row, seed, known) if numbered else sizes[group]
        if (group, at) in places:
            said = ", ".join(f"{key} {text}" for key, text in zip((*keys, "seed"), (*group, at), strict=True))
            raise ValueError(
                f"{places[group, at]} and {row.place} are both {said}: keep one, tell them apart by --by, "
                "or, if they are steps of one run, keep the last"
            )
        places[group, at] = row.place
        sizes[group] += 1
        values: Any = {tag: asked.value(one, row.place) for tag, one in series.items()}
        largest |= {tag: max(largest[tag], abs(x)) for tag, x in values.items() if math.isfinite(x)}
        choices: dict[str, Any] = {name: {"name": row.facts.get(name, "")} for name in NAMED}
        found = Results(**choices, seed=at, measured=values, quantities=quantities)
        of = row.facts, keys, numbered, series, asked, "" if row.tags is None else asked.counted
        runs.append(Logged(Path(row.place), "done", row.problem, found, *of))
    for tag in asked.metric:
        # Values near 1 are shown with four decimals.
        form, headline = "ratio" if 0.1 <= largest[tag] < 10 else "number", tag != asked.metric[0]
        shown = {"form": form, "better": asked.better(tag), "shown": "compare", "headline": headline}
        quantities[tag] = {"title": tag, "definition": ""} | shown
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


def _refuse_curves(rows: Sequence[Row], keys: Sequence[str], asked: Asked) -> None:
    """A ValueError if a column of a table numbers the rows of each choice, as steps or seeds do."""
    groups: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in rows:
        if row.tags is None:
            groups[tuple(row.facts.get(key, "") for key in keys)].append(row)
    several = [own for own in groups.values() if len(own) > 1]
    for key in {**rows[0].facts}.keys() - {*keys, *asked.metric} if several else ():
        named = bool(STEPS.search(key))
        try:
            found = _numbering([numbers([row.facts[key] for row in own], str) for own in several], named)
        except ValueError:
            continue
        if found:
            name, ends = key or "the first column", f"{found[0]:g} to {found[-1]:g}"
            seeds = "" if named else f"if it numbers the runs, --seed {key}; "
            raise ValueError(
                f"{name} rises from {ends} in rows of one choice, {several[0][0].place} and below: "
                f"{seeds}if they are steps of a run, keep its last; if it is a setting, name it in --by"
            )


def _numbering(groups: Sequence[Sequence[float]], named: bool) -> Sequence[float]:
    """The numbers of the longest group if all are steps of curves, in any order; empty if they are not.

    All groups have the same numbers, or the first of them, each as often. Of five numbers, or in a column
    ``named`` as steps are, some may be rarer than those before; named ones that are evenly spaced may begin
    anywhere.
    """
    counts = [sorted(Counter(group).items()) for group in groups]
    values = [[x for x, _ in own] for own in counts]
    often = [[n for _, n in own] for own in counts]
    longest, least, most = max(values, key=len), min(map(len, values)), max(map(max, often))
    alike = all(own == longest[: len(own)] for own in values) and least > 1 + (most > 1)
    even = named and least > 3 and all(len({f"{y - x:g}" for x, y in pairwise(own)}) == 1 for own in values)
    whole = all(len({*own}) == 1 for own in often)
    early = (named or least > 4) and all(own == sorted(own, reverse=True) for own in often)
    several = named or most > 1 or len(groups) > 1
    return longest if several and ((alike and (whole or early)) or (even and early)) else []


def _listing(
    source: str,
    asked: Asked,
    facts: Sequence[Mapping[str, str]],
    places: Sequence[str] = (),
    tags: Mapping[str, int] | None = None,
) -> str:
    """All that can be named, and the line to type."""
    every = dict.fromkeys(key for own in facts for key in own)
    columns = {key: list(dict.fromkeys(own.get(key, "") for own in facts)) for key in every}
    differing = {key: values for key, values in columns.items() if len(values) > 1}
    count = f"{source or 'the table'} holds {len(places) or len(facts)} runs"
    lines = [f"{count}: name the metric, what makes a choice, and the seed"]
    for key, values in list(differing.items())[:MOST]:
        more = ", ..." * (len(values) > 4)
        lines.append(f"  {key or '(no name)'}: {len(values)} values, {', '.join(values[:4])[:60]}{more}")
    lines += [f"  {tag}: logged by {often} runs" for tag, often in list((tags or {}).items())[:MOST]]
    lines += [f"  runs: {', '.join(places[:4])}{', ...' * (len(places) > 4)}"] * bool(places)
    seeds = [key for key in differing if "seed" in key.lower()] or ["COLUMN"]
    some = [key for key, values in differing.items() if key not in seeds and 2 * len(values) <= len(facts)]
    metrics = list(tags) if tags is not None else [key for key in differing if key not in (*seeds, *some)]
    words = {"metric": ",".join(asked.metric) or (metrics[0] if len(metrics) == 1 else "METRIC")}
    ids = {"by": ",".join(asked.by) or [*some, "COLUMN"][0], "seed": asked.seed or seeds[0]}
    if places and (asked.runs or "COLUMN" in ids.values()):
        ids = {"runs": asked.runs or "{group}/seed_{seed}"}
    words |= ids
    said = " ".join(f"--{key} {shlex.quote(text)}" for key, text in words.items())
    python = ", ".join(f"{key}={text!r}" for key, text in words.items())
    lines.append(f"type: cnnpool compare {source} {said}" if source else f"type: compare(table, {python})")
    lines.append(f"where no number says which runs belong together: --seed {UNPAIRED}")
    return "\n".join(lines)


def short(label: str, runs: Iterable[Run], tag: str) -> list[str]:
    """A sentence if some runs of a group end at an earlier step than most: they may be unfinished."""
    ends = {run.folder: run.series[tag][0][-1] for run in logged(runs) if tag in run.series}
    usual = max(ends.values(), key=[*ends.values()].count, default=0)
    early = [f"{folder} at step {step:g}" for folder, step in ends.items() if step < usual]
    some = f"{len(early)} of {len(ends)} runs end before step {usual:g}, such as {', '.join(early[:3])}"
    return [f"{label}: {some}: unfinished?"] * bool(early)


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
    first, asked = own[0], own[0].asked
    sizes = sorted({len(group) for group in groups})
    size = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    why = "their seeds differ" if first.numbered else "no seed says which belong together"
    pairs = "paired by seed" if paired(groups) else f"not paired, since {why} (Welch's test)"
    by = "" if first.by == ("group",) else f" by {', '.join(first.by)}"
    counted = f"{len(groups)} group{'s' * (len(groups) > 1)}{by}, {size} run{'s' * (sizes[-1] > 1)} each"
    known = {tag: asked.better(tag) for tag in tags}
    told = [f"{way} {tag}" for tag, way in known.items() if way]
    open_ = ", ".join(tag for tag, way in known.items() if not way)
    said = [f"{' and '.join(told)} {'are' if len(told) > 1 else 'is'} better"] * bool(told)
    said += [f"no better direction is known for {open_}"] * bool(open_)
    better = "; ".join(said) if asked.best else f"by name, {'; '.join(said)} (--best sets another)"
    if first.counted:
        worse = "" if asked.points else ", which is optimistic: on other data it would be worse"
        the = "its" if asked.points < 2 else "the"
        better = f"each run counts by {the} {first.counted}{worse}; {better}"
    return f"{counted}, {pairs}. {better[0].upper()}{better[1:]}."
