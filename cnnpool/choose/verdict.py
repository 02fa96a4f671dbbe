"""The verdict of a study in words: the recommendation, or what is missing; those gone; the next command."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from cnnpool.choose.candidates import overrides_of
from cnnpool.choose.rounds import FIRST_ROUND, LEVEL
from cnnpool.choose.study import NOTHING, Study, View, run_s
from cnnpool.registry import KEEP
from cnnpool.report.notes import learned_nothing
from cnnpool.report.statistics import Summary

ENDS = {
    "one left": "all other candidates are dropped or out",
    "equivalent": "the remaining candidates differ by less than the margin",
    "decided": "the cheapest candidate left is shown to lose less than the margin against every other",
    "all rounds": "all planned rounds have run",
    "budget": "no further round fits into the budget",
    "none left": "no candidate is left",
    NOTHING: "no run is better than always predicting one class",
}
MOST = 200  # Most rounds that a forecast gives as a number
DROPPED = "no better than the best"


@dataclass(frozen=True)
class Ending:
    """How a study ended: its last view, a key of ``ENDS``, and the command that started it."""

    view: View
    reason: str
    command: Sequence[str]

    @property
    def empty(self) -> bool:
        """Whether it recommends and advises nothing."""
        seen = self.view
        return seen.recommended is None and not (seen.active and seen.done and self.reason != NOTHING)


def rounds(count: int, kind: str = "") -> str:
    """``1 complete round`` or ``3 complete rounds``; ``kind`` is ``complete``."""
    return f"{count}{kind and ' '}{kind} round{'s' * (count != 1)}"


def fate(view: View, place: int) -> str:
    """Left, dropped or out, with the reason, in a few words."""
    if place in view.out:
        return f"out: {view.out[place]}"
    for drop in view.state.drops:
        if drop.candidate == place:
            return f"dropped after round {drop.round}: {DROPPED}"
    return "left" if view.done else "waits"


def gone(study: Study, view: View) -> list[tuple[str, str]]:
    """Candidate, and when and why it was dropped or is out."""
    found = []
    for drop in view.state.drops:
        s = view.lead(drop.candidate, drop.than)
        message = (
            f"after round {drop.round}: {DROPPED}, shown by {study.arms[drop.than].label}, "
            f"{study.metric.amount(s.mean)} ahead (n = {s.n}), one-sided p = {drop.p:.2g}, "
            f"level of that look {drop.level:.2g}"
        )
        found.append((study.arms[drop.candidate].label, message))
    return found + [(study.arms[i].label, why) for i, why in sorted(view.out.items())]


def verdict(study: Study, ending: Ending) -> str:
    """The recommendation, or why there is none and what is missing, in a few sentences."""
    view, place = ending.view, ending.view.recommended
    ended = f"The study ended after {rounds(view.done, 'complete')}: {ENDS[ending.reason]}."
    if ending.reason == NOTHING:
        steps = max(one.steps or 0 for arm in study.arms for one in arm.runs(study.seeds).values())
        remedy = "a lower fit.lr, more fit.epochs, or a smaller data.batch_size"
        return (
            f"No verdict. {ended} First find a recipe that learns, by cnnpool train: {remedy} "
            f"(a run took {steps:,} steps)."
        )
    if ending.empty:
        return f"No verdict: {'nothing ran to its end' if view.active else 'no candidate is left'}. {ended}"
    if lost := ", ".join(f"{number} of {label}" for label, number in collapsed(study)):
        ended += f" No better than always predicting one class: {lost}."
    if place is not None:
        return f"Recommended: {study.arms[place].label}. {_reason(study, view, place)} {ended}"
    left = ", ".join(study.arms[i].label for i in view.order if i in view.active)
    remedy = "Choose another choose.out with more time or choose.rounds"
    if ending.reason == "budget":
        most = (
            f", to at most the {rounds(planned)} planned at its start"
            if (planned := study.ledger.rounds)
            else ""
        )
        remedy = f"Raise choose.budget to continue from here{most}"
    return (
        f"{_advice(study, view)} Not told apart: {left}. {ended} {_missing(study, view)} {remedy}, "
        "or choose a larger choose.margin if so small a difference does not matter."
    )


def collapsed(study: Study) -> list[tuple[str, str]]:
    """Candidates with runs that are no better than always predicting one class, and how many."""
    found = []
    for arm in study.arms:
        runs = list(arm.runs(study.seeds).values())
        if lost := sum(map(learned_nothing, runs)):
            found.append((arm.label, f"{lost} of {len(runs)} runs"))
    return found


def _advice(study: Study, view: View) -> str:
    """The candidate to take all the same, and how far it may be behind."""
    place = max(view.active, key=view.mean)
    name, loss = study.arms[place].label, view.state.loss[place]
    said = f"No candidate is shown to be the best. If you must choose: {name}, which has the highest mean"
    if not math.isfinite(loss):
        return f"{said} so far; how far it may be behind is not known yet."
    return f"{said}; with 95 % it is at most {study.metric.amount(loss)} behind the best."


def next_command(study: Study, ending: Ending) -> list[str]:
    """The next command: train the recommended or advised candidate, or continue; empty if none helps."""
    view = ending.view
    if ending.reason == NOTHING:
        return []
    place = view.recommended if view.recommended is not None or ending.reason == "budget" else view.best
    if place is not None:
        arm = study.arms[place]
        own = [line for line in arm.network.overrides if not line.startswith(("seed=", "out=", "launch"))]
        files = [] if arm.network.config_dir is None else ["--config-dir", str(arm.network.config_dir)]
        files += ["--config-name", arm.network.config_name] * (arm.network.config_name != "train")
        own += [*overrides_of(arm.label), *arm.tuned, f"seed={study.first_seed}"]
        return ["cnnpool", "train", *files, *own]
    if ending.reason != "budget":
        return []
    words = [word for word in ending.command if not word.startswith("choose.budget=")]
    return [*words, f"choose.budget={_enough(study, view)}"]


def _reason(study: Study, view: View, place: int) -> str:
    name, left = study.arms[place].label, len(view.active)
    if left == 1:
        out = ", or is out" if view.out else ""
        return f"Every other candidate is shown to be {DROPPED}{out}."
    margin = study.metric.amount(study.ledger.margin)
    message = f"Of {left} candidates left, {name} is shown to lose less than {margin} against every other"
    leader = view.best
    if leader is not None and leader != place:
        message += f"; {study.arms[leader].label} has the highest mean"
    if study.arms[place].label == KEEP:
        return f"{message}: keep the network as it is."
    if not view.costs_known:
        return (
            f"{message}. Of those for which this is shown, it has the best mean; their {study.cost.title} is "
            "not known."
        )
    return f"{message}. Of those for which this is shown, it takes the least {study.cost.title}."


def _missing(study: Study, view: View) -> str:
    """How many rounds would separate the remaining candidates, as far as the runs show it."""
    if view.done < FIRST_ROUND:
        return f"Tests begin with round {FIRST_ROUND}."
    needed = _needed(study, view)
    if math.isnan(needed):
        return "More rounds are needed."
    number = f"about {needed:.0f}" if needed <= MOST else f"more than {MOST}"
    return f"Separating them would take {number} rounds in all, if means and spread do not change."


def _enough(study: Study, view: View) -> str:
    """The budget that the missing rounds need, as far as they are planned."""
    planned = study.ledger.rounds or FIRST_ROUND
    needed = _needed(study, view)
    wanted = max(view.done + 1, planned if math.isnan(needed) else min(planned, needed))
    more = (wanted - view.done) * len(view.active) * run_s(study)
    minutes = math.ceil((study.ledger.spent_s + 1.1 * more) / 60)
    # At least enough to enlarge the budget.
    minutes = max(minutes, math.ceil(study.options.budget_s / 60) + 1)
    return f"{minutes}min" if minutes < 600 else f"{math.ceil(minutes / 60)}h"


def _needed(study: Study, view: View) -> float:
    """Number of rounds that would separate all remaining candidates from the best; NaN if unknown."""
    leader = view.best
    if leader is None:
        return math.nan
    found = [_forecast(study, view, view.lead(i, leader)) for i in view.active if i != leader]
    known = [one for one in found if not math.isnan(one)]
    return max(known, default=math.nan)


def _forecast(study: Study, view: View, s: Summary) -> float:
    """Rounds, if planned so, that would decide at these means and spread; NaN unknown, infinity too many."""
    gap = max(s.mean, study.ledger.margin - s.mean)
    if s.n < FIRST_ROUND or not s.sd > 0 or gap <= 0:
        return math.nan
    planned = np.arange(max(view.done + 1, FIRST_ROUND), MOST + 1)
    half = stdtrit(planned - 1, 1 - LEVEL / (len(study.arms) - 1)) * s.sd / np.sqrt(planned)
    return float(planned[half < gap][0]) if (half < gap).any() else math.inf
