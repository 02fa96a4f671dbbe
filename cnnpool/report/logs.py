"""Folders of logs -> rows: which logs are one run, what its parameters are, and its curves by their names."""

import math
import os
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from cnnpool.json_text import flat
from cnnpool.report.runs import Entered
from cnnpool.report.scalars import Log, Series, csv_log, event_log, is_events
from cnnpool.run_folder import layout
from cnnpool.run_folder.errors import DamagedError
from cnnpool.run_folder.reading import read_yaml

PARAMETERS = ("hparams.yaml", f"{layout.SETTINGS}/config.yaml")
"""Files with parameters: Lightning's, beside its logs, and Hydra's, in the folder of a job."""
CLOSE = 1e-6  # Relative difference up to which two logs agree: event files hold 32 bits


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
    """A run's place, its logs (a folder with its event files, or a CSV file), and its parameters."""

    place: str
    units: list[tuple[Path, list[str]]] = field(default_factory=list)
    facts: dict[str, dict[str, None]] = field(default_factory=lambda: defaultdict(dict))


def homes(
    paths: Sequence[Path], found: Sequence[Entered], files: Sequence[Path], pattern: str
) -> tuple[list[Home], list[str]]:
    """The runs below ``paths``, and the logs that are of none since they do not fit the ``pattern``.

    With a pattern a run is a path that fits it, with all logs below. Without, it is the folder of a job of
    Hydra's, or else of Lightning's parameters, or else of logs.
    """
    units = [(path, [path.name]) for path in files]
    for one in found:
        events = sorted(filter(is_events, one.files))
        units += [(one.folder, events)] * bool(events)
        units += [(one.folder / name, [name]) for name in sorted(one.files) if name.endswith(".csv")]
    base = os.path.commonpath([os.path.abspath(path.parent if path in files else path) for path in paths])
    fits = _fitting(pattern) if pattern else None
    known: dict[Path, Mapping[str, str]] = {}
    runs: dict[str, Home] = {}
    unfit = []
    for path, names in units:
        folder, relative = _folder(path, names), Path(os.path.relpath(path, base)).as_posix()
        above = [folder, *folder.parents][: relative.count("/") + 1]
        sources = {name: [one for one in above if (one / name).is_file()][:1] for name in PARAMETERS}
        own: dict[str, str] = {}
        place = str([*sources[PARAMETERS[1]], *sources[PARAMETERS[0]], folder][0])
        if fits:
            if not (fit := fits(relative)):
                unfit.append(str(path))
                continue
            end, own = fit
            place = str(path)[: len(str(path)) - len(relative) + end]
        home = runs.setdefault(place, Home(place))
        home.units.append((path, names))
        for file in [one / name for name, some in sources.items() for one in some]:
            known[file] = known.get(file) or {key: str(value) for key, value in flat(read_yaml(file)) if key}
            for key, text in known[file].items():
                home.facts[key][text] = None
        for key, text in own.items():
            home.facts[key][text] = None
    return list(runs.values()), unfit


def _folder(path: Path, names: Sequence[str]) -> Path:
    return path if is_events(names[0]) else path.parent


def read(home: Home, metrics: Sequence[str], decimal: str) -> Row:
    """The curves of a run; logs that are damaged are named, and the rest is read.

    A curve may be named by folders above it: ``validation/loss`` is ``loss`` in ``validation``.
    """
    wanted = {part for tag in metrics for part in _ends(tag)}
    curves: dict[str, list[tuple[int, Log, Series]]] = defaultdict(list)
    tags: dict[str, None] = {}
    problems = []
    for path, names in home.units:
        below = Path(os.path.relpath(_folder(path, names), home.place)).parts
        try:
            one = event_log(path, names, wanted) if is_events(names[0]) else csv_log(path, wanted, decimal)
        except DamagedError as error:
            problems.append(str(error))
            continue
        problems.append(one.problem)
        for tag in one.tags:
            tags["/".join([*below[-1:], tag]) if tag in tags else tag] = None
        for tag, curve in one.curves.items():
            for name in _ends("/".join([*below, tag])):
                if name.endswith(tag):
                    curves[name].append((len(below), one, curve))
    # A key of which two sources say different things has both as its value, which a choice's label shows.
    facts = {key: " and ".join(texts) for key, texts in home.facts.items()}
    problem = "; ".join(filter(None, problems))
    return Row(home.place, facts, partial(_curve, home.place, curves), tags, problem)


def _ends(name: str) -> Iterator[str]:
    """``a/b/c``, ``b/c`` and ``c``."""
    return (name.split("/", cut)[-1] for cut in range(name.count("/") + 1))


def _curve(place: str, curves: Mapping[str, Sequence[tuple[int, Log, Series]]], name: str) -> Series | None:
    """The curve ``name`` of the logs that lie highest, which must agree."""
    every = curves.get(name, ())
    highest = [(one, curve) for depth, one, curve in every if depth == min(x[0] for x in every)]
    for other, (_, values) in highest[1:]:
        first, (_, wanted) = highest[0]
        pairs = zip(values, wanted, strict=False)
        close = (math.isclose(x, y, rel_tol=CLOSE) or (x != x and y != y) for x, y in pairs)
        if len(values) != len(wanted) or not all(close):
            raise ValueError(
                f"{place} is one run, but {name} differs between {first.path} and {other.path}: name one, as "
                f"in --metric {other.path.name}/{name}, or say by --runs which paths are runs"
            )
    return highest[0][1] if highest else None


def _fitting(text: str) -> Callable[[str], tuple[int, dict[str, str]] | None]:
    """Where the part of a path that fits the pattern ends, and the texts in its braces."""
    parts = re.split(r"\{(\w+)\}", text)
    keys = parts[1::2]
    if not {*keys} - {"seed"} or len({*keys}) < len(keys) or {*"{}"} & {*"".join(parts[::2])}:
        raise ValueError(f"--runs {text}: name parts of a path, once each, such as {{group}}/seed_{{seed}}")
    ways = []
    for much in ("+?", "+"):
        of = {key: f"(?P<{key}>{'[0-9]{1,18}' if key == 'seed' else f'[^/]{much}'})" for key in keys}
        found = "".join(of[part] if place % 2 else re.escape(part) for place, part in enumerate(parts))
        ways.append(re.compile(rf"{found}(?=/|$|\.csv$)"))

    def fits(path: str) -> tuple[int, dict[str, str]] | None:
        starts = [0, *(slash.end() for slash in re.finditer("/", path))]
        every = [fit for at in starts for way in ways if (fit := way.match(path, at))]
        if len({(fit.span(), *fit.groups()) for fit in every}) > 1:
            several = " or ".join(dict.fromkeys(str(fit.groupdict()) for fit in every))
            raise ValueError(f"--runs {text}: {path} fits in several ways, {several}: write more of the path")
        return (every[0].end(), every[0].groupdict()) if every else None

    return fits
