"""The command line. Commands import heavy packages themselves, so help and errors appear at once."""

import errno
import os
import sys
import traceback
from importlib import import_module
from typing import Any, NoReturn

from cnnpool import __version__
from cnnpool.cli_parser import train_parser
from cnnpool.system.output import ignore_broken_pipes, shortened, write_error
from cnnpool.system.process import has_folder, leave, share_cores

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


COMMANDS = {
    "train": "",
    "compare": "report",
    "choose": "choose",
    "explain": "explain",
    "probe": "inspection",
    "bench": "bench",
    "completion": "completion",
}
"""The module of each command, with ``main`` and ``parser``; ``train`` is in this file."""
LONGEST = 2000  # Largest number of characters in an error message
MACHINE = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ENOMEM, errno.EMFILE, errno.ENFILE}
"""Errors caused by the machine, not by the arguments."""


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run one command and exit: status 0, 1 (a run failed), 2 (a mistake) or 128 + a signal."""
    if arguments is None:
        _from_shell()
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
        sys.exit(train(rest) if command == "train" else _module(command).main(rest))
    except KeyboardInterrupt:
        sys.exit(130)
    except ValueError as error:
        fail(str(error))
    except OSError as error:
        fail(*explained(error))


def _from_shell() -> NoReturn:
    if "_ARGCOMPLETE" in os.environ:
        from cnnpool.completion import answer

        modules = {name: _module(name) for name in COMMANDS if name != "train"}
        answer({"train": train_parser, **{name: module.parser for name, module in modules.items()}})
    streams = ignore_broken_pipes()
    try:
        main(sys.argv[1:])
    except SystemExit as end:
        if message := write_error(streams):
            sys.stderr.write(f"error: standard output: {message}\n")
        status = end.code or int(bool(message))
    if "cnnpool.launch.plugins" in sys.modules:
        # The processes of a launcher such as joblib's end with the interpreter.
        sys.exit(status)
    leave(status)


def explained(error: OSError) -> tuple[str, int]:
    """One line and the exit status for a file that cannot be used: 1 if the machine is the cause, else 2."""
    name = "" if error.filename is None else shortened(os.fspath(error.filename))
    message = error.strerror or str(error) or type(error).__name__
    return f"{name}: {message}" if name else message, 1 if error.errno in MACHINE else 2


def fail(message: str, status: int = 2) -> NoReturn:
    """Write one line to stderr, shortened in the middle if it is long, and exit."""
    if len(message) > LONGEST:
        message = f"{message[: LONGEST // 2]} ... {message[-LONGEST // 2 :]}"
    if os.environ.get("CNNPOOL_TRACEBACK"):
        traceback.print_exc()
    sys.stderr.write(f"error: {message}\n")
    sys.exit(status)


def _module(command: str) -> Any:
    return import_module(f"cnnpool.{COMMANDS[command]}")


def train(arguments: list[str]) -> int:
    from cnnpool.system.signals import Signals, Stopped

    args = train_parser().parse_intermixed_args(arguments)
    if (args.cfg and args.info) or ((args.cfg or args.info) and args.multirun):
        raise ValueError("--cfg, --info and -m exclude each other: give one of them")
    if (args.resolve or args.package) and not args.cfg:
        raise ValueError("--resolve and --package need --cfg, such as --cfg job")
    share_cores()
    try:
        with Signals():
            from cnnpool.launch.compose import PluginChosen, Request, jobs_of

            request = Request(args.overrides, args.multirun, args.config_dir, args.config_name, args.max_jobs)
            if args.help or args.cfg or args.info:
                from cnnpool.launch import show

                if args.help:
                    show.show_help(request)
                elif args.cfg:
                    show.show_configuration(request, args.cfg, args.package, args.resolve)
                else:
                    show.show_composition(request, args.info)
                return 0
            from cnnpool.launch.sweep import run_all

            try:
                jobs = jobs_of(request)
            except PluginChosen:
                from cnnpool.launch.plugins import run_plugins

                return run_plugins(request)
            return run_all(jobs)
    except Stopped as stop:
        sys.stderr.write(f"{stop}\n")
        return stop.status
