"""The words of a study: the table of its candidates, its recommendation, and its report."""

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from cnnpool.choose.boundary import FIRST_ROUND
from cnnpool.choose.rounds import LEVEL, Array
from cnnpool.choose.study import Study, View, run_s
from cnnpool.quantity import Quantity
from cnnpool.report.document import Block, Code, Heading, Items, Paragraph, Table, agreed
from cnnpool.report.plots import Plot
from cnnpool.report.statistics import Summary, summarise
from cnnpool.run_folder.results import Results
from cnnpool.system.progress import duration
from cnnpool.tables import Column, from_rows

NONE = "–"
COUNT = Quantity("", "", "", form="count")
UNITS = {"flops": "FLOPs", "parameters": "parameters", "memory": "bytes kept", "time": "s a run"}
COSTS = {"flops": "arithmetic", "parameters": "parameters", "memory": "memory", "time": "time"}
ENDS = {
    "one left": "all other candidates are dropped or out",
    "equivalent": "those left differ by less than the margin",
    "decided": "the cheapest candidate left is shown to lose less than the margin against every other",
    "all rounds": "all planned rounds have run",
    "budget": "no further round fits into the budget",
    "none left": "no candidate is left",
}
MOST = 200
"""Rounds beyond which a forecast gives no number."""
DROPPED = "no better than the best"
LEGEND = (
    "Behind the best: mean difference to the best candidate left, over the rounds that both have. At most: "
    "upper bound of the loss against the best of the others left. All these bounds hold together with 95 %, "
    "for normal differences."
)


@dataclass(frozen=True)
class Ending:
    """How a study ended.

    Args:
        view: where it stood then.
        reason: a key of ``ENDS``.
        command: the words that started it.
    """

    view: View
    reason: str
    command: Sequence[str]


def order(view: View) -> list[int]:
    """Candidates: those left by their mean, then those dropped, the last dropped first, then those out."""
    ended = {drop.candidate: drop.round for drop in view.state.drops}

    def key(i: int) -> tuple[int, float]:
        if i in view.out:
            return 2, i
        return (1, -ended[i]) if i in ended else (0, -_mean(view.values[i]))

    return sorted(range(len(view.values)), key=key)


def columns(study: Study, view: View, now: Mapping[int, str] | None = None) -> list[Column]:
    """Candidate, seeds, metric, distance to the best, cost, and whether it is left.

    Args:
        study: its candidates and metric.
        view: where it stands.
        now: candidate -> what it does just now.
    """
    places, metric = order(view), study.metric
    step = f" ({metric.step_unit})" if metric.step_unit else ""
    found = [summarise([metric.sense * value for value in _known(view.values[i]).tolist()]) for i in places]
    return [
        Column("candidate", [study.arms[i].label for i in places], words=True),
        Column("seeds", [str(one.n) for one in found]),
        Column(f"{metric.header}, mean ± sd", [_mean_sd(study, one) for one in found]),
        Column(f"behind the best{step}", [_behind(study, view, i) for i in places]),
        Column(f"at most{step}", [_bound(study, view, i) for i in places]),
        Column(UNITS[study.options.cost], [_cost(view.costs[i]) for i in places]),
        Column("", [(now or {}).get(i) or fate(view, i) for i in places], words=True),
    ]


def fate(view: View, place: int) -> str:
    """Left, dropped or out, and why, in a few words."""
    if place in view.out:
        return f"out: {view.out[place]}"
    for drop in view.state.drops:
        if drop.candidate == place:
            return f"dropped after round {drop.round}: {DROPPED}"
    return "left" if view.done else "waits"


def rounds(count: int, kind: str = "") -> str:
    """``1 complete round`` or ``3 complete rounds``, of the kind ``complete``."""
    return f"{count}{kind and ' '}{kind} round{'s' * (count != 1)}"


def best(view: View) -> int | None:
    """The candidate with the highest mean of those left."""
    return max(view.active, key=lambda i: _mean(view.values[i])) if view.active and view.done else None


def compose(study: Study, ending: Ending, plots: Sequence[Plot] = ()) -> tuple[str, list[Block]]:
    """The report's title and blocks."""
    view = ending.view
    blocks: list[Block] = [Paragraph(verdict(study, ending))]
    if words := next_command(study, ending):
        blocks += [Code(shlex.join(words))]
    if study.warnings:
        blocks += [Heading("Warnings"), Items([("", one) for one in study.warnings])]
    blocks += [Heading("Candidates"), Table(columns(study, view)), Paragraph(LEGEND)]
    blocks += [Paragraph(NOT_COVERED)]
    if found := gone(study, view):
        blocks += [Heading("Dropped, and out"), Items(found)]
    if undecided := _undecided(study, view):
        blocks += [Heading("What the budget could not decide"), Items(undecided)]
    if test := _on_test(study, view):
        blocks += [Heading("On the test images"), Paragraph(_of_test(study)), Table(test)]
    if study.options.tune:
        tuned = [(arm.label, " ".join(arm.tuned) or "nothing") for arm in study.arms]
        blocks += [Heading("Best on validation images, of the values tried first"), Items(tuned)]
    blocks += [Heading("Figures"), *plots] if plots else []
    blocks += [Heading("Cost of the study"), Items(_cost_of_study(study, view))]
    blocks += [Heading("How it was decided"), Items(_method(study))]
    runs = [one for arm in study.arms for one in arm.runs(study.seeds).values()]
    blocks += [Heading("What ran"), Items(_provenance(study, runs))]
    blocks += [Heading("Made by"), Code(shlex.join(ending.command))]
    where = f" for {runs[0].model['name']} on {runs[0].images_of}" if runs else ""
    return f"Downsampling{where}, by {study.metric.title}", blocks


def verdict(study: Study, ending: Ending) -> str:
    """The recommendation, or that there is none and what is missing, in a few sentences."""
    view, place = ending.view, ending.view.recommended
    ended = f"The study ended after {rounds(view.done, 'complete')}: {ENDS[ending.reason]}."
    if place is not None:
        return f"Recommended: {study.arms[place].label}. {_reason(study, view, place)} {ended}"
    if not view.active:
        return f"No winner: keep what you have. {ended}"
    left = ", ".join(study.arms[i].label for i in order(view) if i in view.active)
    return (
        f"No winner: keep what you have. Not told apart: {left}. {ended} {_missing(study, view)} "
        f"{_remedy(study, ending)}"
    )


def next_command(study: Study, ending: Ending) -> list[str]:
    """The words to type next: train the candidate that is recommended, or go on; none where neither helps."""
    view = ending.view
    if view.recommended is not None:
        arm = study.arms[view.recommended]
        own = [line for line in arm.network.overrides if not line.startswith(("seed=", "out=", "launch"))]
        return ["cnnpool", "train", *own, *arm.candidate.overrides, *arm.tuned, f"seed={study.first_seed}"]
    if ending.reason != "budget":
        return []
    words = [word for word in ending.command if not word.startswith("choose.budget=")]
    return [*words, f"choose.budget={_enough(study, view)}"]


def gone(study: Study, view: View) -> list[tuple[str, str]]:
    """Candidate, and when and why it was dropped, or is out."""
    found = []
    for drop in view.state.drops:
        s = _lead(view, drop.candidate, drop.than)
        message = (
            f"after round {drop.round}: {DROPPED}, shown by {study.arms[drop.than].label}, "
            f"{_amount(study, s.mean)} ahead (n = {s.n}), one-sided p = {drop.p:.2g}, "
            f"level of that look {drop.level:.2g}"
        )
        found.append((study.arms[drop.candidate].label, message))
    return found + [(study.arms[i].label, why) for i, why in sorted(view.out.items())]


def _reason(study: Study, view: View, place: int) -> str:
    name, left = study.arms[place].label, len(view.active)
    if left == 1:
        out = ", or is out" if view.out else ""
        return f"Every other candidate is shown to be {DROPPED}{out}."
    margin = _amount(study, study.options.margin)
    message = f"Of {left} candidates left, {name} is shown to lose less than {margin} against every other"
    leader = best(view)
    if leader is not None and leader != place:
        message += f"; {study.arms[leader].label} has the highest mean"
    cost = COSTS[study.options.cost]
    if not view.costs_known:
        return f"{message}. Of those that this is shown of, it has the best mean; their {cost} is not known."
    return f"{message}. Of those that this is shown of, it takes the least {cost}."


def _missing(study: Study, view: View) -> str:
    """How many rounds would tell the candidates left apart, as far as the runs show it."""
    if view.done < FIRST_ROUND:
        return f"Missing: tests begin with round {FIRST_ROUND}."
    needed = _needed(study, view)
    if math.isnan(needed):
        return "Missing: more rounds."
    number = f"about {needed:.0f}" if needed <= MOST else f"more than {MOST}"
    return f"Missing: {number} rounds would tell, if means and spread stay as they are."


def _remedy(study: Study, ending: Ending) -> str:
    margin = "choose a larger choose.margin if so small a difference does not matter"
    if ending.reason == "budget":
        return f"Raise choose.budget, which goes on from here, or {margin}."
    return f"Choose another choose.out with more time or choose.rounds, or {margin}."


def _enough(study: Study, view: View) -> str:
    """The budget that the rounds which are missing need, as far as they are planned."""
    planned = study.ledger.rounds or FIRST_ROUND
    needed = _needed(study, view)
    wanted = max(view.done + 1, planned if math.isnan(needed) else min(planned, needed))
    more = (wanted - view.done) * len(view.active) * run_s(study)
    minutes = math.ceil((study.ledger.spent_s + 1.1 * more) / 60)
    # At least what makes the budget larger.
    minutes = max(minutes, math.ceil(study.options.budget_s / 60) + 1)
    return f"{minutes}min" if minutes < 600 else f"{math.ceil(minutes / 60)}h"


def _needed(study: Study, view: View) -> float:
    """Rounds that would tell all candidates left from the best; NaN if nothing shows it."""
    leader = best(view)
    if leader is None:
        return math.nan
    found = [_forecast(study, view, _lead(view, i, leader)) for i in view.active if i != leader]
    known = [one for one in found if not math.isnan(one)]
    return max(known, default=math.nan)


def _forecast(study: Study, view: View, s: Summary) -> float:
    """Rounds, planned for it, that would tell if means and spread stayed; NaN unknown, infinity too many."""
    gap = max(s.mean, study.options.margin - s.mean)
    if s.n < FIRST_ROUND or not s.sd > 0 or gap <= 0:
        return math.nan
    planned = np.arange(max(view.done + 1, FIRST_ROUND), MOST + 1)
    half = stdtrit(planned - 1, 1 - LEVEL / (len(study.arms) - 1)) * s.sd / np.sqrt(planned)
    return float(planned[half < gap][0]) if (half < gap).any() else math.inf


def _undecided(study: Study, view: View) -> list[tuple[str, str]]:
    """Candidate, and what was not shown of it, of those left."""
    leader = best(view)
    if leader is None or len(view.active) < 2:
        return []
    found = []
    for i in order(view):
        if i not in view.active or i == leader or i in view.state.not_worse:
            continue
        s, loss = _lead(view, i, leader), view.state.loss[i]
        message = f"behind {study.arms[leader].label} by {_amount(study, s.mean)} over {rounds(s.n)}"
        if math.isfinite(loss):
            margin = _amount(study, study.options.margin)
            message += f", at most {_amount(study, loss)} behind the best: not shown to be within {margin}"
        needed = _forecast(study, view, s)
        if needed > MOST:
            message += f"; more than {MOST} rounds would be needed to tell, if it stays so"
        elif not math.isnan(needed):
            message += f"; about {needed:.0f} rounds would tell, if it stays so"
        found.append((study.arms[i].label, message))
    if leader not in view.state.not_worse and found:
        found.append((study.arms[leader].label, "has the best mean; that it is the best is not shown"))
    return found


def _on_test(study: Study, view: View) -> list[Column]:
    """Test accuracy of each candidate over its seeds; no columns without any."""
    rows = []
    for i in order(view):
        runs = study.arms[i].runs(study.seeds[: view.done]).values()
        if found := [one.accuracy for one in runs if one.accuracy is not None]:
            s = summarise(found)
            spread = f" ± {100 * s.sd:.2f}" if s.n > 1 else ""
            interval = f"[{100 * s.low:.2f}, {100 * min(s.high, 1):.2f}]" if s.n > 1 else NONE
            rows.append((study.arms[i].label, str(s.n), f"{100 * s.mean:.2f}{spread}", interval))
    headers = ("candidate", "seeds", "test accuracy (%), mean ± sd", "95 % CI over seeds")
    return from_rows(headers, rows, numbers=headers[1:]) if rows else []


def _of_test(study: Study) -> str:
    if study.metric.key.startswith("test."):
        return "These images decided: the figure of the recommended candidate is a little too high."
    return "These images decided nothing. Candidates that were dropped have fewer seeds."


def _cost_of_study(study: Study, view: View) -> list[tuple[str, str]]:
    """Time, runs and rounds."""
    ledger = study.ledger
    whole, runs = len(study.arms) * view.done, int(np.isfinite(view.values).sum())
    made = sum(len(arm.runs(study.seeds)) for arm in study.arms)
    calls = f" in {ledger.sessions} calls" if ledger.sessions > 1 else ""
    saved = f"; all candidates in all of them would have been {whole}" if whole > runs else ""
    spent = f"{duration(ledger.spent_s)} of {duration(study.options.budget_s)}{calls}"
    return [
        ("Time", f"{spent}, without the first reading of the images"),
        ("Runs", f"{made} finished, {runs} of them in {rounds(view.done, 'complete')}{saved}"),
        ("Rounds planned", str(ledger.rounds or "none yet")),
    ]


NOT_COVERED = (
    "A dropped candidate is no better than the best of the others; nothing is said of any other pair. The "
    "best one is dropped in at most 5 % of studies if differences between runs are normal. Not covered: "
    "skewed results, runs that collapse, and the choice of training images, which all rounds share "
    "(docs/choose.md)."
)


def _method(study: Study) -> list[tuple[str, str]]:
    sense = "higher" if study.metric.sense > 0 else "lower"
    rivals = len(study.arms) - 1
    planned = study.ledger.rounds or "as yet unplanned"
    return [
        ("Measure", f"{study.metric.key} of results.json; {sense} is better."),
        (
            "Rounds",
            f"Each trains every candidate left on one further seed, from {study.first_seed} on, so that "
            f"results are paired. Tests begin with round {FIRST_ROUND}. The number of rounds was planned "
            "from the time that runs took, before the first test.",
        ),
        (
            "Drops",
            "A candidate is dropped when a paired t test against any other one reaches the level of the "
            "look, unless its loss is shown to be below the margin. The levels are those of a "
            f"group-sequential test of {planned} rounds, divided by the {rivals} rival{'s' * (rivals != 1)}.",
        ),
        (
            "Resolution",
            f"Steps of the metric: {study.ledger.resolution:.2g}; their rounding is counted as variance.",
        ),
        ("Margin", f"{_amount(study, study.options.margin)}: a smaller difference does not matter."),
    ]


def _provenance(study: Study, runs: Sequence[Results]) -> list[tuple[str, str]]:
    environment = agreed([one.environment for one in runs])
    hashes = sorted({str(one.data_sha256)[:12] for one in runs})
    ended = sorted(str(one.finished) for one in runs if one.finished)
    machine = ", ".join(f"{key} {value}" for key, value in environment.items())
    return [
        ("Network and recipe", " ".join(study.arms[0].network.overrides) or "the defaults"),
        ("Data", f"sha256 {', '.join(hashes)}" if hashes else "unknown"),
        ("Machine and versions", machine or "unknown"),
        ("Finished", f"{ended[0]} to {ended[-1]}" if ended else "nothing"),
    ]


def _lead(view: View, place: int, other: int) -> Summary:
    """How much higher another candidate is than this one, over the rounds that both have."""
    return summarise(_known(view.values[other] - view.values[place]).tolist())


def _amount(study: Study, value: float) -> str:
    """A difference of the metric with its unit."""
    return f"{study.metric.format(value)} {study.metric.step_unit}".strip()


def _behind(study: Study, view: View, place: int) -> str:
    leader = best(view)
    if leader is None or place in view.out:
        return NONE
    if place == leader:
        return "best"
    s = _lead(view, place, leader)
    return study.metric.format(s.mean) if s.n else NONE


def _bound(study: Study, view: View, place: int) -> str:
    loss = view.state.loss[place]
    return study.metric.format(loss) if math.isfinite(loss) else NONE


def _mean_sd(study: Study, s: Summary) -> str:
    if not s.n:
        return NONE
    return study.metric.format(s.mean) + (f" ± {study.metric.format(s.sd)}" if s.n > 1 else "")


def _cost(cost: float) -> str:
    return NONE if math.isnan(cost) else COUNT.format(cost)


def _known(values: Array) -> Array:
    known: Array = values[np.isfinite(values)]
    return known


def _mean(values: Array) -> float:
    known = _known(values)
    return float(known.mean()) if known.size else -math.inf
