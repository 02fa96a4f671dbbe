"""A run's numbers and pictures in Lightning's loggers for services and tables, beside the run's record."""

import logging
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers import CSVLogger, Logger, MLFlowLogger, WandbLogger
from lightning.pytorch.utilities import rank_zero_only
from matplotlib.figure import Figure

from cnnpool.fit.run_state import Run
from cnnpool.lightning.probe_callback import log_figure
from cnnpool.recipe import Csv, Installed, MLflow, TensorBoard, Wandb
from cnnpool.run_folder import metrics
from cnnpool.run_folder.results import Results

log = logging.getLogger(__name__)


class Guarded(Logger):
    """Wraps one of Lightning's loggers; after an error in it, logs a warning and continues without it.

    ``key`` is the run's name in that log, None for a script's own logger, which gets no earlier records;
    ``lacks``, whether it has none of them.
    """

    def __init__(self, name: str, logger: Logger, key: str | None = None, lacks: bool = False):
        self.called = name
        self.logger: Logger | None = logger
        self.key, self.lacks = key, lacks

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
    chosen: Iterable[TensorBoard], out: Path, run: Run | Results, given: Iterable[Logger] = ()
) -> Iterator[list[Guarded]]:
    """The loggers beside TensorBoard among ``chosen``; they resume if ``run`` does. All are closed.

    ``given`` are a script's own loggers.
    """
    loggers: list[Guarded] = []
    status = "failed"
    try:
        for one in chosen:
            loggers += _opened(one, out, run)
        loggers += [Guarded(type(one).__name__, one) for one in given]
        for logger in loggers:
            logger.log_hyperparams({"run": run.run, **(run.asked or {"stages": run.stages})})
        yield loggers
        status = "success"
    finally:
        for logger in loggers:
            logger.close(status)


def bring_up(loggers: Iterable[Guarded], records: Iterable[Mapping[str, float]], out: Path) -> None:
    """Log the earlier ``records`` of the run in ``out`` to those that lack them, and note who has them."""
    done = {}
    for logger in loggers:
        for record in records if logger.lacks else ():
            values = {tag: value for tag, value in record.items() if tag != "step"}
            logger.log_metrics(values, int(record["step"]))
        if logger.logger and logger.key is not None:
            done[logger.called] = logger.key
    metrics.note_logged(out, done)


def catch_up(chosen: Iterable[TensorBoard], out: Path, results: Results) -> None:
    """Give the history of the finished run in ``out`` to logs that do not have it; a ValueError if they fail.

    Pictures are not kept outside TensorBoard's event file, so these logs do not get them.
    """
    found = metrics.read_whole(out, results.epochs or 0)
    if found.problem:
        log.warning("%s", found.problem)
    with logging_to(chosen, out, results) as loggers:
        bring_up(loggers, found.records, out)
        for one in loggers:
            if one.logger:
                log.info(
                    "log=%s has the history of this run now (%s records)", one.called, len(found.records)
                )


def _opened(chosen: TensorBoard, out: Path, run: Run | Results) -> list[Guarded]:
    name, known = chosen.called, metrics.logged(out).get(chosen.called)
    try:
        match chosen:
            case Csv():
                # Rewritten whole: Lightning's logger does not append.
                shutil.rmtree(out / "csv", ignore_errors=True)
                return [Guarded(name, CSVLogger(out, name="csv", version=""), "", lacks=True)]
            case Wandb():
                key = known or secrets.token_hex(4)
                return [Guarded(name, _wandb(chosen, out, run, key), key, lacks=known is None)]
            case MLflow():
                logger = _mlflow(chosen, run, known)
                return [Guarded(name, logger, str(logger.run_id), lacks=known is None)]
            case Installed(make=make):
                return [Guarded(name, make(out), "", lacks=known is None)]
    except Exception as error:
        raise ValueError(f"log={name} cannot be opened: {str(error).partition(chr(10))[0]}") from error
    return []


def _wandb(chosen: Wandb, out: Path, run: Run | Results, key: str) -> WandbLogger:
    logger = WandbLogger(
        run.run,
        str(out),
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
    return logger


def _mlflow(chosen: MLflow, run: Run | Results, known: str | None) -> MLFlowLogger:
    address = os.environ["MLFLOW_TRACKING_URI"]
    tags = dict.fromkeys(chosen.tags, "true")
    if chosen.notes:
        tags["mlflow.note.content"] = chosen.notes
    return MLFlowLogger(chosen.experiment, run.run, tracking_uri=address, tags=tags, run_id=known)


def _close(logger: Logger, status: str) -> None:
    logger.finalize(status)
    if isinstance(logger, WandbLogger):
        # Otherwise the next run of this process would continue this one.
        logger.experiment.finish(exit_code=0 if status == "success" else 1)
