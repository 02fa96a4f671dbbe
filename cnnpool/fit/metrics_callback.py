"""The record of a training: scalars, a line per epoch, readings of the probes."""

import logging
import math
import time
from collections.abc import Mapping
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from cnnpool.fit.metrics_writer import MetricsWriter
from cnnpool.fit.module import Net
from cnnpool.probe import Batch, Probe, declared
from cnnpool.probe.tags import scalars
from cnnpool.system.load import Stopwatch

log = logging.getLogger(__name__)


class MetricsCallback(Callback):
    """Scalars of every epoch into the writer, one line per epoch into the log, and the epochs' probes.

    Its state, in the checkpoint, carries what the closing record needs over a restart.

    Args:
        writer: where scalars go; None in all processes but the first.
        probes: by name; those with ``every_epochs`` are read during training.
        batch: the images that these look at.
    """

    def __init__(self, writer: MetricsWriter | None, probes: Mapping[str, Probe], batch: Batch):
        self.writer = writer
        self.probes = probes
        self.batch = batch
        self.latest: dict[str, dict[str, float]] = {}
        self.images = 0
        self.training = Stopwatch()
        self.begun = self._started = time.perf_counter()

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        self.training.processes = trainer.world_size
        # A run that goes on within an epoch is told of no epoch's start.
        self._start()

    def on_train_epoch_start(self, trainer: Trainer, module: LightningModule) -> None:
        self._start()

    def on_train_batch_end(
        self, trainer: Trainer, module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        assert isinstance(module, Net)
        self.images += len(batch[0]) * trainer.world_size
        if module.steps % module.recipe.log_interval(module.total_steps) == 0:
            sums = trainer.strategy.reduce(module.training_sums[-1].clone(), reduce_op="sum")
            loss, _, count = sums.tolist()
            if not math.isfinite(loss):
                raise module.diverged(loss, batch_idx)
            rate = module.recipe.learning_rate(module.steps - 1, module.total_steps)
            values = {"train/loss": loss / count, "train/learning_rate": rate}
            if self.writer:
                self.writer.scalars(module.steps, trainer.current_epoch, values)

    def on_validation_start(self, trainer: Trainer, module: LightningModule) -> None:
        self.training.stop()

    def on_train_epoch_end(self, trainer: Trainer, module: LightningModule) -> None:
        assert isinstance(module, Net)
        self.training.stop()
        epoch = trainer.current_epoch + 1
        self.latest = {"train": module.take(module.training_sums)}
        if module.evaluation_sums:
            self.latest["val"] = module.take(module.evaluation_sums)
        values = {f"{split}/{key}": v for split, score in self.latest.items() for key, v in score.items()}
        # train/loss is the loss of single steps; this is the mean of the epoch.
        values["epoch/train_loss"] = values.pop("train/loss")
        if self.writer:
            for probe in self.probes.values():
                if probe.every_epochs and epoch % probe.every_epochs == 0:
                    result = probe.measure(module.model, module.model.stages, *self.batch)
                    values |= scalars(declared([probe]), {probe.section: result})
            self.writer.scalars(module.steps, epoch, values)
        scores = "   ".join(
            f"{split} loss {score['loss']:.4f} accuracy {100 * score['accuracy']:.2f} %"
            for split, score in self.latest.items()
        )
        log.info("epoch %d/%d   %s   %.1f s", epoch, trainer.max_epochs, scores, self._elapsed())

    def state_dict(self) -> dict[str, Any]:
        self.training.lap()
        return {
            "latest": self.latest,
            "images": self.images,
            "seconds": self.training.seconds,
            "taken": self.training.taken,
            "wall_s": time.perf_counter() - self.begun,
            "metrics_bytes": self.writer.sync() if self.writer else 0,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.latest, self.images = state["latest"], state["images"]
        # Older checkpoints do not have the load.
        self.training.restore(state["seconds"], state.get("taken"))
        self.begun -= state["wall_s"]

    def _start(self) -> None:
        self._started = time.perf_counter()
        self.training.start()

    def _elapsed(self) -> float:
        return time.perf_counter() - self._started
