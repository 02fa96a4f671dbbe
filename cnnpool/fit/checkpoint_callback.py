"""Checkpoints of a run: after every epoch, at intervals within one, and at a signal."""

import math
import time
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer

from cnnpool.fit.metrics_callback import MetricsCallback
from cnnpool.fit.module import DivergedError, Net
from cnnpool.run_folder.checkpoint import keep
from cnnpool.run_folder.layout import BEST, CHECKPOINTS, LAST, PREVIOUS, refuse_lost
from cnnpool.system.signals import Signals, Stopped


class Checkpoints(Callback):
    """``last.ckpt`` to go on from, ``previous.ckpt`` the one before it, ``best.ckpt`` for its weights.

    ``best.ckpt`` is written after epochs with the best validation accuracy so far. No file of weights that
    are not finite is ever written.

    Args:
        out: the run's folder.
        name: the run's own random one.
        metrics: holds the latest validation accuracy; runs before this callback.
        signals: while training, a signal saves and stops at the end of the step or of the epoch.
    """

    def __init__(self, out: Path, name: str, metrics: MetricsCallback, signals: Signals):
        self.out, self.name = out, name
        self.folder = out / CHECKPOINTS
        self.metrics = metrics
        self.signals = signals
        self.best = -1.0
        self.saved_time = time.monotonic()

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        # Lightning has just installed its own handler of SIGTERM.
        self.signals.install()
        self.signals.patient = True

    def on_train_end(self, trainer: Trainer, module: LightningModule) -> None:
        self.signals.patient = False

    def on_train_batch_end(
        self, trainer: Trainer, module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        assert isinstance(module, Net)
        # The last step is saved with its epoch's end, after validation.
        if batch_idx + 1 >= trainer.num_training_batches or trainer.should_stop:
            return
        minutes = (time.monotonic() - self.saved_time) / 60
        due, signum = self._agree(trainer, minutes >= module.recipe.checkpoint_every_minutes)
        if due or signum:
            self._save(trainer, module)
        self._stop(module, signum)

    def on_train_epoch_end(self, trainer: Trainer, module: LightningModule) -> None:
        assert isinstance(module, Net)
        # Without a validation split the last epoch counts as the best.
        accuracy = self.metrics.latest.get("val", {"accuracy": math.inf})["accuracy"]
        if accuracy > self.best or accuracy == math.inf:
            self.best = accuracy
            self._check(module)
            trainer.save_checkpoint(self.folder / BEST, weights_only=True)
        self._save(trainer, module)
        self._stop(module, self._agree(trainer, False)[1])

    def state_dict(self) -> dict[str, float]:
        return {"best": self.best}

    def load_state_dict(self, state: dict[str, float]) -> None:
        self.best = state["best"]

    def _save(self, trainer: Trainer, module: Net) -> None:
        self._check(module)
        if trainer.is_global_zero:
            keep(self.folder / LAST, self.folder / PREVIOUS)
        trainer.save_checkpoint(self.folder / LAST, weights_only=False)
        module.saved_steps, self.saved_time = module.steps, time.monotonic()

    def _check(self, module: Net) -> None:
        if module.global_rank == 0:
            refuse_lost(self.out, self.name)
        # One reduction over all tensors, since reading each would synchronise with a GPU.
        if not torch.stack([value.isfinite().all() for value in module.state_dict().values()]).all():
            raise DivergedError(
                f"a weight or statistic became nan or infinite by step {module.steps}: lower fit.lr; "
                f"the last checkpoint is of step {module.saved_steps}"
            )

    def _stop(self, module: Net, signum: int) -> None:
        if signum:
            raise Stopped(signum, f"stopped by {Stopped(signum).name} at step {module.saved_steps}")

    def _agree(self, trainer: Trainer, due: bool) -> tuple[bool, int]:
        """(whether a checkpoint is due, signal), combined over all processes."""
        signum = self.signals.pending or 0
        if trainer.world_size == 1:
            return due, signum
        votes = torch.tensor([int(due), signum], device=trainer.strategy.root_device)
        due_votes, signum = trainer.strategy.reduce(votes, reduce_op="max").tolist()
        return bool(due_votes), signum
