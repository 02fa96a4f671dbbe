"""Folders of logs -> rows: which logs are one run, what its parameters are, and its curves by their names."""

import os
import re
from array import array
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

from cnnpool.json_text import flat
from cnnpool.report.runs import Entered
from cnnpool.report.scalars import Series, csv_log, event_log, is_events
from cnnpool.run_folder import layout
from cnnpool.run_folder.errors import DamagedError
from cnnpool.run_folder.reading import read_yaml

PARAMETERS = ("hparams.yaml", f"{layout.SETTINGS}/config.yaml")
"""Files with parameters: Lightning's, beside its logs, and Hydra's, in the folder of a job."""
PATTERN = "{group}/seed_{seed}"  # Suggested for --runs
Found = Mapping[str, Sequence[tuple[int, Path, list[str], Series]]]
"""By name the curves that go by it: depth of their log below the run, its path, all their names, points."""


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


def within(one: Entered) -> list[Path]:
    """The logs in a folder: itself for its event files, and its CSV files."""
    tables = [one.folder / name for name in sorted(one.files) if name.endswith(".csv")]
    return [one.folder] * any(map(is_events, one.files)) + tables


def homes(
    paths: Sequence[Path], found: Sequence[Entered], files: Sequence[Path], pattern: str
) -> tuple[list[Home], list[Path]]:
    """The runs below ``paths``, and the logs that are of none since they do not fit the ``pattern``.

    With a pattern a run is a path that fits it, with all logs below. Without, it is the folder of a job of
    Hydra's, or else of Lightning's parameters, or else of logs, with those of ``add_scalars`` below.
    """
    logs = {path: path.parent for path in files} | {path: one.folder for one in found for path in within(one)}
    events = {path for path, folder in logs.items() if path == folder}
    base = os.path.commonpath([os.path.abspath(path.parent if path in files else path) for path in paths])
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
