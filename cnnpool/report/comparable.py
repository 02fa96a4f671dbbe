"""Runs that may share a table: ``select`` by --where, ``refuse`` differences other than the choice."""

from collections.abc import Mapping, Sequence
from typing import Any

from cnnpool.registry import did_you_mean
from cnnpool.report.runs import UNSET, Run, as_text
from cnnpool.run_folder.identity import EFFECTS
from cnnpool.run_folder.results import NAMED

# Where a run lies, its display and its machine: noted in the report, no reason to refuse.
FREE = ("deterministic", "environment", *(key for key, what in EFFECTS.items() if what == "bits"))
SILENT = tuple(key for key, what in EFFECTS.items() if what == "nothing")
# The last bits of a training depend on these, and a part of its result on them.
BITS = tuple(f"environment.{name}" for name in ("device", "kernels", "threads", "torch"))
# Settings of the measurements.
MEASURED = ("probe.", "invariance.")
CODE = ("environment.cnnpool", "environment.commit")
ALIASES = {
    "data": ("data_sha256",),
    "data.name": ("data_sha256",),
    "pool": ("stages",),
    "fit": ("epochs",),
    "epochs": ("fit.epochs",),
    "fit.epochs": ("epochs",),
}


class DifferentRunsError(ValueError):
    """Runs that cannot share a table; ``values`` are those of every key that differs."""

    def __init__(self, message: str, values: dict[str, list[str]]):
        super().__init__(message)
        self.values = values


def select(runs: Sequence[Run], where: Sequence[str]) -> list[Run]:
    """The runs that satisfy every ``key=value`` (or ``key=value,value``) of ``where``."""
    kept = list(runs)
    for condition in where:
        key, _, wanted = condition.partition("=")
        if not (key and wanted):
            raise ValueError(f"--where {condition!r} is not KEY=VALUE, e.g. --where data=mnist")
        known = {name for run in runs for name in run.settings} | {*NAMED, "seed"}
        if key not in known:
            raise ValueError(f"--where {key}: no run has this key; {did_you_mean(key, known)}")
        there = ", ".join(sorted({text_at(run, key) for run in kept}))
        kept = [run for run in kept if meets(run, condition)]
        if not kept:
            raise ValueError(f"--where {condition}: no finished run has it; {key} is one of {there}")
    return kept


def meets(run: Run, condition: str) -> bool:
    """Whether a run meets one ``key=value`` or ``key=value,value``."""
    key, _, wanted = condition.partition("=")
    # A list such as [2, 2] contains commas itself, so the whole text is tried as well.
    return text_at(run, key) in {wanted, *wanted.split(",")}


def refuse(runs: Sequence[Run], by: Sequence[str], allow: Sequence[str]) -> list[str]:
    """Sentences on differences that were allowed or do no harm; a DifferentRunsError for any other."""
    table = [run.settings for run in runs]
    known = dict.fromkeys(key for flat in table for key in flat)
    for key in allow:
        if not any(_covers(key, name) for name in known):
            raise ValueError(f"--allow {key}: no run has this key; {did_you_mean(key, known)}")
    noted, refused = [], {}
    for key in known:
        if key in SILENT or _own(key) or any(_covers(name, key) for name in by):
            continue
        if len(values := _values(runs, table, key)) < 2:
            continue
        if any(_covers(name, key) for name in allow) or (
            key not in CODE and any(_covers(f, key) for f in FREE)
        ):
            bits = ": the same seed does not give the same bits" if key in BITS else ""
            noted.append(f"{key} differs among the runs: {', '.join(values)}{bits}")
        else:
            refused[key] = values
    if refused:
        refused = _shortest(refused)
        raise DifferentRunsError(_refusal(refused, by), {key: list(one) for key, one in refused.items()})
    return noted


def _own(key: str) -> bool:
    """Whether ``key`` may differ: when a probe is read, or a room's seed, which repeats the run's."""
    return key.endswith(".every_epochs") or (key.endswith(".seed") and not key.startswith(MEASURED))


def _covers(name: str, key: str) -> bool:
    names = (name, *ALIASES.get(name, ()))
    return any(key == prefix or key.startswith(f"{prefix}.") for prefix in names)


def _values(runs: Sequence[Run], table: Sequence[Mapping[str, Any]], key: str) -> dict[str, list[Run]]:
    """Value as text -> the runs that have it."""
    values: dict[str, list[Run]] = {}
    for run, flat in zip(runs, table, strict=True):
        # A run with a probe switched off has no setting of it that could differ.
        if key in flat or not key.startswith(MEASURED):
            values.setdefault(as_text(flat.get(key, UNSET)), []).append(run)
    return values


def _shortest(refused: dict[str, dict[str, list[Run]]]) -> dict[str, dict[str, list[Run]]]:
    """Keep only the name of a room where it explains differences in the room's options and hash."""
    for room in (*NAMED, "stages"):
        if f"{room}.name" in refused:
            refused = {
                key: values
                for key, values in refused.items()
                if key == f"{room}.name" or not _covers(room, key)
            }
    return refused


def _refusal(refused: dict[str, dict[str, list[Run]]], by: Sequence[str]) -> str:
    lines = [f"these runs cannot be compared, they differ in {', '.join(refused)}"]
    for key, values in list(refused.items())[:3]:
        some = list(values.items())[:4]
        listed = "; ".join(f"{value[:24]} ({len(own)}x, such as {own[0].folder})" for value, own in some)
        lines.append(f"  {key}: {listed}{'; ...' if len(values) > 4 else ''}")
    key, values = next(iter(refused.items()))
    short = key.removesuffix(".name")
    lines.append(
        f"  keep one: --where {short}={next(iter(values))}, tell them apart: --by {','.join([*by, short])}, "
        f"or mix them knowingly: --allow {short}"
    )
    return "\n".join(lines)


def text_at(run: Run, key: str) -> str:
    """The value of ``key`` as in ``--where``; the name for a room."""
    if key in NAMED:
        return str(getattr(run.results, key)["name"])
    return as_text(run.setting(key))
