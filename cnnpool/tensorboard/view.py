"""The contents of a tab: the runs and the form in its address, their comparison, and those that go on."""

import re
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from werkzeug.datastructures import MultiDict

from cnnpool.report.choice import (
    SILENT,
    DifferentRunsError,
    chosen_by,
    frozen,
    group,
    known,
    labels,
    meets,
    natural,
    text_at,
    typed,
    varying,
)
from cnnpool.report.comparison import Comparison, compare
from cnnpool.report.measure import ACCURACY, columns, known_keys, measure, quantities_of
from cnnpool.report.runs import Run, keys_of, trained
from cnnpool.run_folder import layout
from cnnpool.run_folder.errors import DamagedError
from cnnpool.run_folder.reading import read_yaml
from cnnpool.run_folder.results import NAMED, Results, from_settings
from cnnpool.tensorboard.index import Runs, Snapshot, content_of, stamp_of

CHOICES = ("pool", "readout", "model")
MOST_VALUES = 24  # Most values of a setting offered as filters
WAYS = 12  # Most settings offered where runs cannot be compared
WORDS = {"metric": "Measure", "by": "Group by", "where": "Filter", "baseline": "Baseline", "allow": "mixed"}
"""An option of ``cnnpool compare`` -> its name on the page."""


@dataclass(frozen=True)
class Query:
    """The form: runs in a folder below the log folder, how they are compared, and what figures show."""

    folder: str = ""
    by: tuple[str, ...] = ()
    where: tuple[str, ...] = ()
    metric: str = ""
    baseline: str = ""
    allow: tuple[str, ...] = ()
    stage: str = ""
    seeds: str = ""

    @property
    def runs(self) -> "Query":
        """The part that decides the comparison."""
        return replace(self, stage="", seeds="")

    @property
    def items(self) -> list[tuple[str, str]]:
        """Key and value of everything that is chosen, as in an address."""
        every = ((key, [value] if isinstance(value, str) else value) for key, value in asdict(self).items())
        return [(key, value) for key, values in every for value in values if value]

    def url(self, route: str, *more: tuple[str, str], **changes: Any) -> str:
        """The address below the plugin's of this query with ``changes``, and ``more`` parameters."""
        items = [*replace(self, **changes).items, *more]
        return f"{route}?{urlencode(items)}" if items else route


def query(arguments: MultiDict[str, str]) -> Query:
    """The form's values, without those that are ``automatic`` anyway."""
    by = tuple(key for text in arguments.getlist("by") for key in keys_of(text))
    automatic = arguments.getlist("automatic")
    metric = arguments.get("metric") or ""
    return Query(
        folder=(arguments.get("folder") or "").strip("/"),
        by=() if f"by={','.join(sorted(by))}" in automatic else by,
        where=tuple(dict.fromkeys(filter(None, arguments.getlist("where")))),
        metric="" if f"metric={metric}" in automatic else metric,
        baseline=arguments.get("baseline") or "",
        allow=tuple(key for text in arguments.getlist("allow") for key in keys_of(text)),
        stage=arguments.get("stage") or "",
        seeds="1" if arguments.get("seeds") == "1" else "",
    )


@dataclass(frozen=True)
class Way:
    """A way out of a refusal: runs differ in ``key``; what to choose, and the query that does."""

    key: str
    choices: list[tuple[str, Query]]


@dataclass(frozen=True, eq=False)
class Compared:
    """A comparison, or the reason for a refusal with the ways out of it; neither without finished runs."""

    comparison: Comparison | None = None
    refusal: str = ""
    ways: list[Way] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class View:
    """A comparison, unfinished runs by label, and labels by colour."""

    compared: Compared
    going: Mapping[str, list[Run]] = field(default_factory=dict)
    palette: tuple[str, ...] = ()

    @cached_property
    def comparison(self) -> Comparison | None:
        found = self.compared.comparison
        return found and replace(found, palette=self.palette)


Palettes = defaultdict[tuple[str, ...], dict[str, None]]
"""By the keys of a choice, labels in the order of their colours: a choice keeps its colour in every view."""


def view(now: Snapshot, query: Query, palettes: Palettes) -> View:
    """The runs as ``query`` asks for them; adds new labels to the ``palettes``."""
    runs = now.inside(query.folder)
    begun = [run for run in runs if run.state not in ("done", "damaged")]
    begun = [replace(run, found=own) for run in begun if (own := settings_of(run.folder))]
    begun = [run for run in begun if meets(run, query.where)]
    done = [run for run in runs if run.found]
    by = query.by or _keys(trained([run for run in done if meets(run, query.where)]), begun)
    compared = _compared(now.finished, by, query.runs)
    if any(not known([*done, *begun], key) for key in query.by):
        return View(compared)
    going = _going(compared.comparison, begun, by)
    named = [row.choice.label for row in compared.comparison.rows] if compared.comparison else []
    palette = palettes[by]
    for label in sorted([*_everywhere(trained(done), by), *named, *going], key=natural):
        palette.setdefault(label)
    return View(compared, going, tuple(palette))


@lru_cache(maxsize=32)
def _compared(finished: Runs, by: tuple[str, ...], query: Query) -> Compared:
    done = finished.inside(query.folder)
    if all(run.diverged for run in done):
        return Compared()
    chosen = {"metric": query.metric, "against": query.baseline or None, "allow": query.allow}
    try:
        return Compared(compare(done, by=by, where=query.where, **chosen))  # type: ignore[arg-type]
    except DifferentRunsError as error:
        return Compared(refusal=error.said, ways=_ways(error, by, query))
    except ValueError as error:
        return Compared(refusal=re.sub(r"(?<![\w-])--(\w+)", _word, str(error)))


def _word(option: re.Match[str]) -> str:
    """The page's name of an option; what a user wrote stays."""
    return WORDS.get(option[1], option[0])


def _ways(error: DifferentRunsError, by: Sequence[str], query: Query) -> list[Way]:
    found = []
    for key, values in list(error.values.items())[:WAYS]:
        short, one = typed(key), chosen_by(key)
        choices = [
            (f"only {value}", replace(query, where=(*query.where, f"{short}={value}")))
            for value in values[:MOST_VALUES]
        ]
        choices.append(("tell them apart", replace(query, by=(*by, one), baseline="")))
        if error.mixable:
            choices.append(("mix them", replace(query, allow=(*query.allow, one))))
        found.append(Way(short, choices))
    return found


def _keys(done: Sequence[Run], begun: Sequence[Run]) -> tuple[str, ...]:
    """The keys that form a choice, even if the first finished runs all belong to one choice."""
    among = varying(done) if done else ["pool"]
    names = {key: {getattr(run.results, key)["name"] for run in [*done, *begun]} for key in CHOICES}
    chosen = [key for key in CHOICES if key in among or len(names[key]) > 1]
    return tuple(dict.fromkeys([*chosen, *among]))


def _everywhere(runs: Sequence[Run], by: Sequence[str]) -> list[str]:
    """The labels without any filter: a filter must not change colours."""
    try:
        return [choice.label for choice in group(runs, by)]
    except ValueError:
        return []


def _going(comparison: Comparison | None, begun: Sequence[Run], by: Sequence[str]) -> dict[str, list[Run]]:
    def key(run: Run) -> tuple[Hashable, ...]:
        return tuple(frozen(run, one) for one in by)

    rows = comparison.rows if comparison else []
    own = [list(row.choice.runs.values()) for row in rows]
    named = {key(some[0]): row.choice.label for some, row in zip(own, rows, strict=True)}
    groups: dict[tuple[Hashable, ...], list[Run]] = defaultdict(list)
    for run in begun:
        groups[key(run)].append(run)
    new = [one for one in groups if one not in named]
    every = labels([*own, *(groups[one] for one in new)], by) if own or new else []
    named |= dict(zip(new, every[len(own) :], strict=True))
    found: dict[str, list[Run]] = defaultdict(list)
    for one, some in groups.items():
        found[named[one]] += some
    return found


@dataclass(frozen=True)
class Offer:
    """The form's offers from the finished runs: measures, and settings that differ with their values."""

    shown: list[tuple[str, str]] = field(default_factory=list)
    others: list[tuple[str, str]] = field(default_factory=list)
    settings: dict[str, list[str]] = field(default_factory=dict)


@lru_cache(maxsize=8)
def offer(finished: Runs, folder: str) -> Offer:
    """Measures by key and header, those of every comparison first, and settings in which the runs differ."""
    if not (done := trained([run for run in finished.inside(folder) if not run.diverged])):
        return Offer()
    quantities = quantities_of(done)
    keys = known_keys(done, quantities)
    main = [one.key for one in columns(keys, quantities)]
    first = dict.fromkeys([ACCURACY] * (ACCURACY in keys) + main)
    headers = {key: measure(key, quantities).header for key in [*first, *keys]}
    every = dict.fromkeys([*NAMED, *(key for run in done for key in run.settings), "seed"])
    named = [key for key in every if key not in SILENT and not key.endswith(".name")]
    values = {key: list(dict.fromkeys(text_at(run, key) for run in done)) for key in named}
    return Offer(
        [(key, headers[key]) for key in first],
        [(key, headers[key]) for key in keys if key not in first],
        {key: own[:MOST_VALUES] for key, own in values.items() if len(own) > 1},
    )


def settings_of(folder: Path) -> Results | None:
    """The choices and settings of a run at its start, without numbers; None if they cannot be read."""
    settings = _settings(folder / layout.SETTINGS / "config.yaml")
    overrides = _settings(folder / layout.SETTINGS / "overrides.yaml")
    return from_settings(settings, overrides)


def unreadable(folder: Path) -> str:
    """Why the settings of a run cannot be read; empty if they can, or do not exist."""
    found = _settings(folder / layout.SETTINGS / "config.yaml")
    return str(found) if isinstance(found, DamagedError) else ""


def _settings(path: Path) -> Any:
    """The content of a file, or the error if it cannot be read."""
    try:
        return content_of(read_yaml, path, stamp_of(path))
    except OSError:
        return None
