"""A comparison of the current runs, with the unfinished ones listed under their choices."""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from werkzeug.datastructures import MultiDict

from cnnpool.report.choice import DifferentRunsError, frozen, group, known, labels, meets, natural, varying
from cnnpool.report.comparison import Comparison, compare
from cnnpool.report.foreign import logged
from cnnpool.report.measure import ACCURACY
from cnnpool.report.runs import Run, keys_of
from cnnpool.run_folder import layout
from cnnpool.run_folder.errors import DamagedError
from cnnpool.run_folder.reading import read_yaml
from cnnpool.run_folder.results import NAMED, SCHEMA, Results, from_json

ROOMS = ("pool", "readout", "model")
Arguments = MultiDict[str, str]


@dataclass(frozen=True)
class Query:
    """The runs to compare, in a folder below the log folder, and how, as in ``cnnpool compare``."""

    folder: str = ""
    by: tuple[str, ...] = ()
    where: tuple[str, ...] = ()
    metric: str = ACCURACY
    baseline: str = ""
    allow: tuple[str, ...] = ()


def query(arguments: Arguments) -> Query:
    return Query(
        folder=(arguments.get("folder") or "").strip("/"),
        by=tuple(keys_of(arguments.get("by"))),
        where=tuple(filter(None, arguments.getlist("where"))),
        metric=arguments.get("metric") or ACCURACY,
        baseline=arguments.get("baseline") or "",
        allow=tuple(keys_of(arguments.get("allow"))),
    )


def chosen(arguments: Arguments, name: str, among: Mapping[str, object]) -> str:
    """The value of ``name`` if it is in ``among``, else the first of these."""
    value = arguments.get(name) or ""
    return value if value in among else next(iter(among))


def inside(runs: Sequence[Run], root: Path, folder: str) -> list[Run]:
    """The runs in ``folder`` below ``root``; compares paths only as text."""
    wanted = tuple(part for part in folder.split("/") if part)
    return [run for run in runs if run.folder.relative_to(root).parts[: len(wanted)] == wanted]


@dataclass(frozen=True)
class Compared:
    """A comparison, or the reason for a refusal, with the values of the keys in which runs may not differ."""

    comparison: Comparison | None = None
    refusal: str = ""
    differing: dict[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class View:
    """Runs in the query's folder, the comparison, unfinished runs by label, and labels by colour."""

    runs: list[Run]
    compared: Compared
    going: dict[str, list[Run]]
    palette: tuple[str, ...]


@dataclass
class Palette:
    """Labels in the order in which they got their colours: a choice keeps its colour in every view."""

    labels: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, labels: Iterable[str]) -> tuple[str, ...]:
        """All labels so far, followed by the new ones of ``labels``."""
        with self.lock:
            self.labels += sorted(set(labels) - set(self.labels), key=natural)
            return tuple(self.labels)


def view(
    runs: Sequence[Run],
    query: Query,
    palette: Callable[[Sequence[str]], Palette],
    once: Callable[[Sequence[str], Callable[[], Compared]], Compared] = lambda _, make: make(),
) -> View:
    """The view of ``runs``; ``palette`` keeps the colours, and ``once`` the comparison, of keys ``by``."""
    begun = [replace(run, found=own) for run in runs if not run.found and (own := asked(run.folder))]
    begun = [run for run in begun if run.state != "damaged" and _wanted(run, query)]
    done = [run for run in runs if run.found]
    by = list(query.by) or _keys([run for run in done if _wanted(run, query)], begun)
    compared = once(by, lambda: _compared(done, by, query))
    if any(not known([*done, *begun], key) for key in query.by):
        return View(list(runs), compared, {}, ())
    going = _going(compared.comparison, begun, by)
    named = [row.choice.label for row in compared.comparison.rows] if compared.comparison else []
    order = palette(by).add([*_everywhere(done, by), *named, *going])
    if compared.comparison:
        compared = replace(compared, comparison=replace(compared.comparison, palette=order))
    return View(list(runs), compared, going, order)


def _wanted(run: Run, query: Query) -> bool:
    return all(meets(run, condition) for condition in query.where)


def _compared(done: Sequence[Run], by: Sequence[str], query: Query) -> Compared:
    if not done:
        return Compared()
    against = query.baseline or None
    metric = "" if logged(done) and query.metric == ACCURACY else query.metric
    try:
        found = compare(done, by=by, where=query.where, metric=metric, against=against, allow=query.allow)
        return Compared(found)
    except ValueError as error:
        differing = error.values if isinstance(error, DifferentRunsError) else {}
        return Compared(refusal=str(error), differing=differing)


def _keys(done: Sequence[Run], begun: Sequence[Run]) -> list[str]:
    """The keys that form a choice, even if the first finished runs all belong to one choice."""
    among = varying(done) if done else ["pool"]
    if logged(done):
        return among
    names = {key: {getattr(run.results, key)["name"] for run in [*done, *begun]} for key in ROOMS}
    return [key for key in ROOMS if key in among or len(names[key]) > 1]


def _everywhere(runs: Sequence[Run], by: Sequence[str]) -> list[str]:
    """The labels without any filter: a filter must not change colours."""
    try:
        return [choice.label for choice in group(runs, by)]
    except ValueError:
        return []


def _going(comparison: Comparison | None, begun: Sequence[Run], by: Sequence[str]) -> dict[str, list[Run]]:
    def key(run: Run) -> tuple[str, ...]:
        return tuple(frozen(run, one) for one in by)

    rows = comparison.rows if comparison else []
    own = [list(row.choice.runs.values()) for row in rows]
    named = {key(some[0]): row.choice.label for some, row in zip(own, rows, strict=True)}
    groups: dict[tuple[str, ...], list[Run]] = defaultdict(list)
    for run in begun:
        groups[key(run)].append(run)
    new = [one for one in groups if one not in named]
    every = labels([*own, *(groups[one] for one in new)], by) if own or new else []
    named |= dict(zip(new, every[len(own) :], strict=True))
    found: dict[str, list[Run]] = defaultdict(list)
    for one, some in groups.items():
        found[named[one]] += some
    return found


def asked(folder: Path) -> Results | None:
    """The choices and settings of a run at its start, without numbers; None if they cannot be read."""
    settings = _settings(folder / layout.SETTINGS / "config.yaml")
    overrides = _settings(folder / layout.SETTINGS / "overrides.yaml")
    try:
        own = (settings.get("stage") or {}).items()
        # An operator of its own, not the run's.
        stages = {stage: node for stage, node in own if node["name"] != "inherit"}
        named = {name: settings[name] for name in (*NAMED, "seed", "fit")}
        return from_json({"schema": SCHEMA, **named, "stages": stages, "overrides": overrides or []})
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def unreadable(folder: Path) -> str:
    """Why the settings of a run cannot be read; empty if they can, or do not exist."""
    found = _settings(folder / layout.SETTINGS / "config.yaml")
    return str(found) if isinstance(found, DamagedError) else ""


def _settings(path: Path) -> Any:
    try:
        now = path.stat()
    except OSError:
        return None
    return _parsed(path, now.st_mtime_ns, now.st_ino)


@lru_cache(maxsize=4096)
def _parsed(path: Path, _changed: int, _inode: int) -> Any:
    """The content of a file, or the error if it cannot be read."""
    try:
        return read_yaml(path)
    except DamagedError as error:
        return error
