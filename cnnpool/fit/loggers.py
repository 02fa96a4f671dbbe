"""A run's numbers and pictures in Lightning's loggers, beside the run's own files."""

import json
import logging
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers import CSVLogger, Logger, MLFlowLogger, WandbLogger
from matplotlib.figure import Figure

from cnnpool.fit.prepare import Facts
from cnnpool.lightning.pictures import log_figure
from cnnpool.loggers import Csv, MLflow, TensorBoard, Wandb
from cnnpool.run_folder import layout
from cnnpool.system.atomic import write_json

log = logging.getLogger(__name__)


class RunLogger:
    """One of Lightning's loggers, or none; when it fails, a warning says so and the run goes on without it.

    Args:
        name: what the user calls it.
        logger: Lightning's.
    """

    def __init__(self, name: str = "", logger: Logger | None = None):
        self.name = name
        self.logger = logger

    def scalars(self, step: int, epoch: int, values: Mapping[str, float]) -> None:
        """Log numbers by tag."""
        # In MLflow's store of files, one number cannot be called epoch and another epoch/train_loss.
        more = {} if isinstance(self.logger, MLFlowLogger) else {"epoch": epoch}
        self._try(lambda logger: logger.log_metrics({**values, **more}, step))

    def replay(self, records: Iterable[Mapping[str, float]]) -> None:
        """Log what a run that goes on has logged before, where the logger has forgotten it."""
        if isinstance(self.logger, CSVLogger):
            for record in records:
                values = {tag: value for tag, value in record.items() if tag not in ("step", "epoch")}
                self.scalars(int(record["step"]), int(record["epoch"]), values)

    def figure(self, tag: str, figure: Figure, step: int) -> None:
        """Log a picture, if the logger takes pictures."""
        self._try(lambda logger: log_figure(logger, tag, figure, step))

    def settings(self, asked: Mapping[str, Any]) -> None:
        """Log what was asked."""
        self._try(lambda logger: logger.log_hyperparams(dict(asked)))

    def close(self, status: str) -> None:
        """End the logger's own run: ``success``, or ``failed``, where it may go on later."""
        self._try(lambda logger: _close(logger, status))
        self.logger = None

    def _try(self, action: Callable[[Logger], Any]) -> None:
        if self.logger is None:
            return
        try:
            action(self.logger)
        # A server may fail in any way, and a long training is not to fail with it.
        except Exception as error:
            said = str(error).partition("\n")[0]
            log.warning(
                "log=%s receives nothing more of this run (%s); the run's own files do", self.name, said
            )
            self.logger = None


@contextmanager
def logging_to(asked: TensorBoard, out: Path, facts: Facts) -> Iterator[RunLogger]:
    """The logger of a run in ``out``, which goes on where the run does, and is closed at the end.

    Raises:
        ValueError: if it cannot be opened.
    """
    logger = _open(asked, out, facts)
    status = "failed"
    try:
        logger.settings({"run": facts.run, **(facts.asked or {"stages": facts.stages})})
        yield logger
        status = "success"
    finally:
        logger.close(status)


def _open(asked: TensorBoard, out: Path, facts: Facts) -> RunLogger:
    asked.refuse_missing()
    try:
        match asked:
            case Csv():
                return RunLogger("csv", _csv(out))
            case Wandb(project=project):
                return RunLogger("wandb", _wandb(out, project, facts))
            case MLflow(experiment=experiment):
                return RunLogger("mlflow", _mlflow(out, experiment, facts.run))
    except Exception as error:
        name = type(asked).__name__.lower()
        raise ValueError(f"log={name} cannot be opened: {str(error).partition(chr(10))[0]}") from error
    return RunLogger()


def _csv(out: Path) -> CSVLogger:
    # Written anew, from ``replay``: Lightning's logger does not append.
    shutil.rmtree(out / "csv", ignore_errors=True)
    return CSVLogger(out, name="csv", version="")


def _wandb(out: Path, project: str, facts: Facts) -> WandbLogger:
    key = _remembered(out, "wandb") or secrets.token_hex(4)
    logger = WandbLogger(
        facts.run,
        str(out),
        id=key,
        resume="allow",
        project=project,
        group=facts.choice,
        # Our output stays on our terminal, and it says little.
        settings={"console": "off", "quiet": True},
    )
    # Only now does it look for the server.
    _ = logger.experiment
    _remember(out, "wandb", key)
    return logger


def _mlflow(out: Path, experiment: str, run: str) -> MLFlowLogger:
    address = os.environ["MLFLOW_TRACKING_URI"]
    logger = MLFlowLogger(experiment, run, tracking_uri=address, run_id=_remembered(out, "mlflow"))
    _remember(out, "mlflow", str(logger.run_id))
    return logger


def _close(logger: Logger, status: str) -> None:
    logger.finalize(status)
    if isinstance(logger, WandbLogger):
        # The next run of this process would go on in this one.
        logger.experiment.finish(exit_code=0 if status == "success" else 1)


def _remembered(out: Path, name: str) -> str | None:
    """The name by which a service knows the run already."""
    with suppress(OSError, ValueError, AttributeError):
        found = json.loads((out / layout.LOGGED).read_text()).get(name)
        return found if isinstance(found, str) else None
    return None


def _remember(out: Path, name: str, key: str) -> None:
    write_json(out / layout.LOGGED, {name: key})
