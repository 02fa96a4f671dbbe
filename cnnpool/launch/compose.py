"""From a command line of ``cnnpool train`` to the jobs it asks for: all of Hydra's part happens here."""

import argparse
import contextlib
import io
import sys
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from cnnpool.launch.arguments import in_order
from cnnpool.launch.config import conf_dir, run_name, settle, unresolved
from cnnpool.launch.errors import explain
from cnnpool.launch.job import Job
from cnnpool.launch.once import each_once
from cnnpool.launch.untrusted import refuse_hydra_code

OmegaConf.register_new_resolver("run_name", run_name, replace=True)


_jobs: list[Job] = []


def compose(arguments: list[str]) -> list[Job]:
    """The jobs of a command line, none where Hydra itself has answered.

    Raises:
        ValueError: if the command line is no valid one; nothing has been created then.
    """
    refuse_hydra_code(arguments)
    arguments = in_order(arguments)
    _let_hydra_start_on_python_3_14()
    _jobs.clear()
    said, argv = io.StringIO(), sys.argv
    sys.argv = ["cnnpool train", *arguments]
    try:
        with contextlib.redirect_stderr(said), each_once():
            hydra.main(version_base="1.3", config_path=str(conf_dir()), config_name="train")(task)()
    except SystemExit as stop:
        if stop.code:
            raise ValueError(explain(said.getvalue())) from None
    except OmegaConfBaseException as error:
        raise ValueError(unresolved(error)) from None
    finally:
        sys.argv = argv
    sys.stderr.write(said.getvalue())
    return list({job.folder: job for job in reversed(_jobs)}.values())[::-1]


def task(config: DictConfig) -> None:
    """Note a job, for which Hydra calls this."""
    _jobs.append(_asked(config))


def _asked(config: DictConfig) -> Job:
    node = HydraConfig.get()
    settings, mistake = {}, ""
    try:
        settings = settle(config)
    except ValueError as error:
        mistake = str(error).splitlines()[0]
    sweep = node.mode == RunMode.MULTIRUN
    return Job(Path(node.runtime.output_dir), list(node.overrides.task), settings, mistake, sweep)


def _let_hydra_start_on_python_3_14() -> None:
    # Python 3.14 checks help texts when they are added, and Hydra 1.3's are no text yet.
    if sys.version_info >= (3, 14):
        argparse.ArgumentParser._check_help = lambda self, action: None
