"""The command line. Heavy imports stay inside the commands: help and mistakes are answered at once."""

import argparse
import io
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from cnnpool import __version__

USAGE = """\
usage: cnnpool COMMAND [ARGUMENTS]

Choose a CNN's downsampling on evidence.

commands:
  train    [OVERRIDES]     train one network, or with -m a sweep
  compare  RUNS...         runs on disk -> table, statistics, plots, report
  explain  [OPERATOR]      forward and backward of one operator on a small example, number by number

examples:
  cnnpool train data=mnist pool=max
  cnnpool train -m pool=max,avg,strided seed=0,1,2,3,4
  cnnpool compare outputs/mnist --baseline max
  cnnpool explain max

'cnnpool COMMAND --help' says more. Set CNNPOOL_TRACEBACK=1 to see where an error came from.
"""


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run one command and end the process: status 0, 1 (a run failed) or 2 (a mistake in what was asked)."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        sys.stdout.write(USAGE)
        sys.exit(0)
    if arguments[0] == "--version":
        sys.stdout.write(f"cnnpool {__version__}\n")
        sys.exit(0)
    command, rest = arguments[0], arguments[1:]
    if command not in COMMANDS:
        fail(f"no command {command!r}; choose from {', '.join(COMMANDS)}")
    try:
        sys.exit(COMMANDS[command](rest))
    except KeyboardInterrupt:
        sys.exit(130)
    except ValueError as error:
        fail(str(error))


def fail(message: str, status: int = 2) -> NoReturn:
    """One line on stderr, and the end."""
    if os.environ.get("CNNPOOL_TRACEBACK"):
        traceback.print_exc()
    sys.stderr.write(f"error: {message}\n")
    sys.exit(status)


def compare(arguments: list[str]) -> int:
    """``cnnpool compare``."""
    from cnnpool import report

    return report.main(arguments)


def explain(arguments: list[str]) -> int:
    """``cnnpool explain``."""
    from cnnpool import explain

    return explain.main(arguments)


def train(arguments: list[str]) -> int:
    """``cnnpool train``: Hydra composes the configuration and calls ``run_job`` once per job."""
    import hydra
    from omegaconf import OmegaConf

    from cnnpool.config import conf_dir, run_name

    _let_hydra_start_on_python_3_14()
    OmegaConf.register_new_resolver("run_name", run_name, replace=True)
    sys.argv = ["cnnpool train", *arguments]
    jobs: list[dict[str, Any]] = []
    # Until the first job starts, what Hydra says on stderr is about the user's configuration.
    said, stderr = io.StringIO(), sys.stderr

    def task(config: Any) -> None:
        sys.stderr = stderr
        jobs.append(run_job(config))

    sys.stderr = said
    try:
        hydra.main(version_base="1.3", config_path=str(conf_dir()), config_name="train")(task)()
    except SystemExit as stop:
        if stop.code and not jobs:
            sys.stderr = stderr
            fail(_tidy(said.getvalue()))
        raise
    finally:
        sys.stderr = stderr
    return conclude(jobs)


def run_job(config: Any) -> dict[str, Any]:
    """One job of a sweep, or the only one: its folder, its state, and what went wrong."""
    from hydra.core.hydra_config import HydraConfig

    from cnnpool.config import settle
    from cnnpool.job import Job

    hydra = HydraConfig.get()
    job = Job(Path(hydra.runtime.output_dir), list(hydra.overrides.task))
    return job.run(lambda: settle(config))


def conclude(jobs: list[dict[str, Any]]) -> int:
    """Say how a command's jobs ended; 0 if all are done, else the status of the worst."""
    failed = [job for job in jobs if job["state"] != "done"]
    if len(jobs) > 1:
        width = max(len(job["run"]) for job in jobs)
        for job in jobs:
            sys.stdout.write(f"{job['run']:<{width}}  {job['state']:<7}  {job['said']}\n")
    for job in failed:
        sys.stderr.write(
            f"error: {job['run']}: {job['said']}\n" if len(jobs) > 1 else f"error: {job['said']}\n"
        )
    return max((job["status"] for job in failed), default=0)


def _tidy(said: str) -> str:
    """Hydra's message without its advice on stack traces."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return (
        "\n".join(line for line in lines if "HYDRA_FULL_ERROR" not in line) or "the command line is not valid"
    )


def _let_hydra_start_on_python_3_14() -> None:
    # Python 3.14 checks help texts when they are added, and Hydra 1.3's are no text yet.
    if sys.version_info >= (3, 14):
        argparse.ArgumentParser._check_help = lambda self, action: None


COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "train": train,
    "compare": compare,
    "explain": explain,
}
