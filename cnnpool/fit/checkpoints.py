"""Checkpoints of a run: after epochs, at intervals within one, and at a signal."""

import time
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Checkpoint
from lightning.pytorch.plugins.io import TorchCheckpointIO

from cnnpool.fit.classifier import Classifier
from cnnpool.fit.record import Record
from cnnpool.run_folder.checkpoint import keep, load, save
from cnnpool.run_folder.errors import DivergedError
from cnnpool.run_folder.layout import BEST, CHECKPOINTS, LAST, PREVIOUS, refuse_lost
from cnnpool.system.load import Stopwatch
from cnnpool.system.signals import Signals, Stopped

# Saving short epochs one by one, each flushed to the disk, took a quarter of the time of small trainings.
SHORTEST_S = 1.0


class SafeCheckpointIO(TorchCheckpointIO):
    """Saves atomically beside the file and compares checksums, which Lightning's own does not."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        save(Path(path), checkpoint)

    def load_checkpoint(
        self, path: Any, map_location: Any = None, weights_only: Any = None
    ) -> dict[str, Any]:
        content: dict[str, Any] = load(Path(path), map_location)
        return content


class Checkpoints(Checkpoint):
    """``last.ckpt`` to resume from, ``previous.ckpt`` before it, ``best.ckpt`` for its weights.

    Weights that are not finite are never written. As a ``Checkpoint`` of Lightning it runs after all other
    callbacks, so that a checkpoint includes their decisions, such as an early stop. ``record`` is None in all
    processes but the first. Its state is what the run's final record needs after a restart.
    """

    def __init__(self, out: Path, name: str, record: Record | None, signals: Signals):
        self.out, self.name = out, name
        self.folder = out / CHECKPOINTS
        self.record = record
        self.signals = signals
        self.best = -1.0
        self.stopped = self.asked = False  # Ended before its last epoch; asked to, after ``min_epochs``
        self.images = 0
        self.training = Stopwatch()
        self.begun, self.saved_time = time.perf_counter(), time.monotonic()
        self._steps = 0

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        assert isinstance(module, Classifier)
        # Lightning has just installed its own SIGTERM handler.
        self.signals.install()
        self.signals.patient = True
        self.training.processes = trainer.world_size
        # A run that resumes within an epoch gets no epoch start.
        self.training.start()
        self._steps = module.steps
        # Lightning forgets in a new process that a callback has asked for the end.
        trainer.should_stop |= self.asked

    def on_train_epoch_start(self, trainer: Trainer, module: LightningModule) -> None:
        self.training.start()

    def on_train_end(self, trainer: Trainer, module: LightningModule) -> None:
        self.signals.patient = False

    def on_train_batch_end(
        self, trainer: Trainer, module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        assert isinstance(module, Classifier)
        self.images += len(batch[0]) * trainer.world_size
        stepped, self._steps = module.steps != self._steps, module.steps
        # The last step is saved at its epoch's end, after probes and validation, which are not timed.
        if batch_idx + 1 >= trainer.num_training_batches or _ends(trainer, trainer.current_epoch):
            self.training.stop()
            return
        # The gradients of a part of a batch are not saved.
        if not stepped:
            return
        due, signum = self._agree(trainer, self._unsaved_s >= self._interval_s(module))
        if due:
            self._save(trainer, module)
        self._stop(module, signum)

    def on_train_epoch_end(self, trainer: Trainer, module: LightningModule) -> None:
        assert isinstance(module, Classifier)
        self.stopped = _ends(trainer, trainer.current_epoch + 1)
        # An epoch that is not validated is never the best, unless none is: then the last one.
        accuracy = module.latest.get("val", {"accuracy": -1.0})["accuracy"]
        last = self.stopped or trainer.current_epoch + 1 == trainer.max_epochs
        rested = self._unsaved_s >= min(SHORTEST_S, self._interval_s(module))
        due, signum = self._agree(trainer, last or rested)
        better = accuracy > self.best if trainer.enable_validation else due
        if better or (last and self.best < 0):
            self.best = accuracy
            self._check(module)
            trainer.save_checkpoint(self.folder / BEST, weights_only=True)
        if due:
            self._save(trainer, module)
        self._stop(module, signum)

    def state_dict(self) -> dict[str, Any]:
        self.training.lap()
        return {
            "best": self.best,
            "stopped": self.stopped,
            "asked": self.asked,
            "images": self.images,
            "seconds": self.training.seconds,
            "taken": self.training.taken,
            "wall_s": time.perf_counter() - self.begun,
            "metrics_bytes": self.record.sync() if self.record else 0,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.best, self.stopped, self.images = state["best"], state["stopped"], state["images"]
        self.asked = state.get("asked", False)
        self.training.seconds, self.training.taken = state["seconds"], state["taken"]
        self.begun -= state["wall_s"]

    @property
    def cost(self) -> dict[str, float | None]:
        """Speed and time of the training so far, as in results.json."""
        seconds = self.training.seconds
        return {
            "train_images_per_s": self.images / seconds if seconds else None,
            "wall_s": time.perf_counter() - self.begun,
            "load": self.training.load,
        }

    @property
    def _unsaved_s(self) -> float:
        return time.monotonic() - self.saved_time

    @staticmethod
    def _interval_s(module: Classifier) -> float:
        return 60 * module.recipe.checkpoint_every_minutes

    def _save(self, trainer: Trainer, module: Classifier) -> None:
        self._check(module)
        self.asked = trainer.should_stop
        if trainer.is_global_zero:
            keep(self.folder / LAST, self.folder / PREVIOUS)
        trainer.save_checkpoint(self.folder / LAST, weights_only=False)
        module.saved_steps, self.saved_time = module.steps, time.monotonic()

    def _check(self, module: Classifier) -> None:
        if module.global_rank == 0:
            refuse_lost(self.out, self.name)
        # One reduction over all tensors: reading each would synchronise with a GPU.
        if not torch.stack([value.isfinite().all() for value in module.state_dict().values()]).all():
            raise DivergedError(
                f"a weight or statistic became nan or infinite by step {module.steps}: lower fit.lr; "
                f"the last checkpoint is of step {module.saved_steps}"
            )

    def _stop(self, module: Classifier, signum: int) -> None:
        if signum:
            raise Stopped(signum, f"stopped by {Stopped(signum).name} at step {module.saved_steps}")

    def _agree(self, trainer: Trainer, due: bool) -> tuple[bool, int]:
        """Whether to save, for any process or because of a signal, and the signal (0: none)."""
        signum = self.signals.pending or 0
        if trainer.world_size > 1:
            votes = torch.tensor([int(due), signum], device=trainer.strategy.root_device)
            due, signum = trainer.strategy.reduce(votes, reduce_op="max").tolist()
        return bool(due or signum), signum


def _ends(trainer: Trainer, completed: int) -> bool:
    """Whether the training ends before its last epoch, now that this many epochs are complete."""
    return trainer.should_stop and completed >= (trainer.min_epochs or 0)
