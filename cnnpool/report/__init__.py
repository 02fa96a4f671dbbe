"""Run folders -> tables, statistics, plots; ``main`` is ``cnnpool compare``."""

import argparse
import os
import shutil
import sys
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from cnnpool import tables
from cnnpool.cli_parser import Parser
from cnnpool.report.foreign import UNPAIRED, Asked, logged, read
from cnnpool.report.measure import ACCURACY, SHORT
from cnnpool.report.runs import Run, joined, keys_of
from cnnpool.system.next_command import BOARD, from_here, next_lines
from cnnpool.system.progress import Progress, loading

SIZE = (160, 24)  # Columns and lines of a terminal of unknown size
EXAMPLES = """examples:
  cnnpool compare outputs/mnist
  cnnpool compare outputs --where data=mnist --by pool,readout --baseline max
  cnnpool compare outputs/mnist --metric invariance.consistency.distinct
  cnnpool compare outputs --status
  cnnpool compare runs.csv --metric val_acc --by lr --seed seed
  cnnpool compare lightning_logs --metric val_acc --by lr --seed seed
  cnnpool compare logs --metric val_loss,val_acc --runs '{group}/lr{lr}/seed_{seed}'
"""


def main(argv: list[str]) -> int:
    """Run ``cnnpool compare``."""
    try:
        arguments = parser().parse_args(argv)
        with Progress("reading runs", unit="runs") as progress:
            keys = arguments.metric, arguments.by, arguments.seed, arguments.named
            counted = arguments.best, arguments.mean_of_last
            asked = Asked(*keys, arguments.where, arguments.decimal, *counted)
            runs = read(arguments.runs, asked, progress.step)
        if arguments.status:
            sys.stdout.write(_status(runs))
        else:
            _compare(arguments, runs, argv)
    except ValueError as error:
        if os.environ.get("CNNPOOL_TRACEBACK"):
            traceback.print_exc()
        sys.stderr.write(f"error: {error}\n")
        return 2
    return 0


def parser() -> Parser:
    found = Parser("cnnpool compare", "Runs on disk -> table, statistics, plots and a report.", EXAMPLES)
    add = found.add_argument
    add(
        "runs",
        nargs="+",
        metavar="RUNS",
        help="folders of runs or logs, or CSV files with a row a run",
    )
    by = "those that differ among pool, readout and model; none for runs of other programs"
    keys: Any = {"action": "extend", "type": keys_of, "default": [], "metavar": "KEY,..."}
    add("--by", **keys, help=f"keys that define a choice (default: {by})")
    seed = "for runs of other programs: the column or parameter with the seed; none, of any: no pairs"
    add("--seed", default="", metavar="KEY", help=seed)
    named = "for logs of other programs: the paths of runs, such as '{group}/seed_{seed}'"
    add("--runs", default="", dest="named", metavar="PATTERN", help=named)
    where = "compare only runs with this value; repeat it for further keys or values"
    add("--where", action="append", default=[], metavar="KEY=VALUE", help=where)
    metric = f"measures, {', '.join(SHORT)} for short (default: {ACCURACY})"
    add("--metric", **keys, help=metric)
    add(
        "--best",
        default="",
        choices=("max", "min"),
        help="for logs: the best value, which is optimistic",
    )
    last = "for logs: the last value (default); --best then sets only the better direction"
    add("--last", action="store_const", const=1, dest="mean_of_last", help=last)
    add("--mean-of-last", type=int, metavar="K", help="for logs: the mean of the last K points")
    decimal = "the decimal sign of CSV files (default: .)"
    add("--decimal", default=".", choices=(".", ","), help=decimal)
    margin = (
        "smallest difference that matters: a number, 0.01 for a point, or a share of the baseline's errors"
    )
    add("--margin", metavar="X", help=f"{margin} (default: 10%% where images are known)")
    base = "choice to compare the others with (default: max, else the first)"
    add("--baseline", metavar="CHOICE", help=base)
    add("--allow", **keys, help="keys that may differ within a choice")
    add("--out", metavar="DIR", help="folder of the report (default: report in the first of RUNS)")
    add("--all", action="store_true", help="print every measure and every note, not the first ones")
    add("--no-board", action="store_true", help="print no command for TensorBoard")
    status = "only list the runs: done, probed, running, failed, unfinished, damaged"
    add("--status", action="store_true", help=status)
    return found


def _compare(arguments: argparse.Namespace, runs: list[Run], argv: list[str]) -> None:
    # numpy, scipy and matplotlib would make --help slow.
    with loading("scipy and matplotlib"):
        from cnnpool.report import render
        from cnnpool.report.comparison import compare
        from cnnpool.report.plots import PAINTERS, draw
        from cnnpool.report.plots.learning_curve import histories

    first = Path(arguments.runs[0])
    folder = Path(arguments.out or (first if first.is_dir() else first.parent) / "report")
    render.refuse_foreign(folder)
    comparison = compare(
        runs,
        by=arguments.by,
        where=arguments.where,
        metric=arguments.metric,
        against=arguments.baseline,
        allow=arguments.allow,
        margin=arguments.margin,
        independent=arguments.seed == UNPAIRED,
    )
    problems = [problem for one in histories(comparison).values() for problem in one.problems]
    comparison = replace(comparison, notes=[*comparison.notes, *problems])
    colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    width = shutil.get_terminal_size(SIZE).columns
    sys.stdout.write(render.text(comparison, width=width, colour=colour, whole=arguments.all))
    sys.stdout.flush()
    plots = []
    with Progress("drawing", len(PAINTERS), "figures") as progress:
        for plot in draw(comparison):
            plots.append(plot)
            progress.step()
    render.write(comparison, folder, argv, plots)
    sys.stdout.write(f"\nreport: {folder / 'report.html'}\n\n")
    paths = [Path(one).resolve() for one in arguments.runs]
    root = Path(os.path.commonpath(paths))
    folders = all(map(Path.is_dir, paths)) and root != root.parent
    if folders and not arguments.no_board and not arguments.seed and not logged(runs):
        board = next_lines(("tensorboard", "--logdir", from_here(root)))
        sys.stdout.write(f"{board}{'':6}{BOARD}{_state(arguments)}\n")


def _state(arguments: argparse.Namespace) -> str:
    """The part of the tab's address that shows the same comparison."""
    metric = joined(*(SHORT.get(key, key) for key in arguments.metric))
    asked = {"by": joined(*arguments.by), "where": "\n".join(arguments.where), "metric": metric}
    asked |= {"baseline": arguments.baseline, "allow": joined(*arguments.allow)}
    return "".join(f"&p.downsampling.{key}={quote(value, safe='')}" for key, value in asked.items() if value)


def _status(runs: Sequence[Run]) -> str:
    states = ["probed" if run.found and run.found.examined else run.state for run in runs]
    seeds = [str(run.seed) if run.found else "" for run in runs]
    rows = list(zip([str(run.folder) for run in runs], states, seeds, strict=True))
    columns = tables.from_rows(("run", "state", "seed"), rows, numbers=["seed"])
    counts = ", ".join(f"{count} {state}" for state, count in Counter(states).items())
    reasons = [tables.printable(f"{run.folder}: {run.reason}") for run in runs if run.reason]
    table = tables.text(columns, shutil.get_terminal_size(SIZE).columns)
    return f"{table}\n{len(runs)} runs: {counts}\n" + "".join(f"  {one}\n" for one in reasons)
