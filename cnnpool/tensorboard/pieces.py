"""Plain data for the page: runs, planned jobs and studies by state, and one view of the runs."""

import math
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cnnpool.choose.ledger import Live
from cnnpool.report.choice import SILENT, text_at
from cnnpool.report.columns import main_columns, measure_tables, pair_columns, records
from cnnpool.report.comparison import Comparison
from cnnpool.report.document import contents, defined, method
from cnnpool.report.foreign import logged
from cnnpool.report.measure import Measure, known_keys
from cnnpool.report.pairwise import Row
from cnnpool.report.plots.learning_curve import ACCURACY
from cnnpool.report.plots.panels import COLOURS, ON_DARK, style_of
from cnnpool.report.plots.stages import stages_of
from cnnpool.report.runs import Run
from cnnpool.run_folder import metrics
from cnnpool.run_folder.plan import Plan
from cnnpool.run_folder.results import NAMED
from cnnpool.tables import Column
from cnnpool.tensorboard.index import Snapshot, Watched
from cnnpool.tensorboard.view import View, asked, unreadable

# Most levels of folders below the root whose runs can be viewed separately, most planned jobs listed by
# name, and most values of a setting offered as filters.
DEPTH, MOST, MOST_VALUES = 4, 60, 24
WAITING, LEFT = "waiting", "not started"
STATES = ("done", "running", WAITING, "failed", "unfinished", LEFT, "damaged")
Waiting = Mapping[Path, tuple[str, Sequence[str]]]
"""Folder -> waiting or not started, and the job's own overrides."""


def jobs(now: Snapshot, root: Path) -> dict[str, Any]:
    """Counts by state, the unfinished and planned runs, and the folders with several runs."""
    waiting = planned(now.sweeps, (run.folder for run in now.runs))
    begun = [_job(run, root, now.changed.get(run.folder, 0.0)) for run in now.runs if not run.found]
    watched: list[Watched[Any]] = [*now.sweeps, *now.studies]
    damaged = [
        {"folder": below(one.path, root), "state": "damaged", "reason": one.reason}
        for one in watched
        if one.reason
    ]
    counts = Counter([run.state for run in now.runs] + [state for state, _ in waiting.values()])
    counts["damaged"] += len(damaged)
    return {
        "counts": {state: counts[state] for state in STATES if counts[state]},
        "unfinished": begun + damaged + _not_begun(waiting, root),
        "folders": folders(now.runs, root),
        "studies": _studies(now.studies, root),
    }


def below(path: Path, root: Path) -> str:
    """``path`` relative to ``root``, with forward slashes."""
    return path.relative_to(root).as_posix()


def folders(runs: Sequence[Run], root: Path) -> list[dict[str, Any]]:
    """The folders below ``root`` with runs of several choices, and their numbers, without redundant ones."""
    counts: Counter[str] = Counter()
    for run in runs:
        # The last two levels are the choice and the seed.
        parts = run.folder.relative_to(root).parts[:-2][:DEPTH]
        counts.update("/".join(parts[:depth]) for depth in range(1, len(parts) + 1))
    found = sorted(name for name, count in counts.items() if count < len(runs))
    return [{"folder": name, "runs": counts[name]} for name in found]


def _job(run: Run, root: Path, changed: float) -> dict[str, Any]:
    own = asked(run.folder)
    lines = metrics.read(run.folder).records
    accuracies = [record[ACCURACY] for record in lines if ACCURACY in record]
    epochs = own.fit.get("epochs") if own else None
    names = [getattr(own, room)["name"] for room in ("pool", "readout", "model")] if own else []
    return {
        "folder": below(run.folder, root),
        "state": run.state,
        "reason": "; ".join(filter(None, [run.reason, unreadable(run.folder)])),
        "choice": " / ".join(names),
        "seed": own.seed if own else None,
        "epoch": max((int(record["epoch"]) for record in lines), default=None),
        "epochs": epochs if isinstance(epochs, int) else None,
        "accuracy": 100 * accuracies[-1] if accuracies else None,
        "changed": changed,
    }


def planned(sweeps: Sequence[Watched[Plan]], begun: Iterable[Path]) -> Waiting:
    """The jobs of sweeps that are not in ``begun``."""
    known, found = set(begun), dict[Path, tuple[str, Sequence[str]]]()
    # A running sweep may have taken over jobs of one that ended.
    for one in sorted(sweeps, key=lambda one: one.lives):
        every = one.content.folders(one.path) if one.content else {}
        shared = set.intersection(*map(set, every.values())) if len(every) > 1 else set()
        for folder, words in every.items():
            if folder not in known:
                own = [word for word in words if word not in shared]
                found[folder] = (WAITING if one.lives else LEFT, own)
    return found


def _not_begun(waiting: Waiting, root: Path) -> list[dict[str, Any]]:
    """The first jobs that have not begun, those of running sweeps first."""
    first = sorted(waiting.items(), key=lambda one: one[1][0] != WAITING)[:MOST]
    return [
        {
            "folder": below(folder, root),
            "state": state,
            "reason": "" if state == WAITING else "its sweep has ended",
            "asked": " ".join(words),
        }
        for folder, (state, words) in first
    ]


def _studies(studies: Sequence[Watched[Live]], root: Path) -> list[dict[str, Any]]:
    """The running studies first, then the one written last."""
    found = [_study(one, one.content, root) for one in studies if one.content]
    return sorted(found, key=lambda one: (one["state"] != "running", -one["time"]))


def _study(study: Watched[Live], live: Live, root: Path) -> dict[str, Any]:
    # A study whose time ended before its first round has no result.
    state = "done" if live.verdict and live.rounds else "running" if study.lives else "stopped"
    passed = max(0.0, time.time() - live.time) if state == "running" else 0.0
    spent = min(live.spent_s + passed, live.budget_s) if passed else live.spent_s
    return asdict(live) | {"folder": below(study.path.parent, root), "state": state, "spent_s": spent}


def pieces(view: View, root: Path) -> dict[str, Any]:
    """Everything that the page shows of a view except its figures; runs are named below ``root``."""
    comparison = view.compared.comparison
    return {
        "refusal": view.compared.refusal,
        "differing": view.compared.differing,
        "settings": _settings([run for run in view.runs if run.found]),
        "colours": _colours(view.palette),
        **(_compared(comparison, root) if comparison else {}),
    }


def _compared(comparison: Comparison, root: Path) -> dict[str, Any]:
    metric = comparison.metric
    return contents(comparison) | {
        "by": comparison.by,
        "metric": {"key": metric.key, "title": metric.title, "header": metric.header, "sense": metric.sense},
        "metrics": _metrics(comparison),
        "baseline": comparison.baseline.choice.label,
        "choices": [_choice(comparison, row, root) for row in comparison.rows],
        "tables": _tables(comparison),
        "stages": stages_of(comparison),
        "records": records(comparison),
    }


def _choice(comparison: Comparison, row: Row, root: Path) -> dict[str, Any]:
    """Numbers in their display units, NaN where there is none."""
    metric, versus = comparison.metric, row.versus
    own = [metric.shown(metric.within(x)) for x in (row.summary.mean, row.summary.low, row.summary.high)]
    apart = [versus.summary.mean, versus.summary.low, versus.summary.high] if versus else []
    return {
        "label": row.choice.label,
        "mean": own,
        "difference": [metric.shown(x) for x in apart],
        "runs": [
            {
                "seed": seed,
                "folder": below(run.folder, root),
                "value": metric.format(row.values[seed]) if seed in row.values else "–",
                "at": metric.shown(row.values.get(seed, math.nan)),
            }
            for seed, run in row.choice.runs.items()
        ],
    }


def _tables(comparison: Comparison) -> list[dict[str, Any]]:
    """The report's tables, each with a title, an explanation, and one per column."""
    words = dict(method(comparison))
    metric = _definition(comparison.metric)
    helps = ["", "Seeds with a number.", metric, words["Intervals"], words["Differences"]]
    helps += [words["Differences"], words["Words"]]
    found = [_table("main", "", main_columns(comparison), helps)]
    definitions = iter([_definition(one) for one in comparison.measures])
    for columns in measure_tables(comparison):
        own = ["", *(next(definitions) for _ in columns[1:])]
        found.append(_table("measures", "What else was measured", columns, own))
    if len(comparison.rows) > 1:
        title = f"Against {comparison.baseline.choice.label}"
        pairs = pair_columns(comparison)
        found.append(_table("pairs", title, pairs, ["", *[words["Differences"]] * (len(pairs) - 1)]))
    return found


def _definition(measure: Measure) -> str:
    return next((definition for _, definition in defined([measure.quantity])), "")


def _table(kind: str, title: str, columns: Sequence[Column], helps: Sequence[str]) -> dict[str, Any]:
    helped = zip(columns, helps, strict=True)
    return {"kind": kind, "title": title, "columns": [asdict(one) | {"help": text} for one, text in helped]}


def _metrics(comparison: Comparison) -> list[dict[str, str]]:
    """The measures shown in every comparison, then every other number of the runs, each with its name."""
    first = [] if comparison.understood else ["test.accuracy"]
    main = [*first, comparison.metric.key, *(one.key for one in comparison.measures)]
    keys = dict.fromkeys([*main, *known_keys(comparison.compared, comparison.quantities)])
    return [
        {"key": key, "title": comparison.measure(key).header, "kind": "shown" if key in main else "other"}
        for key in keys
    ]


def _settings(done: Sequence[Run]) -> list[dict[str, Any]]:
    """Rooms and other settings in which the runs differ, for grouping and filtering."""
    every = dict.fromkeys(key for run in done for key in run.settings)
    rooms = () if logged(done) else NAMED
    keys = dict.fromkeys([*rooms, "seed", *every])
    shown = [key for key in keys if key not in SILENT and not key.endswith(".name")]
    found = {key: list(dict.fromkeys(text_at(run, key) for run in done)) for key in shown}
    return [
        {"key": key, "values": values[:MOST_VALUES], "groups": key != "seed"}
        for key, values in found.items()
        if key in rooms or len(values) > 1
    ]


def _colours(palette: Sequence[str]) -> dict[str, dict[str, str]]:
    found = {}
    for place, label in enumerate(palette):
        one = style_of(place)
        colour = int(one.colour.removeprefix("C"))
        found[label] = {"light": COLOURS[colour], "dark": ON_DARK[colour], "mark": one.mark}
    return found
