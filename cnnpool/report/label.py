"""Readable names for groups of runs: ``labels`` shows what tells them apart and what was asked for."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from cnnpool.report.facts import exceptions
from cnnpool.report.runs import UNSET, Run
from cnnpool.run_folder.results import NAMED


def labels(groups: list[list[Run]], by: Sequence[str]) -> list[str]:
    """A label per group: for each key the name, with the options that differ or were asked for.

    The stages of a probed model are its modules with all their settings: named only where labels would be
    the same without them.
    """
    short = _labels(groups, by, modules=False)
    return short if len(set(short)) == len(short) else _labels(groups, by, modules=True)


def _labels(groups: list[list[Run]], by: Sequence[str], *, modules: bool) -> list[str]:
    columns = []
    for key in by:
        if key in NAMED:
            nodes = [getattr(runs[0].results, key) for runs in groups]
            column = [
                node["name"] + _options(node, _telling(node, nodes) | _asked(runs, key))
                for node, runs in zip(nodes, groups, strict=True)
            ]
            if key == "pool":
                column = [
                    label if runs[0].results.examined and not modules else label + _stages(runs, groups)
                    for label, runs in zip(column, groups, strict=True)
                ]
        else:
            # A room's name says by itself what it is of.
            prefix = "" if key.removesuffix(".name") in NAMED else f"{key}="
            column = [prefix + _plain(runs[0].setting(key)) for runs in groups]
        columns.append(column)
    return [" / ".join(parts) for parts in zip(*columns, strict=True)]


def _stages(runs: list[Run], groups: list[list[Run]]) -> str:
    others = [node for group in groups for node in exceptions(group[0].results).values()]
    text = ""
    for stage, node in exceptions(runs[0].results).items():
        pool = runs[0].results.pool
        own = {key for key in {*node, *pool} if node.get(key, UNSET) != pool.get(key, UNSET)}
        shown = own if node.get("name") == pool["name"] else _telling(node, others)
        text += f" + {stage}:{node.get('name')}{_options(node, shown | _asked(runs, f'stage.{stage}'))}"
    return text


def _telling(node: Mapping[str, Any], nodes: list[Mapping[str, Any]]) -> set[str]:
    same = [other for other in nodes if other.get("name") == node.get("name")]
    keys = {key for other in same for key in other}
    return {key for key in keys if any(other.get(key, UNSET) != node.get(key, UNSET) for other in same)}


def _asked(runs: list[Run], prefix: str) -> set[str]:
    asked = {text.lstrip("+").partition("=")[0] for run in runs for text in run.results.overrides}
    return {key.removeprefix(f"{prefix}.") for key in asked if key.startswith(f"{prefix}.")}


def _options(node: Mapping[str, Any], keys: set[str]) -> str:
    shown = [
        f"{key}={_plain(node.get(key, UNSET))}" for key in sorted(keys - {"name"}) if key in node or keys
    ]
    return f"({', '.join(shown)})" if shown else ""


def natural(label: str) -> list[tuple[bool, int, str]]:
    """A sorting key by which kernel_size=10 comes after kernel_size=2."""
    parts = re.split(r"(\d+)", label)
    return [(part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in parts]


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
