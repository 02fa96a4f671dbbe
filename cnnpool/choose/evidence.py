"""The findings beside the recommendation: drops, open questions, test images, cost."""

import math

import numpy as np
from scipy.special import stdtrit

from cnnpool.choose.boundary import FIRST_ROUND
from cnnpool.choose.rounds import LEVEL
from cnnpool.choose.standing import NONE, amount, behind, best, order, rounds
from cnnpool.choose.study import Study, View
from cnnpool.report.statistics import Summary, summarise
from cnnpool.system.progress import duration
from cnnpool.tables import Column

MOST = 200
"""Rounds beyond which a forecast says no number."""


def gone(study: Study, view: View) -> list[tuple[str, str]]:
    """Candidate, and when and why it was dropped, or is out."""
    found = []
    for drop in view.state.drops:
        s = behind(view, drop.candidate, drop.than)
        said = (
            f"after round {drop.round}: worse than {study.arms[drop.than].label} by {amount(study, s.mean)} "
            f"(n = {s.n}), one-sided p = {drop.p:.2g}, level of that look {drop.level:.2g}"
        )
        found.append((study.arms[drop.candidate].label, said))
    return found + [(study.arms[i].label, why) for i, why in sorted(view.out.items())]


def undecided(study: Study, view: View) -> list[tuple[str, str]]:
    """Candidate, and what was not shown of it, of those left."""
    leader = best(view)
    if leader is None or len(view.active) < 2:
        return []
    found = []
    for i in order(view):
        if i not in view.active or i == leader or i in view.state.not_worse:
            continue
        s, loss = behind(view, i, leader), view.state.loss[i]
        said = f"behind {study.arms[leader].label} by {amount(study, s.mean)} over {rounds(s.n)}"
        if math.isfinite(loss):
            margin = amount(study, study.options.margin)
            said += f", at most {amount(study, loss)} behind the best: neither worse nor within {margin}"
        found.append((study.arms[i].label, said + _forecast(study, view, s)))
    if leader not in view.state.not_worse and found:
        found.append((study.arms[leader].label, "has the best mean; that it is the best is not shown"))
    return found


def _forecast(study: Study, view: View, s: Summary) -> str:
    """How many rounds, planned for it, would tell if means and spread stayed as they are."""
    gap = max(s.mean, study.options.margin - s.mean)
    if s.n < FIRST_ROUND or not s.sd > 0 or gap <= 0:
        return ""
    planned = np.arange(max(view.done + 1, FIRST_ROUND), MOST + 1)
    half = stdtrit(planned - 1, 1 - LEVEL / (len(study.arms) - 1)) * s.sd / np.sqrt(planned)
    if not (half < gap).any():
        return f"; more than {MOST} rounds would be needed to tell, if it stays so"
    return f"; about {planned[half < gap][0]} rounds would tell, if it stays so"


def on_test(study: Study, view: View) -> list[Column]:
    """Test accuracy of each candidate over its seeds; no columns without any."""
    rows = []
    for i in order(view):
        seeds = [study.seed(number) for number in range(view.done)]
        found = [one.accuracy for one in study.arms[i].runs(seeds).values() if one.accuracy is not None]
        if found:
            s = summarise(found)
            spread = f" ± {100 * s.sd:.2f}" if s.n > 1 else ""
            interval = f"[{100 * s.low:.2f}, {100 * min(s.high, 1):.2f}]" if s.n > 1 else NONE
            rows.append((study.arms[i].label, str(s.n), f"{100 * s.mean:.2f}{spread}", interval))
    if not rows:
        return []
    headers = ("candidate", "seeds", "test accuracy (%), mean ± sd", "95 % CI over seeds")
    return [
        Column(header, list(cells), words=header == "candidate")
        for header, cells in zip(headers, zip(*rows, strict=True), strict=True)
    ]


def cost(study: Study, view: View) -> list[tuple[str, str]]:
    """Time, runs and rounds."""
    ledger, options = study.ledger, study.options
    whole, runs = len(study.arms) * view.done, int(np.isfinite(view.values).sum())
    made = sum(len(arm.runs([study.seed(n) for n in range(options.rounds)])) for arm in study.arms)
    calls = f" in {ledger.sessions} calls" if ledger.sessions > 1 else ""
    saved = f"; all candidates in all of them would have been {whole}" if whole > runs else ""
    return [
        ("Time", f"{duration(ledger.spent_s)} of {duration(options.budget_s)}{calls}"),
        ("Runs", f"{made} finished, {runs} of them in {rounds(view.done, 'complete')}{saved}"),
        ("Rounds planned", str(ledger.rounds or "none yet")),
    ]
