"""A study as text: the table of its candidates, its recommendation, and the files of its report."""

import math
import os
import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
from matplotlib.figure import Figure
from scipy.special import stdtrit

from cnnpool import tables
from cnnpool.choose.candidates import overrides_of
from cnnpool.choose.drive import Batch
from cnnpool.choose.ledger import Live
from cnnpool.choose.rounds import FIRST_ROUND, LEVEL, Array
from cnnpool.choose.study import Study, View, run_s
from cnnpool.quantity import fraction
from cnnpool.registry import KEEP
from cnnpool.report.columns import NONE, interval, mean_sd
from cnnpool.report.document import ran
from cnnpool.report.measure import ACCURACY, Measure
from cnnpool.report.notes import learned_nothing
from cnnpool.report.page import Sheet, rendered
from cnnpool.report.plots import Plot, plot
from cnnpool.report.plots.choices import Forest, dots
from cnnpool.report.plots.panels import styles
from cnnpool.report.render import put
from cnnpool.report.statistics import Summary, summarise
from cnnpool.run_folder.results import Results
from cnnpool.system.progress import duration
from cnnpool.tables import Column, from_rows

TEST = Measure(ACCURACY, fraction("", "", ""))
ENDS = {
    "one left": "all other candidates are dropped or out",
    "equivalent": "the remaining candidates differ by less than the margin",
    "decided": "the cheapest candidate left is shown to lose less than the margin against every other",
    "all rounds": "all planned rounds have run",
    "budget": "no further round fits into the budget",
    "none left": "no candidate is left",
}
TIMES = {"inference": "forward_images_per_s", "training": "train_images_per_s"}
MOST = 200  # Most rounds that a forecast gives as a number
DROPPED = "no better than the best"


@dataclass(frozen=True)
class Ending:
    """How a study ended: its last view, a key of ``ENDS``, and the command that started it."""

    view: View
    reason: str
    command: Sequence[str]


def order(view: View) -> list[int]:
    ended = {drop.candidate: drop.round for drop in view.state.drops}

    def key(i: int) -> tuple[int, float]:
        if i in view.out:
            return 2, i
        return (1, -ended[i]) if i in ended else (0, -_mean(view.values[i]))

    return sorted(range(len(view.values)), key=key)


def _summaries(study: Study, view: View) -> list[Summary]:
    """Of each candidate's metric, in order."""
    return [summarise((study.metric.sense * _known(view.values[i])).tolist()) for i in order(view)]


def columns(study: Study, view: View) -> list[Column]:
    """Candidate, seeds, metric, distance to the best, cost, and whether it is still in."""
    places, metric = order(view), study.metric
    losses, costs = [view.state.loss[i] for i in places], [view.costs[i] for i in places]
    step = f" ({metric.step_unit})" if metric.step_unit else ""
    found = _summaries(study, view)
    return [
        Column("candidate", [study.arms[i].label for i in places], words=True),
        Column("seeds", [str(one.n) for one in found]),
        Column(f"{metric.header}, mean ± sd", [mean_sd(metric, one) for one in found]),
        Column(f"behind the best{step}", [_behind(study, view, i) for i in places]),
        Column(f"at most{step}", [_unless_nan(metric, loss) for loss in losses]),
        Column(study.cost.header, [_unless_nan(study.cost, cost) for cost in costs]),
        *filter(_known_anywhere, (_times(study, view, *way) for way in TIMES.items())),
        Column("", [fate(view, i) for i in places], words=True),
    ]


def _times(study: Study, view: View, way: str, key: str) -> Column:
    """Milliseconds per image of each candidate, medians of its runs, and as multiples of the baseline's."""
    found = []
    for arm in study.arms:
        costs = (one.measured.get("cost", {}).get(key) for one in arm.runs(study.seeds).values())
        known = [1e3 / rate for rate in costs if rate]
        found.append(median(known) if known else math.nan)
    of = found[baseline(study)]
    cells = [f"{found[i]:.3g} ({found[i] / of:.2f})" for i in order(view)]
    return Column(f"{way} (ms/image)", [NONE if "nan" in cell else cell for cell in cells])


def _known_anywhere(column: Column) -> bool:
    return any(cell != NONE for cell in column.cells)


def baseline(study: Study) -> int:
    """The network as it is, where that is a candidate, else the first."""
    return next((i for i, arm in enumerate(study.arms) if arm.label == KEEP), 0)


def fate(view: View, place: int) -> str:
    """Left, dropped or out, with the reason, in a few words."""
    if place in view.out:
        return f"out: {view.out[place]}"
    for drop in view.state.drops:
        if drop.candidate == place:
            return f"dropped after round {drop.round}: {DROPPED}"
    return "left" if view.done else "waits"


def rounds(count: int, kind: str = "") -> str:
    """``1 complete round`` or ``3 complete rounds``; ``kind`` is ``complete``."""
    return f"{count}{kind and ' '}{kind} round{'s' * (count != 1)}"


def snapshot(study: Study, view: View, batch: Batch | None = None, verdict: str = "") -> Live:
    """The study as others see it, at this moment."""
    places, metric = order(view), study.metric
    ends = [
        [metric.shown(metric.within(x)) for x in (s.mean, s.low, s.high)] for s in _summaries(study, view)
    ]
    return Live(
        said=batch.title if batch else f"{rounds(view.done)} done",
        rounds=view.done,
        planned=study.ledger.rounds,
        ended=len(batch.ended) if batch else 0,
        requested=len(batch.jobs) if batch else 0,
        spent_s=study.ledger.spent_s,
        budget_s=study.options.budget_s,
        time=time.time(),
        candidates=columns(study, view),
        trained=[int(np.isfinite(view.values[i]).sum()) for i in places],
        left=[i in view.active for i in places],
        gone=gone(study, view),
        intervals=[[x if math.isfinite(x) else None for x in row] for row in ends],
        verdict=verdict,
    )


def best(view: View) -> int | None:
    return max(view.active, key=lambda i: _mean(view.values[i])) if view.active and view.done else None


def write(study: Study, ending: Ending) -> Path:
    """Write choose.md, choose.html, runs.csv and the figure to the study's folder; returns the page."""
    folder = study.ledger.folder
    drawn = plot("values", lambda: _values(study, ending.view))
    plots = [drawn] if drawn else []
    files = report(study, ending, plots)
    if found := _records(study, ending.view):
        files["runs.csv"] = tables.csv(found)
    put(files, plots, folder)
    return folder / "choose.html"


def _records(study: Study, view: View) -> list[dict[str, object]]:
    found = []
    for arm in study.arms:
        for seed, one in arm.runs(study.seeds).items():
            value, number = study.metric.read(one.measured), seed - study.first_seed
            found.append(
                {
                    **{"candidate": arm.label, "seed": seed, "round": number + 1},
                    **{"counted": number < view.done, study.metric.key: None if value != value else value},
                    **{"test.accuracy": one.accuracy, "wall_s": one.measured.get("cost", {}).get("wall_s")},
                    "folder": os.path.relpath(arm.home / f"seed{seed}", study.ledger.folder),
                }
            )
    return found


def _values(study: Study, view: View) -> tuple[Figure, str] | None:
    metric = study.metric
    if not view.done:
        return None
    looks, rows = styles(arm.label for arm in study.arms), []
    for place in order(view):
        label, own = study.arms[place].label, _known(view.values[place])
        if values := [metric.shown(metric.sense * value) for value in own.tolist()]:
            name, out = f"{label} (n={len(values)})", place not in view.active
            rows.append(Forest(name, values, looks[label], hollow=out))
    caption = f"The {metric.title} of each candidate: a dot per seed, the mean and its 95 % t interval"
    return dots(rows, metric.header), f"{caption} over seeds; hollow if out."


def report(study: Study, ending: Ending, plots: Sequence[Plot] = ()) -> dict[str, str]:
    view = ending.view
    runs = [one for arm in study.arms for one in arm.runs(study.seeds).values()]
    where = f" for {runs[0].model['name']} on {runs[0].images_of}" if runs else ""
    return rendered(
        "choose",
        "choose.jinja",
        title=f"Downsampling{where}, by {study.metric.title}",
        **{"study": study, "view": view, "rounds": rounds, "first_round": FIRST_ROUND},
        groups=[("runs", "Every run", plots)] if plots else [],
        verdict=verdict(study, ending),
        baseline=study.arms[baseline(study)].label,
        next=shlex.join(next_command(study, ending)),
        candidates=snapshot(study, view).sheet,
        gone=gone(study, view),
        collapsed=_collapsed(study),
        test=Sheet(_on_test(study, view)),
        tuned=[(arm.label, " ".join(arm.tuned) or "nothing") for arm in study.arms if study.options.tune],
        spent=f"{duration(study.ledger.spent_s)} of {duration(study.options.budget_s)}",
        runs=len(runs),
        counted=int(np.isfinite(view.values).sum()),
        whole=len(study.arms) * view.done,
        margin=_amount(study, study.ledger.margin),
        provenance=_provenance(study, runs),
        command=shlex.join(ending.command),
    )


def _collapsed(study: Study) -> list[tuple[str, str]]:
    found = []
    for arm in study.arms:
        runs = list(arm.runs(study.seeds).values())
        if lost := sum(map(learned_nothing, runs)):
            said = f"{lost} of {len(runs)} runs are no better than always predicting one class"
            found.append((arm.label, said))
    return found


def verdict(study: Study, ending: Ending) -> str:
    """The recommendation, or why there is none and what is missing, in a few sentences."""
    view, place = ending.view, ending.view.recommended
    ended = f"The study ended after {rounds(view.done, 'complete')}: {ENDS[ending.reason]}."
    if place is not None:
        return f"Recommended: {study.arms[place].label}. {_reason(study, view, place)} {ended}"
    if not view.active or not view.done:
        return f"No verdict: {'nothing ran to its end' if view.active else 'no candidate is left'}. {ended}"
    left = ", ".join(study.arms[i].label for i in order(view) if i in view.active)
    remedy = "Choose another choose.out with more time or choose.rounds"
    if ending.reason == "budget":
        remedy = "Raise choose.budget to continue from here"
    return (
        f"{_advice(study, view)} Not told apart: {left}. {ended} {_missing(study, view)} {remedy}, "
        "or choose a larger choose.margin if so small a difference does not matter."
    )


def _advice(study: Study, view: View) -> str:
    """The candidate to take all the same, and how far it may be behind."""
    place = max(view.active, key=lambda i: _mean(view.values[i]))
    name, loss = study.arms[place].label, view.state.loss[place]
    said = f"No candidate is shown to be the best. If you must choose: {name}, which has the highest mean"
    if not math.isfinite(loss):
        return f"{said} so far; how far it may be behind is not known yet."
    return f"{said}; with 95 % it is at most {_amount(study, loss)} behind the best."


def next_command(study: Study, ending: Ending) -> list[str]:
    """The next command: train the recommended or advised candidate, or continue; empty if none helps."""
    view = ending.view
    place = view.recommended if view.recommended is not None or ending.reason == "budget" else best(view)
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


def gone(study: Study, view: View) -> list[tuple[str, str]]:
    """Candidate, and when and why it was dropped or is out."""
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
    margin = _amount(study, study.ledger.margin)
    message = f"Of {left} candidates left, {name} is shown to lose less than {margin} against every other"
    leader = best(view)
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
    leader = best(view)
    if leader is None:
        return math.nan
    found = [_forecast(study, view, _lead(view, i, leader)) for i in view.active if i != leader]
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


def _on_test(study: Study, view: View) -> list[Column]:
    """Test accuracy of each candidate over its seeds; no columns if there is none."""
    rows = []
    for i in order(view):
        runs = study.arms[i].runs(study.seeds[: view.done]).values()
        if found := [one.accuracy for one in runs if one.accuracy is not None]:
            s = summarise(found)
            rows.append((study.arms[i].label, str(s.n), mean_sd(TEST, s), interval(TEST, s)))
    headers = ("candidate", "seeds", "test accuracy (%), mean ± sd", "95 % CI over seeds")
    return from_rows(headers, rows, numbers=headers[1:]) if rows else []


def _provenance(study: Study, runs: Sequence[Results]) -> list[tuple[str, str]]:
    firsts = [job for arm in study.arms for job in arm.jobs([study.first_seed])]
    typed = " ".join(study.arms[0].network.overrides) or "the defaults"
    own = next(filter(None, (job.on_recipe for job in firsts)), "")
    return [("Network and recipe", f"{typed}; {own}" if own else typed), *(ran(runs) if runs else [])]


def _lead(view: View, place: int, other: int) -> Summary:
    """Mean of another candidate minus that of this one, over the rounds that both have."""
    return summarise(_known(view.values[other] - view.values[place]).tolist())


def _amount(study: Study, value: float) -> str:
    return f"{study.metric.format(value)} {study.metric.step_unit}".strip()


def _behind(study: Study, view: View, place: int) -> str:
    leader = best(view)
    if leader is None or place in view.out:
        return NONE
    if place == leader:
        return "best"
    s = _lead(view, place, leader)
    return study.metric.format(s.mean) if s.n else NONE


def _unless_nan(measure: Measure, value: float) -> str:
    return measure.format(value) if math.isfinite(value) else NONE


def _known(values: Array) -> Array:
    known: Array = values[np.isfinite(values)]
    return known


def _mean(values: Array) -> float:
    known = _known(values)
    return float(known.mean()) if known.size else -math.inf
