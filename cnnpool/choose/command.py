"""``cnnpool choose``: from its arguments to a study and its report."""

import shlex
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any, TextIO

from cnnpool.choices import is_published
from cnnpool.choose import page, verdict
from cnnpool.choose.candidates import Arm, Network
from cnnpool.choose.drive import Batch, Clock, Driver
from cnnpool.choose.ledger import LIVE, LOG, Live, content_of, held, opened
from cnnpool.choose.options import Options, parse, tries
from cnnpool.choose.study import Study, View
from cnnpool.published.build import sized
from cnnpool.quantity import Quantity, find
from cnnpool.registry import KEEP, lookup, nearest
from cnnpool.report.measure import SHORT, Measure
from cnnpool.report.pairwise import margin_of
from cnnpool.run_folder.identity import identity_settings
from cnnpool.system.atomic import write_bytes
from cnnpool.system.next_command import BOARD, next_lines
from cnnpool.system.progress import Progress, duration
from cnnpool.system.signals import Signals, Stopped
from cnnpool.tables import text

COSTS = {
    "flops": "cost.flops",
    "parameters": "cost.parameters",
    "memory": "cost.saved_bytes",
    "time": "cost.wall_s",
}
"""Short names on the command line; other numbers are named by their key."""
RUNS = "runs"
FEW_STEPS = 20
FEW_IMAGES = 100  # Fewer, or a margin below one image, give a warning that accuracy decides little


def choose(arguments: Namespace) -> int:
    """Run or resume a study; returns the exit status."""
    own = [line for line in arguments.overrides if line.partition("=")[0].partition(".")[0] == "choose"]
    rest = tuple(line for line in arguments.overrides if line not in own)
    options = parse(own)
    network = Network(rest, arguments.config_dir, arguments.config_name)
    command = ["cnnpool", "choose", *arguments.words]
    with Signals():
        try:
            study = prepare(options, network)
            with held(study.ledger.folder):
                return _conduct(study, command)
        except Stopped as stop:
            sys.stderr.write(f"{stop}; rerun the same command to resume: {shlex.join(command)}\n")
            return stop.status


def prepare(options: Options, network: Network) -> Study:
    """Make the study and its folder, after all checks that need no run."""
    home = network.home()
    first = network.checked(options.pools[0])
    if is_published(first) and KEEP not in options.pools:
        options = replace(options, pools=(KEEP, *options.pools))
    if len(options.pools) < 2:
        raise ValueError(f"choose.pools={options.pools[0]}: give two candidates or more, as in max,blur")
    metric, cost = measures_of(options, first)
    network = network.needing({one.key.partition(".")[0] for one in (metric, cost)})
    folder = Path(options.out or home)
    arms = [Arm(label, network, folder / RUNS) for label in options.pools]
    settings, *_ = [arm.jobs([network.first_seed])[0].settings for arm in arms]
    if options.margin != "0" and margin_of(options.margin, metric, 0.0) is None:
        raise ValueError(f"choose.margin={options.margin}: {metric.title} has no best value; give a number")
    if options.tune and not settings["data"].get("val_size"):
        raise ValueError("choose.tune needs validation images, but data.val_size is 0")
    for key, values in tries(options.tune).items():
        for value in values:
            network.checked(options.pools[0], [f"{key}={value}"])
    decided = identity_settings(settings)
    design = {
        "pools": list(options.pools),
        "metric": metric.key,
        **{name: getattr(options, name) for name in ("margin", "rounds", "cost", "limit")},
        "tune": list(options.tune),
        "seed": network.first_seed,
        **{group: chosen for group, chosen in decided.items() if group not in ("pool", "seed")},
    }
    # A mistake about the images leaves no folder.
    warnings = tuple(read_images(settings, metric, network.first_seed))
    with held(folder):
        ledger = opened(folder, design)
    return Study(options, metric, cost, arms, ledger, warnings)


def measures_of(options: Options, settings: Mapping[str, Any]) -> tuple[Measure, Measure]:
    """The measures named by ``choose.metric`` and ``choose.cost``."""
    # Imported late: they import torch.
    from cnnpool.probe import PROBES, declared

    accuracy = "val.accuracy" if settings["data"].get("val_size") else "test.accuracy"
    measured = declared(lookup(PROBES, "probes", probe) for probe in settings["probe"])
    if SHORT.get(options.metric, "").startswith("invariance") and "invariance" not in settings["probe"]:
        raise ValueError(f"choose.metric={options.metric} needs the probe of invariance: probe=default")
    metric = _measure("metric", options.metric, {**SHORT, "accuracy": accuracy}, measured)
    if metric.sense == 0:
        raise ValueError(
            f"choose.metric={options.metric}: {metric.title} has no better direction, so it cannot decide"
        )
    # Without a limit, a cost that nothing measures has no effect.
    cost = _measure("cost", options.cost, COSTS, declared())
    if cost.sense >= 0:
        raise ValueError(f"choose.cost={options.cost}: a low {cost.title} is not better")
    if options.limit is not None and find(measured, cost.key) is None:
        raise ValueError(f"choose.limit={options.limit:g} needs a probe of {cost.title}, or choose.cost=time")
    return metric, cost


def _measure(option: str, name: str, short: Mapping[str, str], quantities: Sequence[Quantity]) -> Measure:
    key = short.get(name, name)
    if (found := find(quantities, key)) is None:
        # Numbers of the test images judge what was chosen by others.
        keys = [one.key for one in quantities if not one.key.startswith("test.")]
        near = nearest(name, [*short, *keys], cutoff=0.5)
        listed = f"choose {', '.join(short)}, or a key of results.json"
        words = f"did you mean {near[0]!r}?" if near else listed
        raise ValueError(f"choose.{option}={name}: the runs do not measure it; {words}")
    return Measure(key, found)


def read_images(settings: Mapping[str, Any], metric: Measure, seed: int) -> Iterator[str]:
    """Read the images once, so that decoding does not use up the budget; yields warnings if they are few."""
    from cnnpool import data

    # The machines of a cluster read images themselves.
    if settings.get("launch", {}).get("name", "local") not in ("local", "processes"):
        return
    dataset, fit = data.build(**sized(settings), seed=seed), settings["fit"]
    steps = min(fit["max_steps"] or inf, fit["epochs"] * len(dataset.train_loader()))
    if steps < FEW_STEPS:
        yield (
            f"a run takes {steps} training steps, in batches of {dataset.source.batch_size}: networks may "
            "learn little in so few; lower data.batch_size, or raise fit.epochs"
        )
    splits = {
        "val.accuracy": ("validation", dataset.val, "raise data.val_size"),
        "test.accuracy": ("test", dataset.test, "add images"),
    }
    if (found := splits.get(metric.key)) and (images := len(found[1])) < FEW_IMAGES:
        words, _, remedy = found
        share = f"{100 / images:.2f} points of accuracy"
        yield f"{images} {words} images decide: one of them is {share}; {remedy}"


def _conduct(study: Study, command: Sequence[str]) -> int:
    folder = study.ledger.folder
    sys.stdout.write(f"study: {folder} (log: {folder / LOG})\n")
    sys.stdout.flush()
    for warning in study.warnings:
        sys.stderr.write(f"warning: {warning}\n")
    with Display(study) as display:
        with Clock(study) as clock:
            view, reason = Driver(study, clock, display.show).drive()
        ending = verdict.Ending(view, reason, command)
        display.end(ending)
        report = page.write(study, ending)
    table, following = text(page.columns(study, view)), verdict.next_command(study, ending)
    sys.stdout.write(f"{table}\n{verdict.verdict(study, ending)}\n\nreport: {report}\n")
    board = next_lines(*filter(None, [following]), ("tensorboard", "--logdir", str(folder)))
    sys.stdout.write(f"{board}{'':6}{BOARD}\n")
    sys.stdout.flush()
    return int(ending.empty)


class Display:
    """Within the context, shows a study on ``stream``, a line a round and on a terminal a bar of its runs."""

    def __init__(self, study: Study, stream: TextIO | None = None):
        self._study, self._stream = study, stream or sys.stdout
        self._told: set[int] = set()
        self._bar: Progress | None = None

    def __enter__(self) -> "Display":
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar:
            self._bar.close()
        self._bar = None

    def show(self, view: View, batch: Batch | None) -> None:
        self._write(page.snapshot(self._study, view, batch))
        if batch is None:
            self.__exit__()
            self._log(view)
        elif self._bar:
            self._bar.update(len(batch.ended) - self._bar.n)
        elif self._stream.isatty():
            self._bar = Progress(f"{batch.title}; {_spent(self._study)}", len(batch.jobs), "runs")

    def end(self, ending: verdict.Ending) -> None:
        """Write how the study ended, for other programs."""
        self._write(page.snapshot(self._study, ending.view, None, verdict.verdict(self._study, ending)))

    def _write(self, live: Live) -> None:
        with suppress(OSError):
            write_bytes(self._study.ledger.folder / LIVE, content_of(live), prefix="live", flush=False)

    def _log(self, view: View) -> None:
        """The completed round, and the candidates dropped since the last one."""
        study, leader = self._study, view.best
        if leader is not None:
            mean = page.columns(study, view)[2].cells[0]
            self._stream.write(
                f"round {view.done}: {len(view.active)} of {len(study.arms)} candidates left, best "
                f"{study.arms[leader].label} {mean} {study.metric.unit}; {_spent(study)}\n"
            )
        gone = {*view.out, *(drop.candidate for drop in view.state.drops)}
        for place in sorted(gone - self._told):
            self._stream.write(f"  {study.arms[place].label} {verdict.fate(view, place)}\n")
        self._told |= gone
        self._stream.flush()


def _spent(study: Study) -> str:
    return f"{duration(study.ledger.spent_s)} of {duration(study.options.budget_s)}"
