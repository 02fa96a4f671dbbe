"""Progress of long epochs in a log; a terminal shows a progress bar instead."""

from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from cnnpool.fit.module import Net
from cnnpool.system.progress import Progress

SILENT_S = 15.0
"""Every epoch has a line of its own at its end: one that comes soon is enough."""


class EpochProgress(Callback):
    """Lines within every epoch of training, validation or test that takes longer than ``SILENT_S``."""

    def __init__(self) -> None:
        self._progress: Progress | None = None

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        # Lightning announces no epoch's start to a run that goes on within an epoch.
        self.on_train_epoch_start(trainer, module)

    def on_train_epoch_start(self, trainer: Trainer, module: LightningModule) -> None:
        assert isinstance(module, Net)
        total = int(trainer.num_training_batches)
        self._begin(f"epoch {trainer.current_epoch + 1}/{trainer.max_epochs}", total, module.steps % total)

    def on_validation_start(self, trainer: Trainer, module: LightningModule) -> None:
        self._begin("validating", int(sum(trainer.num_val_batches)))

    def on_test_start(self, trainer: Trainer, module: LightningModule) -> None:
        self._begin("testing", int(sum(trainer.num_test_batches)))

    def on_train_batch_end(self, trainer: Trainer, module: LightningModule, *batch: Any) -> None:
        self._step()

    def on_validation_batch_end(self, trainer: Trainer, module: LightningModule, *batch: Any) -> None:
        self._step()

    def on_test_batch_end(self, trainer: Trainer, module: LightningModule, *batch: Any) -> None:
        self._step()

    def on_train_epoch_end(self, trainer: Trainer, module: LightningModule) -> None:
        self._end()

    def on_test_end(self, trainer: Trainer, module: LightningModule) -> None:
        self._end()

    def on_exception(self, trainer: Trainer, module: LightningModule, exception: BaseException) -> None:
        self._end()

    def _begin(self, what: str, total: int, done: int = 0) -> None:
        self._end()
        self._progress = Progress(what, total, "batches", silent_s=SILENT_S)
        self._progress.step(done)
        self._progress.__enter__()

    def _step(self) -> None:
        if self._progress:
            self._progress.step()

    def _end(self) -> None:
        if self._progress:
            self._progress.__exit__()
        self._progress = None
