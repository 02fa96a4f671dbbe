"""A study as a page: the table of its candidates, and the files of its report."""

import math
import os
import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import numpy as np

from cnnpool import tables
from cnnpool.choose.drive import Batch
from cnnpool.choose.ledger import Live
from cnnpool.choose.rounds import FIRST_ROUND
from cnnpool.choose.study import Study, View, known
from cnnpool.choose.verdict import Ending, collapsed, fate, gone, next_command, rounds, verdict
from cnnpool.quantity import fraction
from cnnpool.report.columns import NONE, interval, mean_sd, number
from cnnpool.report.document import ran
from cnnpool.report.measure import ACCURACY, Measure
from cnnpool.report.page import Sheet, pages
from cnnpool.report.plots.panels import colours
from cnnpool.report.render import put
from cnnpool.report.statistics import summarise
from cnnpool.run_folder.results import Results
from cnnpool.system.progress import duration
from cnnpool.tables import Column, from_rows

TEST = Measure(ACCURACY, fraction("", "", ""))
TIMES = {"inference": "forward_images_per_s", "training": "train_images_per_s"}


def columns(study: Study, view: View) -> list[Column]:
    """Candidate, seeds, metric, distance to the best, cost, and whether it is still in."""
    places, metric = view.order, study.metric
    step = f" ({metric.step_unit})" if metric.step_unit else ""
    found = [summarise(one) for one in _values(study, view)]
    return [
        Column("candidate", [study.arms[i].label for i in places], words=True),
        Column("seeds", [str(one.n) for one in found]),
        Column(f"{metric.header}, mean ± sd", [mean_sd(metric, one) for one in found]),
        Column(f"behind the best{step}", [_behind(study, view, i) for i in places]),
        Column(f"at most{step}", [number(metric, view.state.loss[i]) for i in places]),
        Column(study.cost.header, [number(study.cost, view.costs[i]) for i in places]),
        *(one for one in (_times(study, view, *way) for way in TIMES.items()) if {*one.cells} != {NONE}),
        Column("state", [fate(view, i) for i in places], words=True),
    ]


def _values(study: Study, view: View) -> list[list[float]]:
    """The metric of each candidate's seeds, in order."""
    return [(study.metric.sense * known(view.values[i])).tolist() for i in view.order]


def _times(study: Study, view: View, way: str, key: str) -> Column:
    """Milliseconds per image of each candidate, medians of its runs, and as multiples of the baseline's."""
    found = []
    for arm in study.arms:
        costs = (one.measured.get("cost", {}).get(key) for one in arm.runs(study.seeds).values())
        known = [1e3 / rate for rate in costs if rate]
        found.append(median(known) if known else math.nan)
    of = found[study.baseline]
    cells = [f"{found[i]:.3g} ({found[i] / of:.2f})" for i in view.order]
    return Column(f"{way} (ms/image)", [NONE if "nan" in cell else cell for cell in cells])


def _behind(study: Study, view: View, place: int) -> str:
    leader = view.best
    if leader is None or place in view.out:
        return NONE
    if place == leader:
        return "best"
    s = view.lead(place, leader)
    return study.metric.format(s.mean) if s.n else NONE


def snapshot(study: Study, view: View, batch: Batch | None = None, verdict: str = "") -> Live:
    """The study as others see it, at this moment."""
    metric, values = study.metric, _values(study, view)
    ends = [metric.on_axis(*summarise(one).interval) for one in values]
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
        left=[i in view.active for i in view.order],
        gone=gone(study, view),
        intervals=[[x if math.isfinite(x) else None for x in row] for row in ends],
        dots=[list(map(metric.shown, row)) for row in values],
        verdict=verdict,
    )


def write(study: Study, ending: Ending) -> Path:
    """Write choose.md, choose.html and runs.csv to the study's folder; returns the page."""
    folder, files = study.ledger.folder, report(study, ending)
    if found := _records(study, ending.view):
        files["runs.csv"] = tables.csv(found)
    put(files, [], folder)
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


def report(study: Study, ending: Ending) -> dict[str, str]:
    view = ending.view
    runs = [one for arm in study.arms for one in arm.runs(study.seeds).values()]
    where = f" for {runs[0].model['name']} on {runs[0].images_of}" if runs else ""
    return pages(
        "choose",
        "choose.jinja",
        title=f"Downsampling{where}, by {study.metric.title}",
        **{"study": study, "view": view, "rounds": rounds, "first_round": FIRST_ROUND},
        verdict=verdict(study, ending),
        baseline=study.arms[study.baseline].label,
        next=shlex.join(next_command(study, ending)),
        candidates=snapshot(study, view).sheet,
        gone=gone(study, view),
        collapsed=collapsed(study),
        test=_on_test(study, view),
        tuned=[(arm.label, " ".join(arm.tuned) or "nothing") for arm in study.arms if study.options.tune],
        spent=f"{duration(study.ledger.spent_s)} of {duration(study.options.budget_s)}",
        runs=len(runs),
        counted=int(np.isfinite(view.values).sum()),
        whole=len(study.arms) * view.done,
        margin=study.metric.amount(study.ledger.margin),
        provenance=_provenance(study, runs),
        command=shlex.join(ending.command),
    )


def _on_test(study: Study, view: View) -> Sheet:
    """Test accuracy of each candidate over its seeds; no columns if there is none."""
    rows = []
    for i in view.order:
        runs = study.arms[i].runs(study.seeds[: view.done]).values()
        if found := [one.accuracy for one in runs if one.accuracy is not None]:
            s = summarise(found)
            rows.append((study.arms[i].label, str(s.n), mean_sd(TEST, s), interval(TEST, s)))
    headers = ("candidate", "seeds", "test accuracy (%), mean ± sd", "95 % CI over seeds")
    shown = from_rows(headers, rows, numbers=headers[1:]) if rows else []
    return Sheet(shown, colours=colours((arm.label for arm in study.arms), [row[0] for row in rows]))


def _provenance(study: Study, runs: Sequence[Results]) -> list[tuple[str, str]]:
    firsts = [job for arm in study.arms for job in arm.jobs([study.first_seed])]
    typed = " ".join(study.arms[0].network.overrides) or "the defaults"
    own = next(filter(None, (job.on_recipe for job in firsts)), "")
    return [("Network and recipe", f"{typed}; {own}" if own else typed), *(ran(runs) if runs else [])]
