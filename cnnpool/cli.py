"""The command line. Heavy imports stay inside the commands: help and mistakes are answered at once."""

import errno
import os
import sys
import traceback
from argparse import Namespace
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

from cnnpool import __version__
from cnnpool.cli_parser import Parser, train_parser
from cnnpool.system.output import ignore_broken_pipes, shortened, write_error
from cnnpool.system.process import has_folder, leave, share_cores

if TYPE_CHECKING:
    from cnnpool.launch.compose import Request

USAGE = """\
usage: cnnpool COMMAND [ARGUMENTS]

Choose a CNN's downsampling on evidence.

commands:
  train    [OVERRIDES]     train one network, or with -m a sweep
  compare  RUNS...         runs on disk -> table, statistics, plots, report
  choose   [OVERRIDES]     which downsampling for this network and these images, within a budget
  explain  [OPERATOR]      forward and backward of one operator on a small example, number by number
  probe    MODEL           measure a model that exists already: a run, a checkpoint, torchvision's, your own
  bench    [SUITE]         speed and memory of the operators against named rivals, as ratios in one run
  completion SHELL         a script that lets bash, zsh or fish complete command lines

examples:
  cnnpool train data=mnist pool=max
  cnnpool train -m pool=max,avg,strided seed=0,1,2,3,4
  cnnpool compare outputs/mnist --baseline max
  cnnpool choose data=mnist choose.pools=max,avg,max_blur choose.budget=2h
  cnnpool explain max
  cnnpool probe outputs/mnist/convnet/max/seed0
  cnnpool bench pool

'cnnpool COMMAND --help' says more. Set CNNPOOL_TRACEBACK=1 to see where an error came from.
"""


LONGEST = 2000
"""Characters of an error message."""
MACHINE = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ENOMEM, errno.EMFILE, errno.ENFILE}
"""Errors that are no mistake in what was asked."""


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run one command and end the process: status 0, 1 (a run failed), 2 (a mistake) or 128 + a signal."""
    if arguments is None:
        if "_ARGCOMPLETE" in os.environ:
            from cnnpool.completion import answer

            answer(_parsers())
        streams = ignore_broken_pipes()
        try:
            main(sys.argv[1:])
        except SystemExit as end:
            if said := write_error(streams):
                sys.stderr.write(f"error: standard output: {said}\n")
            leave(end.code or int(bool(said)))
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        sys.stdout.write(USAGE)
        sys.exit(0)
    if arguments[0] == "--version":
        sys.stdout.write(f"cnnpool {__version__}\n")
        sys.exit(0)
    command, rest = arguments[0], arguments[1:]
    if command not in COMMANDS:
        from cnnpool.registry import did_you_mean

        fail(f"no command {command!r}; {did_you_mean(command, COMMANDS)}")
    if not has_folder():
        fail("the working directory has been removed: cd to one that exists")
    try:
        sys.exit(COMMANDS[command](rest))
    except KeyboardInterrupt:
        sys.exit(130)
    except ValueError as error:
        fail(str(error))
    except OSError as error:
        fail(*explained(error))


def explained(error: OSError) -> tuple[str, int]:
    """One line and the exit status for a file that cannot be used: 1 if the machine is to blame, else 2."""
    name = "" if error.filename is None else shortened(os.fspath(error.filename))
    said = error.strerror or str(error) or type(error).__name__
    return f"{name}: {said}" if name else said, 1 if error.errno in MACHINE else 2


def fail(message: str, status: int = 2) -> NoReturn:
    """Write one line to stderr, without its middle if nobody would read it to its end, and exit."""
    if len(message) > LONGEST:
        message = f"{message[: LONGEST // 2]} ... {message[-LONGEST // 2 :]}"
    if os.environ.get("CNNPOOL_TRACEBACK"):
        traceback.print_exc()
    sys.stderr.write(f"error: {message}\n")
    sys.exit(status)


def compare(arguments: list[str]) -> int:
    """``cnnpool compare``."""
    from cnnpool import report

    return report.main(arguments)


def choose(arguments: list[str]) -> int:
    """``cnnpool choose``."""
    from cnnpool import choose

    return choose.main(arguments)


def explain(arguments: list[str]) -> int:
    """``cnnpool explain``."""
    from cnnpool import explain

    return explain.main(arguments)


def probe(arguments: list[str]) -> int:
    """``cnnpool probe``."""
    from cnnpool import inspection

    return inspection.main(arguments)


def bench(arguments: list[str]) -> int:
    """``cnnpool bench``."""
    from cnnpool import bench

    return bench.main(arguments)


def train(arguments: list[str]) -> int:
    """``cnnpool train``: one job, or with ``-m`` every job of a sweep."""
    from cnnpool.system.signals import Signals, Stopped

    asked = train_parser().parse_intermixed_args(arguments)
    if (asked.cfg and asked.info) or ((asked.cfg or asked.info) and asked.multirun):
        raise ValueError("--cfg, --info and -m exclude each other: give one of them")
    if (asked.resolve or asked.package) and not asked.cfg:
        raise ValueError("--resolve and --package need --cfg, such as --cfg job")
    share_cores()
    try:
        with Signals():
            from cnnpool.launch.compose import Request, jobs_of

            request = Request(
                asked.overrides, asked.multirun, asked.config_dir, asked.config_name, asked.max_jobs
            )
            if asked.help or asked.cfg or asked.info:
                return _show(asked, request)
            from cnnpool.launch.sweep import run_all

            return run_all(jobs_of(request))
    except Stopped as stop:
        sys.stderr.write(f"{stop}\n")
        return stop.status


def _show(asked: Namespace, request: "Request") -> int:
    from cnnpool.launch import show

    if asked.help:
        show.show_help(request)
    elif asked.cfg:
        show.show_configuration(request, asked.cfg, asked.package, asked.resolve)
    else:
        show.show_composition(request, asked.info)
    return 0


def completion(arguments: list[str]) -> int:
    """``cnnpool completion``."""
    from cnnpool import completion

    return completion.main(arguments)


def _parsers() -> dict[str, Callable[[], Parser]]:
    from cnnpool import bench, choose, completion, explain, inspection
    from cnnpool.report import command as report

    return {
        "train": train_parser,
        "compare": report.parser,
        "choose": choose.parser,
        "explain": explain.parser,
        "probe": inspection.parser,
        "bench": bench.parser,
        "completion": completion.parser,
    }


COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "train": train,
    "compare": compare,
    "choose": choose,
    "explain": explain,
    "probe": probe,
    "bench": bench,
    "completion": completion,
}
