"""Where every candidate stands, as columns of text: for the terminal, the report and TensorBoard alike."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from cnnpool.choose.study import Study, View
from cnnpool.report.statistics import Summary, summarise
from cnnpool.tables import Column

NONE = "–"
UNITS = {"flops": "FLOPs", "parameters": "parameters", "memory": "bytes kept", "time": "s a run"}


def order(view: View) -> list[int]:
    """Candidates: those left by their mean, then those dropped, the last dropped first, then those out."""
    ended = {drop.candidate: drop.round for drop in view.state.drops}

    def key(i: int) -> tuple[int, float]:
        if i in view.out:
            return 2, i
        if i in ended:
            return 1, -ended[i]
        return 0, -_mean(view.values[i])

    return sorted(range(len(view.values)), key=key)


def columns(study: Study, view: View, now: Mapping[int, str] | None = None) -> list[Column]:
    """Candidate, seeds, metric, how far behind the best, cost, and what became of it.

    Args:
        study: its candidates and metric.
        view: where it stands.
        now: candidate -> what it does just now.
    """
    places = order(view)
    metric = study.metric
    header = metric.header if metric else study.key
    step = f" ({metric.step_unit})" if metric and metric.step_unit else ""
    found = [summary(study, view, i) for i in places]
    return [
        Column("candidate", [study.arms[i].label for i in places], words=True),
        Column("seeds", [str(one.n) for one in found]),
        Column(f"{header}, mean ± sd", [_mean_sd(study, one) for one in found]),
        Column(f"behind the best{step}", [_behind(study, view, i) for i in places]),
        Column(f"at most{step}", [_bound(study, view, i) for i in places]),
        Column(UNITS[study.options.cost], [_cost(view.costs[i]) for i in places]),
        Column("", [(now or {}).get(i) or fate(study, view, i) for i in places], words=True),
    ]


def summary(study: Study, view: View, place: int) -> Summary:
    """Of a candidate's metric over its seeds, in the metric's own sense."""
    sense = study.metric.sense if study.metric else 1
    values = view.values[place]
    return summarise([sense * value for value in values[np.isfinite(values)].tolist()])


def fate(study: Study, view: View, place: int) -> str:
    """Left, dropped or out, and why, in a few words."""
    if place in view.out:
        return f"out: {view.out[place]}"
    for drop in view.state.drops:
        if drop.candidate == place:
            return f"dropped after round {drop.round}: worse than {study.arms[drop.than].label}"
    return "left" if view.done else "waits"


def rounds(count: int, kind: str = "") -> str:
    """``1 complete round`` or ``3 complete rounds``, of the kind ``complete``."""
    return f"{count}{kind and ' '}{kind} round{'s' * (count != 1)}"


def best(view: View) -> int | None:
    """The candidate with the highest mean of those left."""
    return max(view.active, key=lambda i: _mean(view.values[i])) if view.active and view.done else None


def behind(view: View, place: int, other: int) -> Summary:
    """How much lower a candidate is than another, over the rounds that both have."""
    lead = view.values[other] - view.values[place]
    return summarise(lead[np.isfinite(lead)].tolist())


def amount(study: Study, value: float) -> str:
    """A difference of the metric with its unit."""
    metric = study.metric
    return f"{metric.format(value)} {metric.step_unit}".strip() if metric else f"{value:g}"


def _behind(study: Study, view: View, place: int) -> str:
    leader = best(view)
    if leader is None or study.metric is None or place in view.out:
        return NONE
    if place == leader:
        return "best"
    s = behind(view, place, leader)
    return study.metric.format(s.mean) if s.n else NONE


def _bound(study: Study, view: View, place: int) -> str:
    loss = view.state.loss[place]
    return study.metric.format(loss) if study.metric and math.isfinite(loss) else NONE


def _mean_sd(study: Study, s: Summary) -> str:
    if not s.n or study.metric is None:
        return NONE
    return study.metric.format(s.mean) + (f" ± {study.metric.format(s.sd)}" if s.n > 1 else "")


def _cost(cost: float) -> str:
    if math.isnan(cost):
        return NONE
    for power, letter in ((9, "G"), (6, "M"), (3, "k")):
        if cost >= 0.9995 * 10**power:
            return f"{cost / 10**power:.3g} {letter}"
    return f"{cost:.3g}"


def _mean(values: Sequence[float] | np.ndarray) -> float:
    known = np.asarray(values, dtype=float)
    known = known[np.isfinite(known)]
    return float(known.mean()) if known.size else -math.inf
