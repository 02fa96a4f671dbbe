"""Runs grouped by what was chosen: keys, readable labels, the baseline."""

import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cnnpool.report.runs import NAMED, Run

UNSET = "unset"


@dataclass(frozen=True)
class Choice:
    """What several runs have in common, told apart from the others by ``label``; a run per seed."""

    label: str
    runs: dict[int, Run] = field(repr=False)


def facts(results: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted key -> value of everything about a run that was set rather than measured."""
    flat = {key: results.get(key) for key in ("data_sha256", "epochs", "deterministic")}
    for key in (*NAMED, "fit", "environment"):
        flat |= _flatten(results.get(key, {}), key)
    flat |= _flatten(exceptions(results), "stages")
    presets = results.get("invariance", {}).get("consistency")
    if isinstance(presets, dict) and presets:
        flat["invariance.consistency"] = sorted(presets)
    return flat


def exceptions(results: Mapping[str, Any]) -> dict[str, Any]:
    """The stages whose operator is not the run's ``pool``."""
    return {
        stage: operator
        for stage, operator in results.get("stages", {}).items()
        if operator != results["pool"]
    }


def value_at(results: Mapping[str, Any], key: str) -> Any:
    """What ``key`` of ``--by`` or ``--where`` stands for: a fact, or a whole room such as pool."""
    if key == "pool":
        return {"pool": results["pool"], "stages": exceptions(results)}
    if key == "seed" or (key in NAMED and isinstance(results.get(key), dict)):
        return results[key]
    return facts(results).get(key, UNSET)


def varying(runs: Sequence[Run]) -> list[str]:
    """The keys to group by when none are given: what differs among pool, readout and model, else pool."""
    rooms = [key for key in ("pool", "readout", "model") if len({_frozen(run, key) for run in runs}) > 1]
    return rooms or ["pool"]


def group(runs: Sequence[Run], by: Sequence[str]) -> list[Choice]:
    """One choice for each combination of values at the keys ``by``, in the order of their labels.

    Raises:
        ValueError: for a key no run has, for seed, or if two runs have the same choice and seed.
    """
    known = {key for run in runs for key in facts(run.results)} | set(NAMED)
    for key in by:
        if key == "seed":
            raise ValueError("--by seed: runs are paired by seed, so it cannot be a choice")
        if key not in known:
            raise ValueError(f"--by {key}: no run has this key; {nearest(key, known)}")
    groups: dict[tuple[str, ...], list[Run]] = {}
    for run in runs:
        groups.setdefault(tuple(_frozen(run, key) for key in by), []).append(run)
    labels = _labels(list(groups.values()), by)
    choices = [
        Choice(label, _by_seed(label, same)) for label, same in zip(labels, groups.values(), strict=True)
    ]
    return sorted(choices, key=lambda choice: choice.label)


def baseline(choices: Sequence[Choice], wanted: str | None) -> Choice:
    """The choice called ``wanted`` (its label, or the only one whose pool, readout, ... has that name).

    Without ``wanted``: plain max pooling if it is there, else the first choice.

    Raises:
        ValueError: if no choice, or more than one, answers to ``wanted``.
    """
    if wanted is None:
        plain = [choice for choice in choices if choice.label.split(" / ")[0] == "max"]
        return (plain or choices)[0]
    exact = [choice for choice in choices if choice.label == wanted]
    named = exact or [choice for choice in choices if wanted in choice.label.split(" / ")]
    if len(named) != 1:
        problem = "stands for several choices" if named else "is not among the choices"
        labels = ", ".join(repr(choice.label) for choice in choices)
        raise ValueError(f"--baseline {wanted!r} {problem}: {labels}")
    return named[0]


def nearest(word: str, known: Iterable[str]) -> str:
    """A remedy for a misspelt key: the nearest known ones, else all of them."""
    known = sorted(known)
    close = difflib.get_close_matches(word, known, n=3, cutoff=0.5)
    close = close or [key for key in known if word in key.split(".")][:3]
    if close:
        return f"did you mean {' or '.join(close)}?"
    return f"choose from {', '.join(known[:12])}{', ...' if len(known) > 12 else ''}"


def _flatten(node: Any, prefix: str) -> dict[str, Any]:
    if not isinstance(node, Mapping):
        return {prefix: node}
    return {
        key: value
        for name, below in node.items()
        for key, value in _flatten(below, f"{prefix}.{name}").items()
    }


def _frozen(run: Run, key: str) -> str:
    return json.dumps(value_at(run.results, key), sort_keys=True)


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


def _labels(groups: list[list[Run]], by: Sequence[str]) -> list[str]:
    """A label per group: for each key the name, with the options that differ or were asked for."""
    columns = []
    for key in by:
        if key in NAMED:
            nodes = [runs[0].results[key] for runs in groups]
            column = [
                node["name"] + _options(node, _telling(node, nodes) | _asked(runs, key))
                for node, runs in zip(nodes, groups, strict=True)
            ]
            if key == "pool":
                column = [label + _stages(runs, groups) for label, runs in zip(column, groups, strict=True)]
        else:
            column = [f"{key}={_plain(value_at(runs[0].results, key))}" for runs in groups]
        columns.append(column)
    return [" / ".join(parts) for parts in zip(*columns, strict=True)]


def _stages(runs: list[Run], groups: list[list[Run]]) -> str:
    others = [node for group in groups for node in exceptions(group[0].results).values()]
    text = ""
    for stage, node in exceptions(runs[0].results).items():
        pool = runs[0].results["pool"]
        own = {key for key in {*node, *pool} if node.get(key, UNSET) != pool.get(key, UNSET)}
        shown = own if node.get("name") == pool["name"] else _telling(node, others)
        text += f" + {stage}:{node.get('name')}{_options(node, shown | _asked(runs, f'stage.{stage}'))}"
    return text


def _telling(node: Mapping[str, Any], nodes: list[Mapping[str, Any]]) -> set[str]:
    same = [other for other in nodes if other.get("name") == node.get("name")]
    keys = {key for other in same for key in other}
    return {key for key in keys if any(other.get(key, UNSET) != node.get(key, UNSET) for other in same)}


def _asked(runs: list[Run], prefix: str) -> set[str]:
    asked = {
        str(text).lstrip("+").partition("=")[0] for run in runs for text in run.results.get("overrides", [])
    }
    return {key.removeprefix(f"{prefix}.") for key in asked if key.startswith(f"{prefix}.")}


def _options(node: Mapping[str, Any], keys: set[str]) -> str:
    shown = [
        f"{key}={_plain(node.get(key, UNSET))}" for key in sorted(keys - {"name"}) if key in node or keys
    ]
    return f"({', '.join(shown)})" if shown else ""


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
