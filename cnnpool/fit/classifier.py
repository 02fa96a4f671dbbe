"""A network in training as a LightningModule: loss, optimiser, rates, scores, prediction."""

import logging
import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import torch
from lightning.pytorch import LightningModule
from lightning.pytorch.trainer.states import TrainerFn
from lightning.pytorch.utilities.types import OptimizerLRScheduler
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim.lr_scheduler import LambdaLR
from torchmetrics import Metric

from cnnpool import network
from cnnpool.data.draws import seed_of
from cnnpool.fit import optimizers
from cnnpool.fit.datamodule import Images
from cnnpool.fit.optimizers import Level, frozen_norms, is_uniform, plan
from cnnpool.fit.scores import collected, epochs_header, epochs_row, gathered, score
from cnnpool.fit.single_image import Pictures, Prediction, are_several, single_image
from cnnpool.model import Cnn
from cnnpool.recipe import Recipe
from cnnpool.run_folder.checkpoint import load, refuse_class
from cnnpool.run_folder.errors import DivergedError

log = logging.getLogger(__name__)


class Classifier(LightningModule):
    """Map normalised images (N, C, H, W) to logits (N, classes), and define how the network is trained.

    With any ``Trainer`` it trains as ``cnnpool train`` does. A subclass may override ``loss``, ``metrics``,
    ``training_step`` and ``configure_optimizers``. All arguments but ``model`` are plain names and
    numbers in its checkpoints, so ``load_from_checkpoint(path)`` needs nothing else.

    Args:
        network: ``model``, ``stages`` and ``readout`` as a run records them; None if ``model`` is given.
        data: ``in_channels``, ``size`` (H, W), ``classes``, ``mean`` and ``std`` of the images, their
            ``white`` if they are grey of more than 8 bits, and ``max_megapixels`` if they were files.
        fit: options of :class:`cnnpool.recipe.Recipe`.
        seed: with epoch, step and process it fixes every draw of stochastic operators and dropout.
        model: the network itself, (N, C, H, W) to (N, classes); None to build it from ``network``.

    Raises:
        ValueError: if neither ``network`` nor ``model`` is given, or an option is out of range.
    """

    def __init__(
        self,
        network: Mapping[str, Any] | None = None,
        data: Mapping[str, Any] | None = None,
        fit: Mapping[str, Any] | None = None,
        seed: int = 0,
        *,
        model: nn.Module | None = None,
    ):
        super().__init__()
        self.save_hyperparameters("network", "data", "fit", "seed", logger=False)
        if model is None:
            model = _rebuilt(network, data, seed)
        self.model = model
        self.data = data
        self.recipe = Recipe(**(fit or {}))
        self.seed = seed
        self.levels = [] if is_uniform(self.recipe) else _levels(model, self.recipe, data)
        frozen = frozen_norms(self.levels, self.recipe)
        # By name: ``sync_batchnorm`` replaces the modules.
        self.frozen = [name for name, module in model.named_modules() if module in frozen]
        if self.recipe.channels_last:
            self.model.to(memory_format=torch.channels_last)
        self.header: dict[str, Any] = {}  # Further entries of the checkpoints, in plain JSON
        self.steps = self.saved_steps = self._planned = 0
        self.latest: dict[str, dict[str, float]] = {}  # Loss and accuracy of the last epoch, by split
        self.correct: Tensor | None = None  # Correctly classified test images, (N,) of bool
        self._is_validated = self._is_scored = False
        # By split; their states are no part of the weights.
        self.val_scores, self.test_scores = (collected(self.metrics()) for _ in range(2))
        self._headed: list[str] = []
        self._sums: dict[str, Tensor] = {}
        self._correct: list[Tensor] = []
        self._begun = time.perf_counter()

    @classmethod
    def load_from_checkpoint(  # type: ignore[override]
        cls,
        checkpoint_path: str | Path,
        map_location: Any = "cpu",
        *,
        model: nn.Module | None = None,
        **unused: Any,
    ) -> Self:
        """Load a classifier in evaluation mode; compares checksums and executes no code in the file.

        ``model`` is the network, if it was given to the constructor; further arguments are ignored.

        Raises:
            DamagedError: if the file is missing, damaged, or not plain weights.
            ValueError: if it is from an earlier version, or of a custom module and ``model`` is missing.
        """
        content = load(Path(checkpoint_path), map_location)
        refuse_class(content, cls.__name__, checkpoint_path)
        if not isinstance(content, dict) or "hyper_parameters" not in content:
            raise ValueError(
                f"{checkpoint_path} does not record its network: it was written before version 0.3.0"
            )
        made = cls(**content["hyper_parameters"], model=model)
        made.load_state_dict(content["state_dict"])
        made.steps = made.saved_steps = content.get("cnnpool", {}).get("steps", 0)
        # Where ``map_location``, which may be a mapping or a function, put the weights.
        tensors = (one for one in content["state_dict"].values() if isinstance(one, Tensor))
        device = next((one.device for one in tensors), None)
        return made.to(device).eval()

    def forward(self, images: Tensor) -> Tensor:
        """Logits (N, classes)."""
        logits: Tensor = self.model(images)
        return logits

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Mean loss: cross-entropy, in training with the recipe's label smoothing.

        ``labels`` are (N,) integers, or shares of classes (N, classes) with mixup and CutMix.
        """
        smoothing = self.recipe.label_smoothing if self.training else 0.0
        return F.cross_entropy(logits, labels, label_smoothing=smoothing)

    def metrics(self) -> Mapping[str, Metric]:
        """Metrics of torchmetrics by name, updated by (logits, labels) of validation and test images."""
        return {}

    def configure_optimizers(self) -> OptimizerLRScheduler:
        clipped = bool(self.trainer.gradient_clip_val)
        optimizer = optimizers.build(self.recipe, self.model.parameters(), self.levels, clipped=clipped)
        rates = LambdaLR(optimizer, self._share_of_rate)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": rates, "interval": "step"}}

    def train(self, mode: bool = True) -> Self:
        """Set training mode, except for batch normalisations that keep their statistics."""
        super().train(mode)
        for name in self.frozen:
            self.model.get_submodule(name).eval()
        return self

    def on_train_start(self) -> None:
        # A Trainer that resumes has taken steps, and those of an earlier Trainer are not of this training.
        self.steps = self.saved_steps = self.trainer.global_step
        if self.recipe.recalibrate and not self.steps:
            # Imported late: few trainings need it.
            from cnnpool.surgery.statistics import recalibrate

            batches: Any = self.trainer.train_dataloader
            recalibrate(self.model, batches)
        # No Trainer calls ``train``, which keeps frozen statistics frozen.
        self.train()
        if any(config.reduce_on_plateau for config in self.trainer.lr_scheduler_configs):
            raise ValueError("a plateau scheduler cannot resume exactly: use one that counts steps")
        if not self.automatic_optimization:
            raise ValueError("automatic_optimization=False: a run counts the steps that Lightning takes")
        # A checkpoint is loaded before the model is moved.
        self._sums = {split: sums.to(self.device) for split, sums in self._sums.items()}

    def on_train_epoch_start(self) -> None:
        self._begun = time.perf_counter()

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        self._is_scored = False
        # Draws depend on the step and process alone, so a resumed run repeats them.
        seed = seed_of(self.seed, self.current_epoch, batch_idx, self.global_rank)
        # torch.manual_seed also seeds absent backends, which takes half a millisecond per step.
        torch.default_generator.manual_seed(seed)
        if self.device.type == "cuda":
            torch.cuda.manual_seed(seed)

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        images, labels = batch
        logits = self(images)
        loss = self.loss(logits, labels)
        if loss.numel() != 1:
            kind, shape = type(self).__name__, tuple(loss.shape)
            raise ValueError(f"{kind}.loss must return one number, such as the mean over images, got {shape}")
        if loss.device.type == "cpu" and not loss.isfinite():
            raise self._diverged(loss.item(), batch_idx)
        self._add("step", loss, logits, labels)
        self._is_scored = True
        return loss

    def backward(self, loss: Tensor, *rest: Any, **more: Any) -> None:
        if not self._is_scored:
            # A subclass's own training step: only its loss is known, of an unknown number of images.
            scaler = getattr(self.trainer.precision_plugin, "scaler", None)
            scale = scaler.get_scale() if scaler else 1.0
            whole = loss.detach().double() * self.trainer.accumulate_grad_batches / scale
            self._sum("step", torch.stack((whole, whole.new_tensor(math.nan), whole.new_ones(()))))
        super().backward(loss, *rest, **more)

    def optimizer_step(self, epoch: int, batch_idx: int, *rest: Any, **more: Any) -> None:
        # Called once per batch, after all of its parts: count and record a step here.
        super().optimizer_step(epoch, batch_idx, *rest, **more)
        self.steps += 1
        step = self._sums.pop("step")
        self._sums["train"] = self._sums["train"] + step if "train" in self._sums else step
        if self.steps % self.recipe.log_interval(self.total_steps) == 0:
            loss = self._mean(step)["loss"]
            if not math.isfinite(loss):
                raise self._diverged(loss, batch_idx)
            self._record({"train/loss": loss, "train/learning_rate": self._rate}, self.current_epoch)
        if self.recipe.max_steps and self.steps >= self.recipe.max_steps:
            self.trainer.should_stop = True
            epoch, epochs = self.current_epoch + 1, self.trainer.max_epochs
            log.info("fit.max_steps=%d ends the training in epoch %d of %s", self.steps, epoch, epochs)

    def validation_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        self._evaluate("val", batch)

    def test_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        self._correct.append(self._evaluate("test", batch).argmax(1) == batch[1])

    def predict_step(self, batch: Any, batch_idx: int = 0, dataloader_idx: int = 0) -> Tensor:
        """Probabilities (N, classes) for images, or for the images of a batch (images, labels)."""
        images = batch[0] if isinstance(batch, list | tuple) else batch
        return self.forward(images).softmax(1)

    def on_validation_epoch_end(self) -> None:
        # A training that resumes after its validation may have run none.
        if "val" in self._sums:
            self.latest["val"] = self._take("val") | self._measured("val")
            self._is_validated = not self.trainer.sanity_checking
            values = {f"val/{key}": value for key, value in self.latest["val"].items()}
            # During training they are recorded with the other scores, at the end of the epoch.
            self.log_dict(values, logger=self.trainer.state.fn != TrainerFn.FITTING)

    def on_train_epoch_end(self) -> None:
        new = {"train": self._take("train")}
        epoch = self.current_epoch + 1
        # Not the scores of an earlier epoch, if a training does not validate in every epoch.
        if self._is_validated:
            new["val"] = self.latest["val"]
        self.latest, self._is_validated = new, False
        values = {f"{split}/{key}": v for split, score in new.items() for key, v in score.items()}
        # For callbacks; they are recorded below.
        self.log_dict({key: v for key, v in values.items() if key.startswith("train/")}, logger=False)
        # train/loss is the loss of single steps; this is the mean of the epoch.
        values["epoch/train_loss"] = values.pop("train/loss")
        self._record(values, epoch)
        self._tell(epoch, new)

    def on_test_epoch_end(self) -> None:
        self.latest["test"] = self._take("test") | self._measured("test")
        self.correct = gathered(torch.cat(self._correct), self.trainer)
        self._correct.clear()
        self.log_dict({f"test/{key}": value for key, value in self.latest["test"].items()})

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        # The sums of an interrupted epoch, which its record still needs.
        sums = self._sums.get("train", torch.zeros(3, dtype=torch.float64, device=self.device))
        checkpoint["cnnpool"] = {
            **self.header,
            "steps": self.steps,
            "total_steps": self._planned,
            "seed": self.seed,
            "latest": self.latest,
            "training_sums": self.trainer.strategy.reduce(sums.clone(), reduce_op="sum").cpu(),
        }

    def restore(self, checkpoint: dict[str, Any]) -> None:
        """Restore the weights and scores of a run that has taken its last step."""
        self.load_state_dict(checkpoint["state_dict"])
        self.on_load_checkpoint(checkpoint)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.steps = self.saved_steps = checkpoint["cnnpool"]["steps"]
        self.latest = checkpoint["cnnpool"]["latest"]
        sums = checkpoint["cnnpool"]["training_sums"]
        if self.global_rank == 0 and sums[2]:
            self._sums["train"] = sums

    def predict(self, images: Pictures) -> Prediction | list[Prediction]:
        """The class of one image, or of each of several.

        One is a file, a PIL image, an array (H, W) or (H, W, C), or a tensor (C, H, W), of uint8 or of 0 to
        1, not normalised; several are a list, an array (N, H, W, C) or a tensor (N, C, H, W). A ValueError if
        the classifier has no ``data``, an image cannot be read, or it has other channels.
        """
        if self.data is None:
            raise ValueError("this classifier does not know how its images are normalised: give data=")
        several: list[Any] = [*images] if are_several(images) else [images]  # type: ignore[misc]
        if not several:
            return []
        device = next(self.model.parameters()).device
        pixels = torch.stack([single_image(image, self.data) for image in several]).to(device)
        was_training = self.training
        try:
            with torch.no_grad():
                shares, places = self.eval()(pixels).softmax(1).max(1)
        finally:
            self.train(was_training)
        names = [str(self.data["classes"][place]) for place in places.tolist()]
        found = [Prediction(*one) for one in zip(names, shares.tolist(), strict=True)]
        return found if are_several(images) else found[0]

    def setup(self, stage: str) -> None:
        self._planned = 0

    @property
    def records_at(self) -> tuple[int, int]:
        """The step and epoch, counted from 1, at which values of the end of an epoch are recorded."""
        return self.steps, self.current_epoch + 1

    @property
    def total_steps(self) -> int:
        """Optimiser steps of the whole training, known once a Trainer fits."""
        self._planned = self._planned or self._planned_steps()
        return self._planned

    def _planned_steps(self) -> int:
        trainer = self.trainer
        if isinstance(getattr(trainer, "datamodule", None), Images):
            # Lightning's own count would set up the loader before its position is restored.
            limits = [(trainer.max_epochs or 1) * self.steps_of_epoch, trainer.max_steps]
            steps = min((limit for limit in limits if limit > 0), default=math.inf)
        else:
            steps = trainer.estimated_stepping_batches
        steps = min(steps, self.recipe.max_steps or steps)
        if steps == math.inf:
            raise ValueError("the schedule of rates needs an end: give the Trainer max_epochs or max_steps")
        return int(steps)

    @property
    def steps_of_epoch(self) -> int:
        """Steps of an epoch of the Trainer on its ``Images``."""
        trainer, images = self.trainer, self.trainer.datamodule  # type: ignore[attr-defined]
        batches, limit = images.batches_of_epoch, trainer.limit_train_batches
        batches = min(batches, limit) if isinstance(limit, int) else int(batches * limit)
        return math.ceil(batches / trainer.accumulate_grad_batches)

    @property
    def _rate(self) -> float:
        """The learning rate of the latest step."""
        if type(self).configure_optimizers is Classifier.configure_optimizers:
            return self.recipe.learning_rate(self.steps - 1, self.total_steps)
        return float(self.trainer.optimizers[0].param_groups[0]["lr"])

    def _share_of_rate(self, step: int) -> float:
        return self.recipe.learning_rate(min(step, self.total_steps - 1), self.total_steps) / self.recipe.lr

    def _evaluate(self, split: str, batch: tuple[Tensor, Tensor]) -> Tensor:
        images, labels = batch
        logits = self.forward(images)
        self._add(split, self.loss(logits, labels), logits, labels)
        (self.val_scores if split == "val" else self.test_scores).update(logits, labels)
        return logits

    def _measured(self, split: str) -> dict[str, float]:
        """The subclass's metrics over the images so far, over all devices; resets them."""
        metrics = self.val_scores if split == "val" else self.test_scores
        found = metrics.compute()
        metrics.reset()
        if large := [name for name, value in found.items() if value.numel() != 1]:
            raise ValueError(f"the metric {large[0]} must be one number, got {tuple(found[large[0]].shape)}")
        return {name: float(value) for name, value in found.items()}

    def _add(self, split: str, loss: Tensor, logits: Tensor, labels: Tensor) -> None:
        self._sum(split, score(loss.detach() * len(labels), logits, labels))

    def _sum(self, split: str, new: Tensor) -> None:
        self._sums[split] = self._sums[split] + new if split in self._sums else new

    def _take(self, split: str) -> dict[str, float]:
        """Mean loss and accuracy over the images so far, over all devices; resets the sums."""
        found = self._mean(self._sums.pop(split))
        if not math.isfinite(found["loss"]):
            remedy = "lower fit.lr" + ", or mend the network" * (self.steps < 2)
            raise DivergedError(f"the loss became {found['loss']} before step {self.steps}: {remedy}")
        return found

    def _mean(self, sums: Tensor) -> dict[str, float]:
        loss, correct, count = self.trainer.strategy.reduce(sums.clone(), reduce_op="sum").tolist()
        found = {"loss": loss / count, "accuracy": correct / count}
        # Of a subclass's own training step the accuracy is not known.
        return {key: value for key, value in found.items() if key == "loss" or not math.isnan(value)}

    def _record(self, values: Mapping[str, float], epoch: int) -> None:
        for logger in self.loggers:
            logger.log_metrics({**values, "epoch": epoch}, self.steps)

    def _tell(self, epoch: int, scores: Mapping[str, Mapping[str, float]]) -> None:
        splits: list[str] = [split for split in ("train", "val") if split in scores or split in self._headed]
        if splits != self._headed:
            self._headed = splits
            ways = type(self).training_step, type(self).loss
            if ways == (Classifier.training_step, Classifier.loss) and (share := self.recipe.label_smoothing):
                log.info("the train loss includes fit.label_smoothing=%g, the others do not", share)
            log.info("%s", epochs_header(splits))
        seconds = time.perf_counter() - self._begun
        log.info("%s", epochs_row(f"{epoch}/{self.trainer.max_epochs}", splits, scores, seconds))

    def _diverged(self, loss: float, batch_idx: int) -> DivergedError:
        rate = self.recipe.learning_rate(self.steps, max(self.total_steps, self.steps + 1))
        return DivergedError(
            f"the loss became {loss} at epoch {self.current_epoch}, step {self.steps} (batch {batch_idx} of "
            f"the epoch, learning rate {rate:.3g}): lower fit.lr, or lengthen fit.warmup; "
            f"the last checkpoint is of step {self.saved_steps}"
        )


def _rebuilt(made: Mapping[str, Any] | None, data: Mapping[str, Any] | None, seed: int) -> nn.Module:
    if made is None or data is None:
        raise ValueError("this classifier was made from a module object: pass that as model=")
    images = network.Images(data["in_channels"], tuple(data["size"]), len(data["classes"]))
    return network.rebuild(made["model"], made["stages"], made["readout"], images, seed=seed)


def _levels(model: nn.Module, recipe: Recipe, data: Mapping[str, Any] | None) -> list[Level]:
    if data is None or not isinstance(model, Cnn):
        raise ValueError("rates by layer and frozen layers need a network of cnnpool and data=")
    return plan(model, recipe, torch.zeros(1, data["in_channels"], *data["size"]))
