"""Folders of logs -> rows: which logs are one run, what its parameters are, and its curves by their names."""

import math
import os
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

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
    """A run's place, its logs (a folder with event files, or a CSV file), and its parameters."""

    place: str
    logs: list[Path] = field(default_factory=list)
    facts: dict[str, dict[str, None]] = field(default_factory=lambda: defaultdict(dict))


def homes(
    paths: Sequence[Path], found: Sequence[Entered], files: Sequence[Path], pattern: str
) -> tuple[list[Home], list[Path]]:
    """The runs below ``paths``, and the logs that are of none since they do not fit the ``pattern``.

    With a pattern a run is a path that fits it, with all logs below. Without, it is the folder of a job of
    Hydra's, or else of Lightning's parameters, or else of logs, with those of ``add_scalars`` below.
    """
    events = {one.folder for one in found if any(map(is_events, one.files))}
    logs = list(files)
    for one in found:
        logs += [one.folder] * (one.folder in events)
        logs += [one.folder / name for name in sorted(one.files) if name.endswith(".csv")]
    base = os.path.commonpath([os.path.abspath(path.parent if path in files else path) for path in paths])
    known: dict[Path, list[tuple[str, Any]]] = {}
    runs: dict[str, Home] = {}
    unfit = []
    for path in logs:
        folder, relative = _folder(path), Path(os.path.relpath(path, base)).as_posix()
        above = [folder, *folder.parents][: relative.count("/") + 1]
        # The nearest of each, in their order.
        nearest = {name: one for name in PARAMETERS for one in reversed(above) if (one / name).is_file()}
        top = folder.parent if folder.parent in events else folder
        place, own = str([top, *nearest.values()][-1]), []
        if pattern:
            if not (fit := _fit(pattern, relative)):
                unfit.append(path)
                continue
            place, own = str(path)[: len(str(path)) - len(relative) + fit.end()], [*fit.groupdict().items()]
        home = runs.setdefault(place, Home(place))
        home.logs.append(path)
        for file in [one / name for name, one in nearest.items()]:
            known[file] = known.get(file) or _parameters(file)
            own += known[file]
        for key, value in own:
            home.facts[key][str(value)] = None
    return list(runs.values()), unfit


def _parameters(file: Path) -> list[tuple[str, Any]]:
    try:
        return [(key, value) for key, value in flat(read_yaml(file)) if key]
    except DamagedError as error:
        raise ValueError(f"{error}; mend or remove it") from None


def _folder(path: Path) -> Path:
    return path if path.is_dir() else path.parent


def read(home: Home, metrics: Sequence[str], decimal: str) -> Row:
    """The curves of a run; logs that are damaged are named, and the rest is read."""
    wanted = {metric.split("/", cut)[-1] for metric in metrics for cut in range(metric.count("/") + 1)}
    logs: list[tuple[int, tuple[str, ...], Log]] = []
    tags: dict[str, None] = {}
    problems = []
    for path in home.logs:
        try:
            one = event_log(path, wanted) if path.is_dir() else csv_log(path, wanted, decimal)
        except DamagedError as error:
            problems.append(str(error))
            continue
        below = Path(os.path.relpath(path if path.is_dir() else path.with_suffix(""), home.place)).parts
        logs.append((len(Path(os.path.relpath(_folder(path), home.place)).parts), below, one))
        problems.append(one.problem)
        for tag in one.tags:
            tags["/".join([*below[-1:], tag]) if tag in tags else tag] = None
    # A key of which two sources say different things has both as its value, which a choice's label shows.
    facts = {key: " and ".join(texts) for key, texts in home.facts.items()}
    return Row(home.place, facts, partial(_curve, home.place, logs), tags, "; ".join(filter(None, problems)))


def _curve(place: str, logs: Sequence[tuple[int, tuple[str, ...], Log]], name: str) -> Series | None:
    """The curve ``name`` of the logs that lie highest, which must agree.

    It may be named by folders above it, or by its file: ``validation/loss`` is ``loss`` in ``validation``.
    """
    every = [
        (depth, below, log, curve)
        for depth, below, log in logs
        for tag, curve in log.curves.items()
        if any("/".join(["", *own, tag]).endswith(f"/{name}") for own in (below, below[:depth]))
        and name.endswith(tag)
    ]
    highest = [one for one in every if one[0] == min(depth for depth, *_ in every)]
    for _, below, other, (_, values) in highest[1:]:
        _, above, first, (_, wanted) = highest[0]
        if len(values) != len(wanted) or not all(map(_close, values, wanted)):
            own, rest = (below, above) if {*below} - {*above} else (above, below)
            at = max((at for at, part in enumerate(own) if part not in rest), default=0)
            raise ValueError(
                f"{place} is one run, but {name} differs between {first.path} and {other.path}: name one, as "
                f"in --metric {'/'.join([*own[at:], name])}, or say by --runs which paths are runs"
            )
    return highest[0][3] if highest else None


def _close(x: float, y: float) -> bool:
    return math.isclose(x, y, rel_tol=CLOSE) or (x != x and y != y)


def _fit(pattern: str, path: str) -> re.Match[str] | None:
    """Where ``path`` fits the ``pattern``, and the texts in its braces."""
    starts = [0, *(slash.end() for slash in re.finditer("/", path))]
    every = [fit for at in starts for way in _ways(pattern) if (fit := way.match(path, at))]
    if len({(fit.span(), *fit.groups()) for fit in every}) > 1:
        several = " or ".join(dict.fromkeys(str(fit.groupdict()) for fit in every))
        raise ValueError(f"--runs {pattern}: {path} fits in several ways, {several}: write more of the path")
    return every[0] if every else None


@cache
def _ways(pattern: str) -> list[re.Pattern[str]]:
    """``pattern`` with as little text in its braces as it allows, and with as much."""
    parts = re.split(r"\{(\w+)\}", pattern)
    keys = parts[1::2]
    if not {*keys} - {"seed"} or len({*keys}) < len(keys) or {*"{}"} & {*"".join(parts[::2])}:
        raise ValueError(
            f"--runs {pattern}: name parts of a path, once each, such as {{group}}/seed_{{seed}}"
        )
    ways = []
    for much in ("+?", "+"):
        of = {key: f"(?P<{key}>{'[0-9]{1,18}' if key == 'seed' else f'[^/]{much}'})" for key in keys}
        found = "".join(of[part] if place % 2 else re.escape(part) for place, part in enumerate(parts))
        ways.append(re.compile(rf"{found}(?=/|$|\.csv$)"))
    return ways
