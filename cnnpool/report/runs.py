"""Run folders on disk, read with their state; the keys and values by which runs are chosen."""

import csv
import dataclasses
import json
import logging
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, TypeVar

from cnnpool.json_text import flat
from cnnpool.quantity import numbers
from cnnpool.registry import did_you_mean
from cnnpool.run_folder import layout, results, status
from cnnpool.run_folder.errors import AGAIN, DamagedError
from cnnpool.run_folder.folder_lock import abandoned
from cnnpool.run_folder.reading import read_json, read_yaml
from cnnpool.run_folder.results import NAMED, Results

log = logging.getLogger(__name__)

T = TypeVar("T")
UNSET = "unset"
MOST = 12  # Most values that are named
COMMAND = ["cnnpool", "compare"]
REPORT = "table.json"
"""Written first; it marks a folder as a report."""
NUMBER = re.compile(r"[-+]?(0|[1-9][0-9]*|(?=\.[0-9]))(\.[0-9]*)?([eE][-+]?[0-9]{1,3})?")
"""Numbers as people write them: a text such as 007 or 12e4567 is a name."""
KILLED = "stopped: its process has ended; rerun the same command to resume"


@dataclass(frozen=True)
class Run:
    """One run folder: ``found`` holds its results if ``state`` is done, or its settings if its training has
    diverged; ``reason`` explains other states.
    """

    folder: Path
    state: str
    """done, failed, running, unfinished or damaged."""
    reason: str = ""
    found: Results | None = field(default=None, repr=False)

    @property
    def results(self) -> Results:
        """The results of a finished run."""
        if self.found is None:
            raise ValueError(f"{self.folder} is {self.state}: it has no results")
        return self.found

    @property
    def diverged(self) -> bool:
        """Whether its training failed because the loss or a weight was no longer finite."""
        return self.state == "failed" and self.found is not None

    @property
    def seed(self) -> int:
        return self.results.seed

    @cached_property
    def settings(self) -> Mapping[str, Any]:
        """Dotted key -> value of everything that was set rather than measured."""
        return settings(self.results)

    @cached_property
    def numbers(self) -> tuple[str, ...]:
        """Dotted keys of all numbers that were measured."""
        return tuple(key for key, _ in numbers(self.measured))

    def setting(self, key: str) -> Any:
        """The value of a key of ``--by`` or ``--where``: a setting, or a whole configuration group."""
        if key == "pool":
            return {"pool": self.results.pool, "stages": exceptions(self.results)}
        if key == "seed" or key in NAMED:
            return getattr(self.results, key)
        return self.settings.get(key, UNSET)

    @property
    def measured(self) -> Mapping[str, Any]:
        """Section -> its numbers; empty if the run is not finished."""
        return self.found.measured if self.found else {}

    def at(self, *keys: str) -> Any:
        """The part of ``measured`` below ``keys``, of any type; None where there is none."""
        node: Any = self.measured
        for key in keys:
            node = node.get(key) if isinstance(node, Mapping) else None
        return node


def read_all(folders: Iterable[Path], each: Callable[[], object]) -> list[Run]:
    """The runs in ``folders``."""
    runs: list[Run] = []
    descriptions: list[dict[str, Any]] = []
    for folder in folders:
        runs.append(sharing(read(folder), descriptions))
        each()
    return runs


def entered(roots: Iterable[Path], told: Callable[..., object] = log.warning) -> dict[Path, set[str]]:
    """Every folder at or below ``roots``, sorted, each once, but none that is hidden -> names of its files.

    The target of a link is entered after all else: where it has a place of its own, that is its name.
    """
    found: dict[str, tuple[Path, set[str]]] = {}
    linked: list[tuple[str, str]] = []
    links: list[Path] = []
    waiting: list[Path] = []
    for root in roots:
        (links if root.is_symlink() else waiting).append(root)
        try:
            # An unreadable folder is not an empty one.
            os.scandir(root).close()
        except FileNotFoundError:
            raise ValueError(f"{root} does not exist") from None
        except NotADirectoryError:
            raise ValueError(
                f"{root} is not a folder: give the run's folder or one above it, or a .csv file"
            ) from None
    while waiting or links:
        folder = (waiting or links).pop()
        place = os.path.realpath(folder)
        if place in found:
            continue
        try:
            entries = [one for one in os.scandir(folder) if one.name == layout.MARK or one.name[0] != "."]
            # A link that leads to itself is no error here.
            below = [one for one in entries if os.path.isdir(one)]
        except OSError as error:
            told("%s is left out: %s", folder, error.strerror)
            continue
        names = {one.name for one in entries} - {one.name for one in below}
        found[place] = folder, names
        linked += [(place, one.name) for one in entries if one.name in names and one.is_symlink()]
        for one in below:
            (links if one.is_symlink() else waiting).append(folder / one.name)
    for place, name in linked:
        there, file = os.path.split(os.path.realpath(os.path.join(place, name)))
        if there in found and file in found[there][1]:
            found[place][1].discard(name)
    return dict(sorted(found.values(), key=lambda one: one[0]))


def finished(runs: Iterable[Run]) -> list[Run]:
    """The finished runs, and those whose training has diverged; at least one has finished."""
    runs = list(runs)
    done = [run for run in runs if run.found]
    if all(run.diverged for run in done):
        for run in runs:
            if run.state == "damaged":
                raise ValueError(run.reason)
        states = Counter(run.state for run in runs)
        counts = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
        raise ValueError(f"no finished run among {len(runs)} ({counts}): --status lists them")
    return done


def trained(done: Sequence[Run]) -> list[Run]:
    """The runs that can share a table: those that were trained, or else those of cnnpool probe."""
    own, probed = ([run for run in done if bool(run.results.examined) == it] for it in (False, True))
    return probed if probed and all(run.diverged for run in own) else own


def settings(results: Results) -> dict[str, Any]:
    """Dotted key -> value of everything about a run that was set rather than measured."""
    known = {key: getattr(results, key) for key in ("data_sha256", "epochs", "precision", "deterministic")}
    nodes = {key: getattr(results, key) for key in (*NAMED, "fit", "environment")}
    nodes |= {key: results.asked.get(key) or {} for key in ("probe", "trainer", "callback")}
    nodes["stages"] = exceptions(results)
    known |= {key: value for key, value in flat(nodes) if value != {}}
    invariance = results.measured.get("invariance", {})
    presets, skipped = (invariance.get(name) or {} for name in ("consistency", "skipped"))
    if isinstance(presets, dict) and isinstance(skipped, dict) and presets:
        # A preset that does not fit the network, such as crops with a fixed-size readout, was requested too.
        known["invariance.consistency"] = sorted({*presets, *skipped})
    return known


def exceptions(results: Results) -> dict[str, Any]:
    """The stages whose operator differs from the run's ``pool``.

    Options that a stage leaves out are those of ``pool``: earlier versions recorded published networks so.
    """
    common = results.pool.items()
    return {stage: operator for stage, operator in results.stages.items() if not operator.items() <= common}


def keys_of(names: str | Iterable[Any] | None) -> list[str]:
    """The keys in a list separated by commas, where one that contains a comma stands in quotes as in CSV."""
    if names is None or isinstance(names, str):
        lines = csv.reader((names or "").splitlines(), skipinitialspace=True)
        return [key.strip() for line in lines for key in line if key.strip()]
    if not isinstance(names, Iterable):
        raise ValueError(f"{names!r} is not a name, nor a list of names")
    return list(map(str, names))


def joined(*keys: str) -> str:
    """The list of which :func:`keys_of` makes ``keys``."""
    return ",".join(f'"{key}"' if "," in key else key for key in keys)


def same(text: str) -> str | Decimal:
    """``text``, or the number that it is, so that 0.1, 1e-1 and .10 are equal."""
    return Decimal(text) if NUMBER.fullmatch(text) else text


def conditions(where: Iterable[str]) -> dict[str, list[str]]:
    """The values that each key of ``key=value`` or ``key=value,value`` may have."""
    wanted: dict[str, list[str]] = {}
    for condition in where:
        key, _, value = condition.partition("=")
        # A list such as [2, 2] contains commas itself, so the whole text is tried as well.
        wanted.setdefault(key, []).extend((value, *value.split(",")))
    return wanted


def meeting(
    some: Sequence[T], where: Sequence[str], known: Collection[str], text_at: Callable[[T, str], str]
) -> list[T]:
    """Those that satisfy every ``key=value`` or ``key=value,value``, of one key any of them."""
    kept = list(some)
    for condition in where:
        if not all(condition.partition("=")):
            raise ValueError(f"--where {condition!r} is not KEY=VALUE, e.g. --where data=mnist")
    for key, values in conditions(where).items():
        if key not in known:
            raise ValueError(f"--where {key}: no run has this key; {did_you_mean(key, known)}")
        there, wanted = sorted({text_at(one, key) for one in kept}), set(map(same, values))
        kept = [one for one in kept if same(text_at(one, key)) in wanted]
        if not kept:
            named = ", ".join(there[:MOST]) + ", ..." * (len(there) > MOST)
            raise ValueError(f"--where {key}={values[0]}: no run has it; {key} is one of {named}")
    return kept


def as_text(value: Any) -> str:
    """A setting as written in ``--where``: a text unchanged, anything else as JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(value) if isinstance(value, list | dict) else _number(value)


@lru_cache(maxsize=4096, typed=True)
def _number(value: Any) -> str:
    return json.dumps(value)


def is_report(folder: Path) -> bool:
    try:
        return bool(read_json(folder / REPORT, lambda content: content["command"][:2] == COMMAND))
    except (DamagedError, KeyError, TypeError):
        return False


def sharing(run: Run, known: list[dict[str, Any]]) -> Run:
    """Return ``run`` with the descriptions of its numbers from ``known``: all runs have much the same."""
    if run.found is None:
        return run
    own = run.found.quantities
    if own not in known:
        known.append(own)
    shared = known[known.index(own)]
    return dataclasses.replace(run, found=dataclasses.replace(run.found, quantities=shared))


def read(folder: Path) -> Run:
    """The run in ``folder`` with its state."""
    try:
        found = results.read(folder)
    except DamagedError as error:
        return Run(folder, "damaged", f"{error}; delete it, then {AGAIN}" if error.reason else str(error))
    if found:
        return Run(folder, "done", found=found)
    try:
        now = status.read(folder)
    except DamagedError as error:
        return Run(folder, "unfinished", str(error))
    if now and abandoned(folder, now):
        return Run(folder, "unfinished", KILLED)
    if now and now.state in ("failed", "running"):
        return Run(folder, now.state, now.error or "", _begun(folder) if now.diverged else None)
    return Run(folder, "unfinished", (now and now.error) or f"no {layout.RESULTS}")


def _begun(folder: Path) -> Results | None:
    files = ("config.yaml", "overrides.yaml")
    try:
        return results.from_settings(*(read_yaml(folder / layout.SETTINGS / name) for name in files))
    except DamagedError:
        return None
