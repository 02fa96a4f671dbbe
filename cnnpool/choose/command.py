"""``cnnpool choose``: from its arguments to a study, and from that to a report."""

import shlex
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from cnnpool.choose import leave, page
from cnnpool.choose.arm import Arm
from cnnpool.choose.candidates import Network, candidate
from cnnpool.choose.clock import Clock
from cnnpool.choose.drive import Batch, Driver
from cnnpool.choose.ledger import held, opened
from cnnpool.choose.live import Broadcast
from cnnpool.choose.options import Options, parse
from cnnpool.choose.screen import Screen
from cnnpool.choose.standing import columns
from cnnpool.choose.study import Study, View
from cnnpool.launch import conf_dir
from cnnpool.registry import did_you_mean
from cnnpool.run_folder.identity import asked
from cnnpool.system.next_command import BOARD
from cnnpool.system.signals import Signals, Stopped
from cnnpool.tables import text

METRICS = {"consistency": "invariance.consistency.distinct", "worst_shift": "invariance.worst_shift_accuracy"}
RUNS = "runs"


def choose(arguments: Namespace) -> int:
    """Run a study, or go on with it; returns the exit status.

    Args:
        arguments: as the parser of ``cnnpool.choose`` gives them.

    Raises:
        ValueError: in one line, for a mistake in what was asked.
    """
    own = [line for line in arguments.overrides if line.partition("=")[0].partition(".")[0] == "choose"]
    rest = tuple(line for line in arguments.overrides if line not in own)
    options = options_of(own, arguments.config_dir)
    network = Network(rest, arguments.config_dir, arguments.config_name)
    command = ["cnnpool", "choose", *arguments.words]
    with Signals():
        study = prepare(options, network)
        with held(study.ledger.folder):
            return _conduct(study, command)


def options_of(settings: Sequence[str], config_dir: Path | None) -> Options:
    """The options, beginning with those of the file that ``choose=NAME`` names.

    Raises:
        ValueError: for a file that there is not, or an option that cannot be.
    """
    name = next(
        (line.partition("=")[2] for line in reversed(settings) if line.startswith("choose=")), "default"
    )
    folders = [conf_dir(), *([config_dir] if config_dir else [])]
    found = {path.stem: path for folder in folders for path in (folder / "choose").glob("*.yaml")}
    if name not in found:
        raise ValueError(f"choose={name}: no such file in conf/choose; {did_you_mean(name, found)}")
    try:
        content = yaml.safe_load(found[name].read_text(encoding="utf-8")) or {}
    except (OSError, yaml.YAMLError) as error:
        raise ValueError(f"{found[name]} cannot be read: {' '.join(str(error).split())[:200]}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{found[name]} holds no options by name")
    return parse([line for line in settings if line.startswith("choose.")], content)


def prepare(options: Options, network: Network) -> Study:
    """The study, all that can be wrong before a run checked, its folder made.

    Raises:
        ValueError: in one line.
    """
    candidates = [candidate(label) for label in options.pools]
    settings = [network.checked(one) for one in candidates]
    key = metric_key(options, settings[0])
    if options.tune and not settings[0]["data"].get("val_size"):
        raise ValueError("choose.tune needs validation images, but data.val_size is 0")
    folder = Path(options.out) if options.out else network.home()
    decided = asked(settings[0])
    design = {
        "pools": list(options.pools),
        "metric": key,
        **{name: getattr(options, name) for name in ("margin", "rounds", "cost", "limit")},
        "tune": list(options.tune),
        "seed": network.first_seed,
        **{room: decided[room] for room in ("data", "model", "readout", "probe", "fit")},
    }
    arms = [Arm(one, network, folder / RUNS) for one in candidates]
    with held(folder):
        ledger = opened(folder, design)
    return Study(options, key, arms, ledger, network.first_seed)


def metric_key(options: Options, settings: Mapping[str, Any]) -> str:
    """Where the metric stands in results.json.

    Raises:
        ValueError: if no probe measures it.
    """
    if options.metric == "accuracy":
        return "val.accuracy" if settings["data"].get("val_size") else "test.accuracy"
    key = METRICS.get(options.metric, options.metric)
    if options.metric in METRICS and "invariance" not in settings["probe"]:
        raise ValueError(f"choose.metric={options.metric} needs the probe of invariance: probe=default")
    return key


def _conduct(study: Study, command: Sequence[str]) -> int:
    try:
        with Broadcast(study) as live:
            return _followed(study, command, Screen(study), live)
    except Stopped as stop:
        sys.stderr.write(f"{stop}; the same command goes on from there: {shlex.join(command)}\n")
        return stop.status


def _followed(study: Study, command: Sequence[str], screen: Screen, live: Broadcast) -> int:
    def watch(view: View, batch: Batch | None) -> None:
        screen.show(view, batch)
        live.show(view, batch)

    sys.stdout.write(f"study: {study.ledger.folder} (log: {study.ledger.folder / 'choose.log'})\n")
    sys.stdout.flush()
    try:
        with Clock(study, screen.tick) as clock:
            view, reason = Driver(study, clock, watch).drive()
    finally:
        screen.close()
    ending = page.Ending(view, reason, command)
    live.end(ending)
    report = leave.write(study, ending)
    sys.stdout.write(f"{text(columns(study, view))}\n{page.verdict(study, ending)}\n")
    if view.recommended is not None:
        sys.stdout.write(f"\n  {page.train_command(study, view.recommended)}\n")
    board = f"board: tensorboard --logdir {shlex.quote(str(report.parent))}\n       {BOARD}\n"
    sys.stdout.write(f"\nreport: {report}\n{board}")
    sys.stdout.flush()
    return 0 if view.recommended is not None else 1
