"""Runs that may share a table, grouped by choice: keys, readable labels, the baseline."""

import json
import re
import shlex
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, TypeVar

from cnnpool.registry import did_you_mean
from cnnpool.report.foreign import Logged, logged
from cnnpool.report.logs import STEPS
from cnnpool.report.runs import UNSET, Run, as_text, conditions, exceptions, joined, meeting, same
from cnnpool.run_folder.identity import EFFECTS
from cnnpool.run_folder.results import NAMED, Results
from cnnpool.tables import printable

# Where a run lies, its display and its machine: noted in the report, no reason to refuse.
FREE = ("deterministic", "environment", *(key for key, what in EFFECTS.items() if what == "bits"))
SILENT = tuple(key for key, what in EFFECTS.items() if what == "nothing")
# The last bits of a training depend on these, and a part of its result on them.
BITS = tuple(f"environment.{name}" for name in ("device", "kernels", "threads", "torch"))
# Settings of the measurements.
MEASURED = ("probe.", "invariance.")
CODE = ("environment.cnnpool", "environment.commit")
Values = TypeVar("Values")
ALIASES = {
    "data": ("data_sha256",),
    "data.name": ("data_sha256",),
    "pool": ("stages",),
    "fit": ("epochs",),
    "epochs": ("fit.epochs",),
    "fit.epochs": ("epochs",),
    "fit.precision": ("precision",),
    "precision": ("fit.precision",),
}


@dataclass(frozen=True)
class Choice:
    """The runs of one choice, one per seed; ``label`` is its name in the comparison."""

    label: str
    runs: dict[int, Run] = field(repr=False)

    def named(self, seeds: Iterable[int]) -> str:
        """Runs by their seeds, or by their places where they have none."""
        if self.numbered:
            return f"seed {', '.join(map(str, seeds))}"
        return ", ".join(str(self.runs[seed].folder) for seed in seeds)

    @property
    def numbered(self) -> bool:
        return all(run.asked.number for run in logged(self.runs.values()))

    @property
    def results(self) -> Results:
        """The results of one of its runs, for values that all of them share."""
        return next(iter(self.runs.values())).results


def varying(runs: Sequence[Run]) -> list[str]:
    """The keys to group by if none are given: pool, readout and model where they differ, else pool.

    Settings of the training are added that tell apart runs of one seed, as in a sweep over ``fit.lr``.
    """
    if others := logged(runs):
        return list(others[0].asked.keys)
    chosen = [key for key in ("pool", "readout", "model") if len({frozen(run, key) for run in runs}) > 1]
    alike: dict[tuple[Hashable, ...], list[Run]] = {}
    for run in runs:
        alike.setdefault((str(run.seed), *(frozen(run, key) for key in chosen)), []).append(run)
    swept = [key for same in alike.values() for key in _trained_by(same)]
    return [*(chosen or ["pool"][: not swept]), *dict.fromkeys(swept)]


def _trained_by(runs: Sequence[Run]) -> list[str]:
    """The settings of the training in which ``runs`` differ."""
    keys = {key for run in runs for key in run.settings if key.startswith(("fit.", "trainer."))}
    return sorted(key for key in keys.difference(EFFECTS) if len({frozen(run, key) for run in runs}) > 1)


def group(runs: Sequence[Run], by: Sequence[str]) -> list[Choice]:
    """One choice per combination of values at the keys ``by``, sorted by label."""
    for key in by:
        if key == "seed":
            raise ValueError("--by seed: runs are paired by seed, so it cannot be a choice")
        if not known(runs, key):
            every = {key for run in runs for key in run.settings} | set(NAMED)
            raise ValueError(f"--by {key}: no run has this key; {did_you_mean(key, every)}")
    groups: dict[tuple[Hashable, ...], list[Run]] = {}
    for run in runs:
        groups.setdefault(tuple(frozen(run, key) for key in by), []).append(run)
    named = zip(labels(list(groups.values()), by), groups.values(), strict=True)
    choices = [Choice(label, _by_seed(label, same, by)) for label, same in named]
    return sorted(choices, key=lambda choice: natural(choice.label))


def known(runs: Sequence[Run], key: str) -> bool:
    """Whether runs can be grouped by ``key``: a configuration group, or a setting of any of them."""
    return key in NAMED or any(key in run.settings for run in runs)


def baseline(choices: Sequence[Choice], wanted: str | float | None) -> Choice:
    """The choice ``wanted``, by label, a part or a value in it; without, max pooling if there is any.

    Choices that diverged in all seeds are none to compare with.
    """
    choices = [one for one in choices if not all(run.diverged for run in one.runs.values())]
    if wanted is None:
        # Of other programs any key may name the operator.
        some = [one for one in choices if "max" in ({one.results.pool["name"]} - {""} or _parts(one.label))]
        whole = [choice for choice in some if not exceptions(choice.results)]
        return (whole or some or list(choices))[0]
    wanted = str(wanted)
    # A label such as "max / gap" may be given without its spaces.
    exact = [one for one in choices if one.label.replace(" / ", "/") == wanted.replace(" / ", "/")]
    named = exact or [choice for choice in choices if same(wanted) in _parts(choice.label)]
    if len(named) != 1:
        problem = "stands for several choices" if named else "is not among the choices"
        remedy = "; name one of them, or compare a part of the runs with --where" if named else ""
        there = ", ".join(repr(choice.label) for choice in named or choices)
        raise ValueError(f"--baseline {wanted!r} {problem}: {there}{remedy}")
    return named[0]


def _parts(label: str) -> set[str | Decimal]:
    """The parts of a label such as ``resnet / lr=0.1``, and their values."""
    parts = label.split(" / ")
    return {*parts, *(same(part.partition("=")[2]) for part in parts if "=" in part)}


def frozen(run: Run, key: str) -> Hashable:
    """The value of ``key``, or configuration group as text, equal where the values are."""
    if isinstance(run, Logged):
        return same(run.parts.get(key, UNSET))
    return json.dumps(run.setting(key), sort_keys=True)


class DifferentRunsError(ValueError):
    """Runs that cannot share a table, or a choice: ``said`` is why, without what to type.

    ``values`` are those of every key that differs; ``mixable`` says whether the difference may be allowed.
    """

    def __init__(self, said: str, remedy: str, values: Mapping[str, Sequence[str]], *, mixable: bool):
        super().__init__(said + remedy)
        self.said, self.values, self.mixable = said, values, mixable


def _apart(label: str, first: Run, last: Run, by: Sequence[str]) -> DifferentRunsError:
    """Two runs of the same label and seed, and the settings that tell them apart."""
    said = f"two runs of {label!r} with seed {first.seed}: {first.folder} and {last.folder}; "
    keys = {*first.settings, *last.settings} - {*first.measured}
    own = [key for key in sorted(keys) if not key.startswith("environment.")]
    values = {key: list(dict.fromkeys(text_at(run, key) for run in (first, last))) for key in own}
    values = _shortest({key: two for key, two in values.items() if len(set(map(same, two))) > 1})
    if not values:
        return DifferentRunsError(f"{said}they have the same settings: remove one", "", {}, mixable=False)
    (key, two), more = next(iter(values.items())), ", ..." * (len(values) > 3)
    steps = ", or, if they are steps of a run, keep the last of each" * isinstance(first, Logged)
    where, named = shlex.quote(f"{typed(key)}={two[1]}"), shlex.quote(joined(*by, chosen_by(key)))
    keep = f"keep one by --where {where}, or " * bool(two[1])
    remedy = f": {keep}tell them apart by --by {named}{steps}"
    said += f"they differ in {', '.join(list(values)[:3])}{more} ({key}: {' or '.join(two)})"
    return DifferentRunsError(said, remedy, values, mixable=False)


def typed(key: str) -> str:
    """``key`` as ``--where`` takes it: of the name of a configuration group the group."""
    group = key.removesuffix(".name")
    return group if group in NAMED else key


def chosen_by(key: str) -> str:
    """``key`` as ``--by`` and ``--allow`` take it: stages are told apart by the whole of ``pool``."""
    return "pool" if key.startswith("stages.") else typed(key)


def _by_seed(label: str, runs: list[Run], by: Sequence[str]) -> dict[int, Run]:
    last = {run.seed: run for run in runs}
    for run in runs:
        if run is not last[run.seed]:
            raise _apart(label, run, last[run.seed], by)
    return dict(sorted(last.items()))


def labels(groups: list[list[Run]], by: Sequence[str]) -> list[str]:
    """A label per group: for each key the name, with the options that differ or were requested."""
    # The stages of a probed model are its modules with all their settings: included only where needed.
    for modules in (False, True):
        columns = [_column(groups, key, modules=modules) for key in by]
        found = [printable(" / ".join(parts)) for parts in zip(*columns, strict=True)]
        if len(set(found)) == len(found):
            break
    return found


def _column(groups: list[list[Run]], key: str, *, modules: bool) -> list[str]:
    if key not in NAMED:
        # The name of a choice needs no prefix.
        prefix = "" if key.removesuffix(".name") in (*NAMED, "group") else f"{key}="
        return [prefix + as_text(runs[0].setting(key)) for runs in groups]
    nodes = [getattr(runs[0].results, key) for runs in groups]
    column = []
    for node, runs in zip(nodes, groups, strict=True):
        label = node["name"] + _options(node, _telling(node, nodes) | _asked(runs, key))
        staged = key == "pool" and (modules or not runs[0].results.examined)
        column.append(label + _stages(runs, groups) if staged else label)
    return column


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
    shown = [f"{key}={as_text(node.get(key, UNSET))}" for key in sorted(keys - {"name"})]
    return f"({', '.join(shown)})" if shown else ""


def natural(label: str) -> list[tuple[bool, int, str]]:
    """Sort key that places kernel_size=10 after kernel_size=2."""
    parts = re.split(r"(\d+)", label)
    return [(part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in parts]


def select(runs: Sequence[Run], where: Sequence[str]) -> list[Run]:
    """The runs that satisfy all conditions."""
    return meeting(runs, where, {name for run in runs for name in run.settings} | {*NAMED, "seed"}, text_at)


def meets(run: Run, where: Iterable[str]) -> bool:
    """Whether a run meets all conditions ``key=value`` or ``key=value,value``, of one key any of them."""
    return all(same(text_at(run, key)) in map(same, values) for key, values in conditions(where).items())


def refuse(runs: Sequence[Run], by: Sequence[str], allow: Sequence[str]) -> list[str]:
    """Sentences on differences that were allowed or do no harm; a DifferentRunsError for any other."""
    known = dict.fromkeys(key for run in runs for key in run.settings)
    for key in allow:
        if not any(_covers(key, name) for name in known):
            raise ValueError(f"--allow {key}: no run has this key; {did_you_mean(key, known)}")
    noted, refused = [], {}
    for key in known:
        if key in SILENT or _own(key) or any(_covers(name, key) for name in by):
            continue
        if len(values := _values(runs, key)) < 2:
            continue
        if any(_covers(name, key) for name in (*allow, *(() if key in CODE else FREE))):
            bits = ": the same seed does not give the same bits" if key in BITS else ""
            noted.append(f"{key} differs among the runs: {', '.join(values)}{bits}")
        else:
            refused[key] = values
    if refused:
        raise _refusal(_shortest(refused), by, allow)
    return noted


def refuse_steps(choices: Iterable[Choice], by: Sequence[str], allow: Sequence[str]) -> list[str]:
    """Empty; a ValueError if unpaired rows of a choice differ in a column that may number steps."""
    rows = logged(run for choice in choices for run in choice.runs.values())
    if rows[0].asked.number or rows[0].counted:
        return []
    named = {*by, *allow, *rows[0].asked.metric}
    for key in dict.fromkeys(key for row in rows for key in row.parts if key not in named):
        cells = [row.parts[key] for row in rows if row.parts.get(key)]
        if not (STEPS.search(key) or _may_count(cells)):
            continue
        for choice in choices:
            own = [run for run in choice.runs.values() if run.settings.get(key)]
            values = _values(own, key)
            if len(values) > 1:
                seed = "" if STEPS.search(key) else f"; if it numbers runs: --seed {key}"
                found = _refusal({key: values}, by, allow)
                raise ValueError(f"{found}\n  if it numbers steps of a run: keep the last row{seed}")
    return []


def _may_count(cells: Sequence[str]) -> bool:
    """Whether they are whole numbers of which one, or numbers of which each, stands in several rows."""
    try:
        often = Counter(map(float, cells))
    except ValueError:
        return False
    whole = all(x % 1 == 0 for x in often)
    return (max if whole else min)(often.values(), default=0) > 1


def _own(key: str) -> bool:
    """Whether ``key`` may differ: when a probe is read, or a choice's seed, which repeats the run's."""
    return key.endswith(".every_epochs") or (key.endswith(".seed") and not key.startswith(MEASURED))


def _covers(name: str, key: str) -> bool:
    names = (name, *ALIASES.get(name, ()))
    return any(key == prefix or key.startswith(f"{prefix}.") for prefix in names)


def _values(runs: Sequence[Run], key: str) -> dict[str, list[Run]]:
    """Value as text -> the runs that have it."""
    values: dict[str, list[Run]] = {}
    first: dict[str | Decimal, str] = {}
    for run in runs:
        # A run with a probe switched off has no setting of it that could differ.
        unknown = run.diverged and run.settings.get(key) is None
        if not unknown and (key in run.settings or not key.startswith(MEASURED)):
            text = as_text(run.settings.get(key, UNSET))
            values.setdefault(first.setdefault(same(text), text), []).append(run)
    return values


def _shortest(refused: dict[str, Values]) -> dict[str, Values]:
    """Keep only the name of a choice where it explains differences in its options and hash."""
    named = [name for name in NAMED if f"{name}.name" in refused]
    whole = {key for key in refused if not any(_covers(name, key) for name in named)}
    return {key: refused[key] for key in refused if key in whole or key.removesuffix(".name") in named}


def _refusal(
    refused: dict[str, dict[str, list[Run]]], by: Sequence[str], allow: Sequence[str]
) -> DifferentRunsError:
    said = f"these runs cannot be compared, they differ in {', '.join(refused)}"
    lines = []
    for key, values in list(refused.items())[:3]:
        some = list(values.items())[:4]
        listed = "; ".join(f"{value[:24]} ({len(own)}x, such as {own[0].folder})" for value, own in some)
        lines.append(f"  {key}: {listed}{'; ...' if len(values) > 4 else ''}")
    key, values = next(iter(refused.items()))
    one = chosen_by(key)
    lines.append(
        f"  keep one: --where {typed(key)}={next(iter(values))}, tell them apart: --by {joined(*by, one)}, "
        f"or mix them knowingly: --allow {joined(*allow, one)}"
    )
    of_keys = {key: list(one) for key, one in refused.items()}
    return DifferentRunsError(said, "\n" + "\n".join(lines), of_keys, mixable=True)


def text_at(run: Run, key: str) -> str:
    """The value of ``key`` as in ``--where``; the name for a configuration group."""
    if key in NAMED:
        return str(getattr(run.results, key)["name"])
    return as_text(run.setting(key))
