"""Runs grouped by what was chosen: keys, readable labels, the baseline."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from cnnpool.registry import did_you_mean
from cnnpool.report.facts import exceptions
from cnnpool.report.label import labels, natural
from cnnpool.report.runs import Run
from cnnpool.run_folder.results import NAMED, Results


@dataclass(frozen=True)
class Choice:
    """The runs of one choice, one per seed; ``label`` is its name in the comparison."""

    label: str
    runs: dict[int, Run] = field(repr=False)


def varying(runs: Sequence[Run]) -> list[str]:
    """The keys to group by when none are given: what differs among pool, readout and model, else pool."""
    rooms = [key for key in ("pool", "readout", "model") if len({frozen(run, key) for run in runs}) > 1]
    return rooms or ["pool"]


def group(runs: Sequence[Run], by: Sequence[str]) -> list[Choice]:
    """One choice for each combination of values at the keys ``by``, in the order of their labels.

    Raises:
        ValueError: for a key no run has, for seed, or if two runs have the same choice and seed.
    """
    for key in by:
        if key == "seed":
            raise ValueError("--by seed: runs are paired by seed, so it cannot be a choice")
        if key not in NAMED and not any(key in run.facts for run in runs):
            known = {key for run in runs for key in run.facts} | set(NAMED)
            raise ValueError(f"--by {key}: no run has this key; {did_you_mean(key, known)}")
    groups: dict[tuple[str, ...], list[Run]] = {}
    for run in runs:
        groups.setdefault(tuple(frozen(run, key) for key in by), []).append(run)
    named = zip(labels(list(groups.values()), by), groups.values(), strict=True)
    choices = [Choice(label, _by_seed(label, same)) for label, same in named]
    return sorted(choices, key=lambda choice: natural(choice.label))


def baseline(choices: Sequence[Choice], wanted: str | None) -> Choice:
    """The choice called ``wanted`` (its label, or the only one whose pool, readout, ... has that name).

    Without ``wanted``: max pooling if it is there, in all stages if that is there, else the first choice.

    Raises:
        ValueError: if no choice, or more than one, answers to ``wanted``.
    """
    if wanted is None:
        some = [choice for choice in choices if _results(choice).pool["name"] == "max"]
        whole = [choice for choice in some if not exceptions(_results(choice))]
        return (whole or some or list(choices))[0]
    exact = [choice for choice in choices if choice.label == wanted]
    named = exact or [choice for choice in choices if wanted in choice.label.split(" / ")]
    if len(named) != 1:
        problem = "stands for several choices" if named else "is not among the choices"
        remedy = "; name one of them, or compare a part of the runs with --where" if named else ""
        there = ", ".join(repr(choice.label) for choice in named or choices)
        raise ValueError(f"--baseline {wanted!r} {problem}: {there}{remedy}")
    return named[0]


def _results(choice: Choice) -> Results:
    return next(iter(choice.runs.values())).results


def frozen(run: Run, key: str) -> str:
    """The value of ``key``, whole rooms included, as text that is equal where the values are."""
    return json.dumps(run.setting(key), sort_keys=True)


def _by_seed(label: str, runs: list[Run]) -> dict[int, Run]:
    seeds: dict[int, Run] = {}
    for run in sorted(runs, key=lambda run: run.seed):
        if run.seed in seeds:
            raise ValueError(
                f"two runs of {label!r} with seed {run.seed}: {seeds[run.seed].folder} and {run.folder}; "
                "remove one, or tell them apart with --by"
            )
        seeds[run.seed] = run
    return seeds
