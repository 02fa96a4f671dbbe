"""Caveats of the numbers, in sentences: missing or damaged runs, unreliable times and shares."""

import re
import shlex
from collections import Counter
from collections.abc import Sequence

from cnnpool.quantity import is_number
from cnnpool.report.choice import meets
from cnnpool.report.foreign import Logged, logged
from cnnpool.report.measure import Measure
from cnnpool.report.pairwise import LEAST_DECIDED, LEAST_UNPAIRED, Row
from cnnpool.report.runs import Run
from cnnpool.run_folder.results import Results, at_chance

MORE, EQUAL = 0.1, 0.05
"""Relative costs: from ``MORE`` on a winner is reported as costlier; up to ``EQUAL`` costs are equal."""
STATE = re.compile("(?i)state|status")  # Columns of W&B, MLflow and others, and words in them
STOPPED = re.compile(
    "(?i)crash(ed)?|fail(ed|ure)?|kill(ed|ing)?|abort(ed|ing)?|error(ed)?|pruned?|preempt(ed|ing)?|"
    "pending|waiting|scheduled|running"
)
LOADED = 0.1  # Share of the processors used by other programs above which times are unreliable


def observe(
    runs: Sequence[Run],
    kept: Sequence[Run],
    each: Sequence[tuple[Measure, Sequence[Row]]],
    measures: Sequence[Measure],
    paired: bool = True,
) -> list[str]:
    """Sentences on ``runs`` that are missing or damaged, on the ``kept`` ones, and the rows of ``each``."""
    rows = each[0][1]
    notes = [
        f"{run.folder}: {run.state}{': ' * bool(run.reason)}{run.reason}"
        for run in runs
        if not run.found or run.reason
    ]
    notes += _stopped(logged(kept))
    # Several metrics may have the same sentence.
    notes += dict.fromkeys(
        note for metric, own in each for row in own for note in _row(row, own[0], metric, paired)
    )
    notes += _more_cost(rows, measures) + _windows(rows) + _padding(kept)
    if any(run.results.environment.get("dirty") for run in kept):
        notes.append("some runs came from a working tree with uncommitted changes")
    if any(run.results.deterministic is False for run in kept):
        notes.append("some runs were not deterministic: repeating them gives other numbers")
    return notes


def _row(row: Row, base: Row, metric: Measure, paired: bool) -> list[str]:
    notes, label = [], row.choice.label
    for kind, seeds in row.broken_as(metric.key).items():
        what = kind if kind == "diverged" else f"{metric.title} is {kind}"
        notes.append(f"{label}: {what} for {row.choice.named(seeds)}; left out of all means")
    if missing := sorted(row.choice.runs.keys() - row.values.keys()):
        notes.append(f"{label}: {metric.title} was not measured for {row.choice.named(missing)}")
    notes += _short(row, metric.key)
    broken = {*row.broken, *base.broken}
    unpaired = sorted((row.finite.keys() ^ base.finite.keys()) - broken)
    if unpaired and paired:
        some = not broken and len(row.finite.keys() & base.finite.keys()) < LEAST_DECIDED
        none = f"; --seed none compares runs without pairs, from {LEAST_UNPAIRED} of each" * some
        alone = f"{row.choice.named(unpaired)} without a partner"
        notes.append(f"{label}: {alone}, left out of the difference{none}")
    if seeds := [seed for seed, run in row.choice.runs.items() if learned_nothing(run.results)]:
        seeds_of = f"no better than always predicting one class with {row.choice.named(seeds)}"
        notes.append(f"{label}: {seeds_of}, which makes consistency meaningless")
    return notes


def _short(row: Row, tag: str) -> list[str]:
    """A sentence if some runs of other programs end at an earlier step than most: they may be unfinished."""
    runs = logged(row.choice.runs.values())
    ends = {run.folder: run.series[tag][0][-1] for run in runs if tag in run.series}
    usual = max(ends.values(), key=[*ends.values()].count, default=0)
    early = [f"{folder} at step {step:g}" for folder, step in ends.items() if step < usual]
    some = f"{len(early)} of {len(ends)} runs end before step {usual:g}, such as {', '.join(early[:3])}"
    return [f"{row.choice.label}: {some}: unfinished?"] * bool(early)


def _stopped(runs: Sequence[Logged]) -> list[str]:
    """A sentence on each column whose words say that some runs did not finish, which count all the same."""
    notes, columns = [], (key for run in runs for key in run.parts if key not in run.asked.keys)
    for key in dict.fromkeys(filter(STATE.fullmatch, columns)):
        cells = [run.parts.get(key, "") for run in runs]
        often = Counter(filter(STOPPED.fullmatch, cells))
        rest = ",".join(dict.fromkeys(cell for cell in cells if cell not in often))
        where = f"{key}={rest}"
        exact = [meets(run, [where]) for run in runs] == [cell not in often for cell in cells]
        said = ", ".join(f"{cell} for {count}" for cell, count in often.items())
        others = f": --where {shlex.quote(where)} compares the others alone" * bool(rest and exact)
        notes += [f"{key} is {said} of {len(runs)} runs{others}"] * bool(often)
    return notes


def sizes(measures: Sequence[Measure]) -> list[Measure]:
    """The costs that depend on the architecture alone and that a report discusses, such as FLOPs."""
    return [one for one in measures if one.quantity.headline and one.quantity.seeds == "same"]


def _more_cost(rows: Sequence[Row], measures: Sequence[Measure]) -> list[str]:
    """A sentence on each choice that is better but costs more, with a control of equal cost."""
    notes, base = [], rows[0]
    for one in sizes(measures):
        costs = {row.choice.label: row.others[one.key].mean for row in rows}
        for row in rows[1:]:
            label, own = row.choice.label, costs[row.choice.label]
            more = own / costs[base.choice.label] - 1 if costs[base.choice.label] else 0.0
            if row.verdict == "better" and more > MORE:
                near = [name for name in costs if name != label and abs(costs[name] / own - 1) < EQUAL]
                control = f"of equal cost here: {', '.join(near)}" if near else "no choice here costs as much"
                notes.append(
                    f"{label} is better with {100 * more:.0f} % more {one.title} than {base.choice.label}; "
                    f"{control}"
                )
    return notes


def _windows(rows: Sequence[Row]) -> list[str]:
    """A sentence on the choices whose pooling window differs from the baseline's."""
    sizes = {row.choice.label: row.choice.results.pool.get("kernel_size") for row in rows}
    base = rows[0].choice.label
    others = [f"{label} {size}" for label, size in sizes.items() if size not in (None, sizes[base])]
    if sizes[base] is None or not others:
        return []
    return [f"pooling windows differ from the {sizes[base]} of {base}: {', '.join(others)}"]


def _padding(kept: Sequence[Run]) -> list[str]:
    """A sentence if circular shifts are applied to networks without circular padding."""
    shifted = [run for run in kept if run.at("invariance", "consistency")]
    paddings = [run.at("invariance", "model_padding") for run in shifted]
    found = {str(name) for one in paddings if isinstance(one, list) for name in one} - {"circular", "none"}
    if not found:
        return []
    return [
        f"consistency by circular shifts, of networks that pad with {', '.join(sorted(found))}: "
        "not comparable with papers that pad circularly (model.padding_mode=circular)"
    ]


def learned_nothing(results: Results) -> bool:
    """Whether naming the commonest class would have reached the run's test accuracy."""
    accuracy, counts = results.accuracy, (results.images or {}).get("test")
    if accuracy is None or not isinstance(counts, list):
        return False
    known = all(is_number(one) and one >= 0 for one in counts) and sum(counts) > 0
    return known and at_chance(accuracy, counts)


def loaded(runs: Sequence[Run], measures: Sequence[Measure]) -> str:
    """Why the timed ``measures`` are unreliable; empty if every run says that other programs used little."""
    timed = " and ".join(one.title for one in measures if one.quantity.timed)
    loads = [run.at("cost", "load") for run in runs]
    known = [load for load in loads if is_number(load)]
    busy = [load for load in known if load > LOADED]
    if not timed or (not busy and len(known) == len(loads)):
        return ""
    if busy:
        return (
            f"{timed}: unreliable, since other processes, such as other runs, took more than "
            f"{100 * LOADED:.0f} % of the processors during {len(busy)} of {len(loads)} runs, up to "
            f"{100 * max(busy):.0f} %"
        )
    silent = f"{len(loads) - len(known)} of {len(loads)} runs do not say how busy the machine was"
    return f"{timed}: not known to be reliable, since {silent}"
