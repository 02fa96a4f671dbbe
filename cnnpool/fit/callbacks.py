"""What happens around the training steps: records, readings of the probes, checkpoints."""

import logging
import math
import time
from collections.abc import Mapping
from pathlib import Path

from lightning.pytorch import Callback, Trainer
from torch import Tensor

from cnnpool.fit.journal import Journal
from cnnpool.fit.module import Net
from cnnpool.probe import Probe
from cnnpool.probe.tags import scalars

log = logging.getLogger(__name__)


class Chronicle(Callback):
    """Scalars of every epoch into the journal, one line per epoch into the log, and the epochs' probes.

    Args:
        journal: where scalars go.
        probes: by name; those with ``every_epochs`` are read during training.
        batch: (images, labels) of the probe batch.
    """

    def __init__(self, journal: Journal, probes: Mapping[str, Probe], batch: tuple[Tensor, Tensor]):
        self.journal = journal
        self.probes = probes
        self.batch = batch
        self.latest: dict[str, dict[str, float]] = {}
        self.images = 0
        self.seconds = 0.0

    def on_train_epoch_start(self, trainer: Trainer, module: Net) -> None:
        self._started = time.perf_counter()

    def on_train_batch_end(self, trainer: Trainer, module: Net, outputs, batch, batch_idx: int) -> None:
        self.images += len(batch[0]) * trainer.world_size
        if module.steps % module.recipe.log_every_steps == 0 and trainer.is_global_zero:
            loss, _, count = module.training_sums[-1].tolist()
            rate = module.recipe.learning_rate(module.steps - 1, module.total_steps)
            values = {"train/loss": loss / count, "train/learning_rate": rate}
            self.journal.scalars(module.steps, trainer.current_epoch, values)

    def on_validation_start(self, trainer: Trainer, module: Net) -> None:
        self._trained()

    def on_train_epoch_end(self, trainer: Trainer, module: Net) -> None:
        if not module.evaluation_sums:
            self._trained()
        epoch = trainer.current_epoch + 1
        self.latest = {"train": module.take(module.training_sums)}
        if module.evaluation_sums:
            self.latest["val"] = module.take(module.evaluation_sums)
        values = {f"{split}/{key}": v for split, score in self.latest.items() for key, v in score.items()}
        # train/loss is the loss of single steps; this is the mean of the epoch.
        values["epoch/train_loss"] = values.pop("train/loss")
        if trainer.is_global_zero:
            for probe in self.probes.values():
                if probe.every_epochs and epoch % probe.every_epochs == 0:
                    result = probe.measure(module.model, module.model.stages, *self.batch)
                    values |= scalars(probe.section, result)
            self.journal.scalars(module.steps, epoch, values)
            self.journal.sync()
        scores = "   ".join(
            f"{split} loss {score['loss']:.4f} accuracy {100 * score['accuracy']:.2f} %"
            for split, score in self.latest.items()
        )
        log.info("epoch %d/%d   %s   %.1f s", epoch, trainer.max_epochs, scores, self._elapsed())

    def _trained(self) -> None:
        self.seconds += self._elapsed()

    def _elapsed(self) -> float:
        return time.perf_counter() - self._started


class Checkpoints(Callback):
    """``last.ckpt`` after every epoch, ``best.ckpt`` after those with the best validation accuracy so far.

    Args:
        folder: of the checkpoints.
        chronicle: knows the latest validation accuracy; stands before this callback.
    """

    def __init__(self, folder: Path, chronicle: Chronicle):
        self.folder = folder
        self.chronicle = chronicle
        self.best = -1.0

    def on_train_epoch_end(self, trainer: Trainer, module: Net) -> None:
        # Without a validation split there is nothing to be best at but the last epoch.
        accuracy = self.chronicle.latest.get("val", {"accuracy": math.inf})["accuracy"]
        if accuracy > self.best or accuracy == math.inf:
            self.best = accuracy
            trainer.save_checkpoint(self.folder / "best.ckpt", weights_only=True)
        trainer.save_checkpoint(self.folder / "last.ckpt", weights_only=False)

    def state_dict(self) -> dict[str, float]:
        return {"best": self.best}

    def load_state_dict(self, state: dict[str, float]) -> None:
        self.best = state["best"]
