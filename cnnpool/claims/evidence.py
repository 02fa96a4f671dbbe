"""Runs grouped for a claim: those that differ by seed only, and pairs that differ by one choice."""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from cnnpool.claims.operators import Operator, described, everywhere, kernel_and_stride
from cnnpool.report.comparable import circumstances
from cnnpool.report.runs import UNSET, Run, is_number
from cnnpool.run_folder.results import Results

POOLS_FIRST = ("airbench", "sprint")
"""Networks that downsample before they normalise and activate."""

RECIPE = ("data.", "model.", "readout.", "fit.")
"""How the names begin of what a network is and how it was trained."""


@dataclass(frozen=True)
class Setting:
    """Runs that differ by their seed alone."""

    label: str
    runs: dict[int, Run]

    @property
    def results(self) -> Results:
        return next(iter(self.runs.values())).results

    def read(self, *path: str) -> dict[int, float]:
        """Seed -> the number at ``path`` of results.json, for the runs that have one."""
        found = {seed: value_at(run, *path) for seed, run in self.runs.items()}
        return {seed: value for seed, value in found.items() if value is not None}


@dataclass(frozen=True)
class Stage:
    """One stage of a setting."""

    name: str
    operator: Operator
    setting: Setting

    @property
    def where(self) -> str:
        return f"{self.setting.label}: {described(self.operator)}, stage {self.name}"

    @property
    def relu_follows(self) -> bool:
        """Whether a ReLU of the operator or of the network comes next, which stops gradient too."""
        own, model = self.operator.get("activation", "none"), self.setting.results.model
        networks = model.get("activation", "relu") if model.get("name") in POOLS_FIRST else "none"
        return own != "none" or networks in ("relu", "alias_free_relu")

    def gradient(self, *path: str) -> dict[int, float]:
        """Seed -> a number of the gradient probe."""
        return self.setting.read("gradient", self.name, *path)

    def invariance(self, *path: str) -> dict[int, float]:
        """Seed -> a number of the invariance probe."""
        return self.setting.read("invariance", "stages", self.name, *path)


@dataclass(frozen=True)
class Pair:
    """Runs of two choices that share all else, by seed."""

    label: str
    first: dict[int, Run]
    second: dict[int, Run]

    def differences(self, *path: str) -> dict[int, float]:
        """Seed -> the number at ``path`` of results.json, first less second, where both have it."""
        return self.differences_of(lambda run: value_at(run, *path))

    def differences_of(self, read: Callable[[Run], float | None]) -> dict[int, float]:
        """Seed -> first less second of what ``read`` finds, where both have it."""
        found = {}
        for seed in sorted(self.first.keys() & self.second.keys()):
            a, b = read(self.first[seed]), read(self.second[seed])
            if a is not None and b is not None:
                found[seed] = a - b
        return found

    def runs(self, seeds: Mapping[int, float]) -> tuple[Run, ...]:
        return tuple(arm[seed] for arm in (self.first, self.second) for seed in seeds)


class Evidence:
    """Finished runs, to be asked for settings and pairs.

    Args:
        runs: finished ones.
        allow: keys that may differ within a setting or pair.
    """

    def __init__(self, runs: Sequence[Run], allow: Sequence[str] = ()):
        self.runs = list(runs)
        self.allow = list(allow)

    def settings(self) -> list[Setting]:
        """All runs, those of a setting together."""
        worlds = _worlds(self.runs, self.allow)
        return [Setting(label, {run.seed: run for run in runs}) for label, runs in worlds]

    def stages(self, *names: str) -> Iterator[Stage]:
        """Every stage of every setting, or those with one of the operators ``names``."""
        for setting in self.settings():
            for name, operator in setting.results.stages.items():
                if not names or operator["name"] in names:
                    yield Stage(name, operator, setting)

    def choices(
        self, side: Callable[[Run], str], apart: Sequence[str]
    ) -> Iterator[tuple[str, dict[str, dict[int, Run]]]]:
        """Runs that share all but the rooms ``apart``: a label, and by choice its runs by seed.

        Args:
            side: the name of the choice that a run belongs to; empty if it is not asked for.
            apart: the rooms in which the choices differ, e.g. pool.
        """
        for label, runs in _worlds(self.runs, [*apart, *self.allow]):
            yield label, _sides(runs, side, apart)

    def pairs(
        self,
        first: Callable[[Run], str],
        second: Callable[[Run], str],
        apart: Sequence[str],
        alike: Sequence[Literal["kernel_size", "stride"]] = (),
    ) -> Iterator[Pair]:
        """All pairs of choices that differ in the rooms ``apart`` alone.

        Args:
            first, second: the name of the choice that a run belongs to; empty if it is not of that side.
            apart: the rooms in which the sides differ, e.g. pool.
            alike: what their operators have in common all the same.
        """
        for label, runs in _worlds(self.runs, [*apart, *self.allow]):
            others = _sides(runs, second, apart)
            for a, own in _sides(runs, first, apart).items():
                for b, other in others.items():
                    if _window(own, alike) == _window(other, alike):
                        yield Pair(f"{label}: {a} – {b}", own, other)


def value_at(run: Run, *path: str) -> float | None:
    """The finite number at ``path`` of the run's results."""
    node: Any = run.measured
    for key in path:
        node = node.get(key) if isinstance(node, Mapping) else None
    return float(node) if is_number(node) and math.isfinite(node) else None


def _window(arm: Mapping[int, Run], alike: Sequence[str]) -> list[tuple[int, int]]:
    operator = everywhere(next(iter(arm.values()))) if alike else None
    sizes = dict(zip(("kernel_size", "stride"), kernel_and_stride(operator), strict=True)) if operator else {}
    return [sizes[key] for key in alike]


def _sides(
    runs: Sequence[Run], side: Callable[[Run], str], apart: Sequence[str]
) -> dict[str, dict[int, Run]]:
    """Choice -> seed -> run. Choices of one name with other options have the options in their name."""
    groups: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        if name := side(run):
            rooms = {room: run.setting(room) for room in apart}
            groups.setdefault((name, json.dumps(rooms, sort_keys=True)), []).append(run)
    names = [name for name, _ in groups]
    return {
        name if names.count(name) == 1 else f"{name} {options}": {run.seed: run for run in group}
        for (name, options), group in groups.items()
    }


def _worlds(runs: Sequence[Run], apart: Sequence[str]) -> list[tuple[str, list[Run]]]:
    """Label -> runs that agree in everything but ``apart`` and the seed."""
    groups: dict[tuple[tuple[str, str], ...], list[Run]] = {}
    for run in runs:
        groups.setdefault(tuple(circumstances(run, apart).items()), []).append(run)
    labels = [_label(group[0], apart) for group in groups.values()]
    same: dict[tuple[str, str], list[dict[str, str]]] = {}
    for label, facts in zip(labels, groups, strict=True):
        same.setdefault(label, []).append(dict(facts))
    return [
        (label[0] + _telling(dict(facts), same[label]), group)
        for label, (facts, group) in zip(labels, groups.items(), strict=True)
    ]


def _label(run: Run, apart: Sequence[str]) -> tuple[str, str]:
    """Names of the rooms, with a limit of the images, and of the operator, which is shown elsewhere."""
    found = run.results
    names = {"data": found.images_of, "model": found.model["name"], "readout": found.readout["name"]}
    rooms = [name for room, name in names.items() if room not in apart]
    limit = None if "data" in apart else found.data.get("limit")
    few = [] if limit is None else [f"data.limit={limit}"]
    return ", ".join([*rooms, *few]), "" if "pool" in apart else described(found.pool)


def _telling(facts: Mapping[str, str], same: Sequence[Mapping[str, str]]) -> str:
    """The difference of ``facts`` from others of one label: the recipe, and more only where that is alike.

    The stages' operators are shown elsewhere.
    """
    keys = dict.fromkeys(key for other in same for key in other if not key.startswith("stages"))
    differing = [key for key in keys if len({other.get(key) for other in same}) > 1]
    recipe = [key for key in differing if key.startswith(RECIPE)]
    told = recipe if _kinds(same, recipe) == _kinds(same, differing) else differing
    return "".join(f", {key}={facts.get(key, UNSET)[:16]}" for key in told)


def _kinds(same: Sequence[Mapping[str, str]], keys: Sequence[str]) -> int:
    return len({tuple(facts.get(key) for key in keys) for facts in same})
