"""A run's numbers and pictures in Lightning's loggers for services and tables, beside the run's record."""

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
from lightning.pytorch.utilities import rank_zero_only
from matplotlib.figure import Figure

from cnnpool.fit.run_state import Run
from cnnpool.lightning.probe_callback import log_figure
from cnnpool.recipe import Csv, Installed, MLflow, TensorBoard, Wandb
from cnnpool.run_folder import layout
from cnnpool.system.atomic import write_json

log = logging.getLogger(__name__)


class Guarded(Logger):
    """Wraps one of Lightning's loggers; after an error in it, logs a warning and continues without it."""

    def __init__(self, name: str, logger: Logger):
        self.called = name
        self.logger: Logger | None = logger

    @property
    def name(self) -> str:
        return self.called

    @property
    def version(self) -> str:
        return ""

    @property
    def experiment(self) -> Any:
        return getattr(self.logger, "experiment", None)

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        # MLflow's file store does not allow both epoch and epoch/train_loss as names.
        left_out = ("epoch",) if isinstance(self.logger, MLFlowLogger) else ()
        values = {tag: v for tag, v in metrics.items() if v is not None and tag not in left_out}
        self._try(lambda logger: logger.log_metrics(values, step))

    @rank_zero_only
    def log_hyperparams(self, params: Any, *rest: Any, **more: Any) -> None:
        self._try(lambda logger: logger.log_hyperparams(dict(params)))

    def replay(self, records: Iterable[Mapping[str, float]]) -> None:
        """Log again the earlier records of a resumed run, if the logger has lost them."""
        if isinstance(self.logger, CSVLogger):
            for record in records:
                values = {tag: value for tag, value in record.items() if tag != "step"}
                self.log_metrics(values, int(record["step"]))

    def figure(self, tag: str, figure: Figure, step: int | None) -> None:
        self._try(lambda logger: log_figure(logger, tag, figure, step or 0))

    def close(self, status: str) -> None:
        """End the logger's run: ``success``, or ``failed``, after which it may resume."""
        self._try(lambda logger: _close(logger, status))
        self.logger = None

    def _try(self, action: Callable[[Logger], Any]) -> None:
        if self.logger is None:
            return
        try:
            action(self.logger)
        # A server may fail in any way, which must not end a long training.
        except Exception as error:
            reason = str(error).partition("\n")[0]
            log.warning(
                "log=%s receives nothing more from this run (%s); the run's own files do", self.called, reason
            )
            self.logger = None


@contextmanager
def logging_to(
    chosen: Iterable[TensorBoard], run: Run, given: Iterable[Logger] = ()
) -> Iterator[list[Guarded]]:
    """The loggers beside TensorBoard among ``chosen``; they resume if ``run`` does. All are closed.

    ``given`` are a script's own loggers.
    """
    loggers: list[Guarded] = []
    status = "failed"
    try:
        for one in chosen:
            loggers += _opened(one, run)
        loggers += [Guarded(type(one).__name__, one) for one in given]
        for logger in loggers:
            logger.log_hyperparams({"run": run.run, **(run.asked or {"stages": run.stages})})
        yield loggers
        status = "success"
    finally:
        for logger in loggers:
            logger.close(status)


def _opened(chosen: TensorBoard, run: Run) -> list[Guarded]:
    try:
        match chosen:
            case Csv():
                # Rewritten through ``replay``: Lightning's logger does not append.
                shutil.rmtree(run.out / "csv", ignore_errors=True)
                return [Guarded("csv", CSVLogger(run.out, name="csv", version=""))]
            case Wandb():
                return [Guarded("wandb", _wandb(run, chosen))]
            case MLflow():
                return [Guarded("mlflow", _mlflow(run, chosen))]
            case Installed(name=name, make=make):
                return [Guarded(name, make(run.out))]
    except Exception as error:
        name = getattr(chosen, "name", type(chosen).__name__.lower())
        raise ValueError(f"log={name} cannot be opened: {str(error).partition(chr(10))[0]}") from error
    return []


def _wandb(run: Run, chosen: Wandb) -> WandbLogger:
    key = _remembered(run.out, "wandb") or secrets.token_hex(4)
    logger = WandbLogger(
        run.run,
        str(run.out),
        id=key,
        resume="allow",
        project=chosen.project,
        entity=chosen.entity,
        tags=list(chosen.tags),
        notes=chosen.notes,
        group=run.choice,
        # Keep our output on our terminal, and W&B quiet.
        settings={"console": "off", "quiet": True},
    )
    # The server is first contacted here.
    _ = logger.experiment
    _remember(run.out, "wandb", key)
    return logger


def _mlflow(run: Run, chosen: MLflow) -> MLFlowLogger:
    address, known = os.environ["MLFLOW_TRACKING_URI"], _remembered(run.out, "mlflow")
    tags = dict.fromkeys(chosen.tags, "true")
    if chosen.notes:
        tags["mlflow.note.content"] = chosen.notes
    logger = MLFlowLogger(chosen.experiment, run.run, tracking_uri=address, tags=tags, run_id=known)
    _remember(run.out, "mlflow", str(logger.run_id))
    return logger


def _close(logger: Logger, status: str) -> None:
    logger.finalize(status)
    if isinstance(logger, WandbLogger):
        # Otherwise the next run of this process would continue this one.
        logger.experiment.finish(exit_code=0 if status == "success" else 1)


def _remembered(out: Path, name: str) -> str | None:
    with suppress(OSError, ValueError, AttributeError):
        found = json.loads((out / layout.LOGGED).read_text()).get(name)
        return found if isinstance(found, str) else None
    return None


def _remember(out: Path, name: str, key: str) -> None:
    known = {other: found for other in ("wandb", "mlflow") if (found := _remembered(out, other))}
    write_json(out / layout.LOGGED, known | {name: key})
