"""Runs of other programs: their logs -> runs with a group, a seed and the value to compare."""

import logging
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from cnnpool.registry import did_you_mean
from cnnpool.report import scalars
from cnnpool.report.runs import Run, find, keys_of
from cnnpool.report.scalars import SEEDS, Files, Log, Series
from cnnpool.run_folder.results import NAMED, Results

log = logging.getLogger(__name__)

NUMBERED = re.compile(
    r"(?:(?P<rest>.*?)[_\-. ])?(?P<word>seed|version|run|trial|rep|fold|v|s)[_\-=. ]*(?P<number>\d{1,18})"
    r"|\d{1,18}",
    re.IGNORECASE,
)
"""A part of a path that numbers a run, such as ``3``, ``version_3`` or ``resnet-seed3``."""
LOWER = re.compile(
    r"(?i:loss|error|perplexity|regret)"
    r"|(?:(?<![A-Za-z])|(?<=[a-z])(?=[A-Z]))(?i:err|nll|ppl|r?mse|mae|wer|cer|fid|bpc)(?![a-z])"
)
"""Words of a tag of which less is better, the short ones as words of their own."""
LOOKED_AT = 20  # Most logs read to find the metric if none is named
PREFERRED = ("test.*acc", "val.*acc", "acc", "test", "val", "")
"""Patterns in order of preference: without a named tag, the first tag that matches the first one is used."""
Ready = Sequence[tuple[Log, tuple[str, ...]]]
"""Logs, each with the parts of its path below the requested folder."""
Known = dict[str, str]  # Facts about a run from its path, its columns or its parameters


@dataclass(frozen=True)
class Value:
    """The number of a run: the mean of its ``last`` points, or the ``best``, which says what is better."""

    best: Literal["", "max", "min"] = ""
    last: int | None = None

    def __post_init__(self) -> None:
        if self.last is not None and self.last < 1:
            raise ValueError(f"the mean of the last {self.last} points: name 1 or more")

    @property
    def points(self) -> int:
        """Number of last points that count; 0 for the best."""
        return int(not self.best) if self.last is None else self.last

    def of(self, series: Series) -> float:
        """The value of ``series``; NaN if it ends with NaN, or, for the best, if it holds nothing else."""
        values = series[1][-self.points :]
        if self.points:
            return sum(values) / len(values)
        numbers = [x for x in values if x == x] or [math.nan]
        return max(numbers) if self.best == "max" else min(numbers)

    def better(self, tag: str) -> Literal["higher", "lower"]:
        return "lower" if self.best == "min" or (not self.best and LOWER.search(tag)) else "higher"

    def said(self, tags: Sequence[str]) -> str:
        how = f"the mean of its last {self.last} points" if self.points > 1 else "its last value"
        if not self.points:
            how = f"its {self.best}imum, which is optimistic: on other data it would be worse"
        better = " and ".join(f"{self.better(tag)} {tag}" for tag in tags)
        told = f"{better} {'are' if len(tags) > 1 else 'is'} better"
        said = f"; {told}." if self.best else f"; by name, {told} (--best says otherwise)."
        return f"Each run counts by {how}{said}"


LAST = Value()


@dataclass(frozen=True)
class Logged(Run):
    """A run of another program, grouped ``by`` some of its facts; ``numbered`` is the source of its seed."""

    parts: Mapping[str, str] = field(default_factory=dict)
    by: tuple[str, ...] = ("group",)
    numbered: str = ""
    series: Mapping[str, Series] = field(default_factory=dict, repr=False)
    value: Value = LAST

    @cached_property
    def settings(self) -> Mapping[str, Any]:
        return self.parts


def logged(runs: Iterable[Run]) -> list[Logged]:
    """The runs of other programs among ``runs``; in a comparison these are all or none."""
    return [run for run in runs if isinstance(run, Logged)]


def read(
    paths: Iterable[str | os.PathLike[str]],
    metric: str = "",
    by: str = "",
    value: Value = LAST,
    each: Callable[[], object] = lambda: None,
) -> list[Run]:
    """The runs of cnnpool at or under ``paths``, or else of other programs, as for ``cnnpool.compare``."""
    files: list[Files] = []
    if runs := find(paths, each, files):
        if value != LAST or _is_pattern(by):
            raise ValueError(
                f"{runs[0].folder} is a run of cnnpool: --best, --last, --mean-of-last and patterns of --by "
                "are for logs of other programs, so give the folder of these alone"
            )
        if files:
            left = f"logs of other programs in {len(files)} folders, such as {files[0][1]}, are left out"
            log.warning("%s: cnnpool's own runs are compared", left)
        return runs
    metrics = keys_of(metric)
    if not metrics:
        # One log for each name of a folder, such as train and validation: reading all tags of all takes long.
        heads = {folder.name: (folder, names) for _, folder, names in reversed(files)}
        some = [one for head in islice(reversed(heads.values()), LOOKED_AT) for one in scalars.read(*head)]
        metrics = [likely(tag for one in some for tag in one.series)]
    logs = []
    for root, folder, names in files:
        logs += [(root, one) for one in scalars.read(folder, names, metrics)]
        each()
    for tag in metrics:
        if not any(tag in one.series for _, one in logs):
            every = (one for _, folder, names in files for one in scalars.read(folder, names))
            known = sorted({tag for one in every for tag in one.series})
            raise ValueError(f"--metric {tag}: no run has it; {did_you_mean(tag, known)}")
    return grouped(logs, metrics, by, value)


def likely(tags: Iterable[str]) -> str:
    """The tag to compare if none is named: preferably an accuracy on data other than the training data.

    ``tags`` are those of every log; a tag that less than half as many logs have as the commonest is left out.
    """
    counts = Counter(tags)
    every = sorted(tag for tag, count in counts.items() if 2 * count >= max(counts.values()))
    for wanted in PREFERRED:
        for tag in every:
            if re.search(wanted, tag, re.IGNORECASE):
                return tag
    raise ValueError("no numbers in the first logs: name a metric by --metric")


def grouped(
    logs: Sequence[tuple[Path, Log]], metrics: Sequence[str], by: str = "", value: Value = LAST
) -> list[Run]:
    """Runs with their groups and seeds, from logs and the requested folders."""
    runs: list[Run] = []
    ready: list[tuple[Log, tuple[str, ...]]] = []
    for root, one in _whole(logs):
        if metrics[0] in one.series and one.state == "done":
            inside = one.path.relative_to(root).parts if one.path.is_relative_to(root) else ()
            ready.append((one, inside or (one.path.name,)))
        else:
            state = "damaged" if one.state == "damaged" else "unfinished"
            reason = one.problem or (f"no {metrics[0]} in it" if one.state == "done" else one.state)
            runs.append(Run(one.path, state, reason))
    if not ready:
        return runs
    known, keys, numbered = _by_pattern(ready, by) if _is_pattern(by) else _by_keys(ready, by)
    values = [{tag: value.of(series) for tag, series in one.series.items()} for one, _ in ready]
    quantities = _described(values, metrics, value)
    counts: Counter[tuple[str, ...]] = Counter()
    for (one, parts), own, measured in zip(ready, known, values, strict=True):
        if own is None:
            runs.append(Run(one.path, "unfinished", f"{'/'.join(parts)} does not fit --by {by}"))
            continue
        group = tuple(own.get(key, "") for key in keys)
        rooms: dict[str, Any] = {name: {"name": own.get(name, "")} for name in NAMED}
        found = Results(
            **rooms,
            seed=int(own["seed"].partition(".")[0]) if numbered else counts[group],
            measured=measured,  # type: ignore[arg-type]
            quantities=quantities,
        )
        counts[group] += 1
        runs.append(Logged(one.path, "done", one.problem, found, own, keys, numbered, one.series, value))
    return runs


def _whole(logs: Iterable[tuple[Path, Log]]) -> Iterable[tuple[Path, Log]]:
    """The logs, merged by path: Keras writes two folders for a run."""
    found: dict[Path, tuple[Path, Log]] = {}
    for root, one in logs:
        if one.path in found:
            other = found[one.path][1]
            problem = "; ".join(filter(None, [other.problem, one.problem]))
            one = replace(one, series={**other.series, **one.series}, problem=problem)
        found[one.path] = root, one
    return found.values()


def _described(
    runs: Sequence[Mapping[str, float]], metrics: Sequence[str], value: Value
) -> dict[str, dict[str, Any]]:
    """The quantity of each tag, as in ``results.json``; values near 1 are shown with four decimals."""
    found: dict[str, dict[str, Any]] = {}
    for tag in dict.fromkeys(tag for run in runs for tag in run):
        largest = max((abs(run[tag]) for run in runs if math.isfinite(run.get(tag, math.nan))), default=0.0)
        shown = {"shown": "compare" if tag in metrics else "file", "headline": tag in metrics[1:]}
        form = "ratio" if 0.1 <= largest < 10 else "number"
        found[tag] = {"title": tag, "definition": "", "form": form, "better": value.better(tag), **shown}
    return found


def _is_pattern(by: str) -> bool:
    return "{" in by or "(?P<" in by


def _by_pattern(ready: Ready, by: str) -> tuple[list[Known | None], tuple[str, ...], str]:
    """By a regular expression, or a pattern whose parts in braces match text without a slash."""
    text = by
    if "(?P<" not in by:
        plain, *rest = re.split(r"\{(\w+)\}", by)
        text = re.escape(plain)
        for name, plain in zip(rest[::2], rest[1::2], strict=True):
            text += f"(?P<{name}>{r'[0-9]{1,18}' if name == 'seed' else '[^/]+?'}){re.escape(plain)}"
    try:
        pattern = re.compile(f"(?:^|(?<=/)){text}(?=/|$)")
    except re.error as error:
        raise ValueError(f"--by {by}: {error}") from None
    found = [pattern.search("/".join(parts)) for _, parts in ready]
    if not any(found):
        raise ValueError(f"--by {by}: no path fits it, such as {'/'.join(ready[0][1])}")
    keys = tuple(name for name in pattern.groupindex if name != "seed")
    if not keys:
        raise ValueError(f"--by {by}: name a part that makes a group, such as {{group}}")
    known = [
        _settings(log) | one.groupdict("") if one else None
        for (log, _), one in zip(ready, found, strict=True)
    ]
    return known, keys, "the seed" * _numbered(one for one in known if one is not None)


def _by_keys(ready: Ready, by: str) -> tuple[list[Known | None], tuple[str, ...], str]:
    """By the keys ``by``; without any, tables by their columns, others by folders or differing settings."""
    folders, numbers = _folders([parts if log.named else parts[:-1] for log, parts in ready])
    known = [
        _settings(log) | {"group": " / ".join(log.settings[key] for key in log.by) or folder}
        for (log, _), folder in zip(ready, folders, strict=True)
    ]
    keys = tuple(keys_of(by))
    for key in keys:
        if not any(key in one for one in known):
            every = {name for one in known for name in one}
            raise ValueError(f"--by {key}: no run has this key; {did_you_mean(key, every)}")
    if not keys and len({one["group"] for one in known}) < 2:
        # Use settings in which runs differ, but not those that differ in every run, as names do.
        names = dict.fromkeys(name for one in known for name in one if name.lower() not in SEEDS)
        keys = tuple(key for key in names if 1 < len({one.get(key) for one in known}) < len(known))
    numbered = "the seed" * _numbered(known)
    if not numbered and None not in numbers:
        known = [one | {"seed": str(number)} for one, number in zip(known, numbers, strict=True)]
        numbered = "the number in the folder's name"
    return list(known), keys or ("group",), numbered


def _settings(log: Log) -> Known:
    seeds = [log.settings[key] for key in log.settings if key.lower() in SEEDS]
    return {**log.settings, **({"seed": seeds[0]} if seeds else {})}


def _numbered(known: Iterable[Known]) -> bool:
    """Whether every run has a whole number as its seed."""
    return all(re.fullmatch(r"[0-9]{1,18}(\.0*)?", one.get("seed", "")) for one in known)


def _folders(paths: Sequence[tuple[str, ...]]) -> tuple[list[str], list[int | None]]:
    """The group and the number from each path; parts that all paths share are ignored."""
    shared = set.intersection(*map(set, paths))
    if len({len(path) for path in paths}) == 1:
        places = [place for place, parts in enumerate(zip(*paths, strict=True)) if len(set(parts)) > 1]
        own = [[path[place] for place in places] for path in paths]
    else:
        own = [[part for part in path if part not in shared] for path in paths]
    numbers = [_take_number(parts) for parts in own]
    if None in numbers and all(len(parts) > 1 for parts in own):
        # Folders with a time or a random name give neither a number nor a group.
        own = [parts[:-1] for parts in own]
    common = "/".join(part for part in paths[0] if part in shared) or "all"
    return ["/".join(parts) or common for parts in own], numbers


def _take_number(parts: list[str]) -> int | None:
    """Remove the number of a run from the parts of its path, preferring one called a seed."""
    found = [(place, match) for place, part in enumerate(parts) if (match := NUMBERED.fullmatch(part))]
    if not found:
        return None
    seeds = [one for one in found if (one[1]["word"] or "").lower() == "seed"]
    place, match = (seeds or found)[-1]
    parts[place : place + 1] = [match["rest"]] if match["rest"] else []
    return int(match["number"] or match[0])


def short(label: str, runs: Iterable[Run], tag: str) -> list[str]:
    """A sentence if some runs of a group end at an earlier step than most: they may be unfinished."""
    ends = {run.folder: run.series[tag][0][-1] for run in logged(runs) if tag in run.series}
    usual = max(ends.values(), key=[*ends.values()].count, default=0)
    early = [f"{folder} at step {step}" for folder, step in ends.items() if step < usual]
    listed = ", ".join(early[:3])
    said = f"{label}: {len(early)} of {len(ends)} runs end before step {usual}, such as {listed}: unfinished?"
    return [said] * bool(early)


def paired(groups: Sequence[Mapping[int, Run]]) -> bool:
    """Whether to pair runs by seed: runs of cnnpool, and others that share half of their seeds."""
    own = logged(run for group in groups for run in group.values())
    shared = set.intersection(*(set(group) for group in groups))
    return not own or (bool(own[0].numbered) and 2 * len(shared) >= max(map(len, groups)))


def understood(groups: Sequence[Mapping[int, Run]], tags: Sequence[str]) -> str:
    """Number of groups and runs, how they are paired and read; empty for runs of cnnpool."""
    own = logged(run for group in groups for run in group.values())
    if not own:
        return ""
    sizes = sorted({len(group) for group in groups})
    size = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    numbered, keys = own[0].numbered, own[0].by
    why = "their numbers differ" if numbered else "no number says which belong together"
    pairs = f"paired by {numbered}" if paired(groups) else f"not paired, since {why} (Welch's test)"
    by = "" if keys == ("group",) else f" by {', '.join(keys)}"
    counted = f"{len(groups)} group{'s' * (len(groups) > 1)}{by}"
    return f"{counted}, {size} run{'s' * (sizes[-1] > 1)} each, {pairs}. {own[0].value.said(tags)}"
