"""A network in training as a LightningModule: loss, optimiser, rates, scores, prediction."""

import logging
import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

import torch
from lightning.pytorch import LightningModule
from lightning.pytorch.trainer.states import TrainerFn
from lightning.pytorch.utilities.types import OptimizerLRScheduler
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim.lr_scheduler import LambdaLR

from cnnpool import network
from cnnpool.data.augment import centre
from cnnpool.data.draws import seed_of
from cnnpool.fit import optimizers
from cnnpool.fit.datamodule import Images
from cnnpool.fit.optimizers import Level, frozen_norms, is_uniform, plan
from cnnpool.fit.scores import epochs_header, epochs_row
from cnnpool.model import Cnn
from cnnpool.recipe import Recipe
from cnnpool.run_folder.checkpoint import load

log = logging.getLogger(__name__)


class DivergedError(RuntimeError):
    """The loss is not finite."""


class Prediction(NamedTuple):
    """The most probable class of an image, and its probability, 0..1."""

    name: str
    probability: float


class Classifier(LightningModule):
    """Map normalised images (N, C, H, W) to logits (N, classes), and define how the network is trained.

    With any ``Trainer`` it trains as ``cnnpool train`` does. All arguments but ``model`` are plain names and
    numbers in its checkpoints, so ``load_from_checkpoint(path)`` needs nothing else.

    Args:
        network: ``model``, ``stages`` and ``readout`` as a run records them; None if ``model`` is given.
        data: ``in_channels``, ``size`` (H, W), ``classes``, ``mean`` and ``std`` of the images, and their
            ``white`` if they are grey of more than 8 bits.
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
        self.steps = self.saved_steps = self.total_steps = 0
        self.latest: dict[str, dict[str, float]] = {}  # Loss and accuracy of the last epoch, by split
        self.correct: Tensor | None = None  # Correctly classified test images, (N,) of bool
        self._is_validated = False
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
        if not isinstance(content, dict) or "hyper_parameters" not in content:
            raise ValueError(
                f"{checkpoint_path} does not record its network: it was written before version 0.3.0"
            )
        made = cls(**content["hyper_parameters"], model=model)
        made.load_state_dict(content["state_dict"])
        made.steps = made.saved_steps = content.get("cnnpool", {}).get("steps", 0)
        return made.to(map_location).eval()

    def forward(self, images: Tensor) -> Tensor:
        """Logits (N, classes)."""
        logits: Tensor = self.model(images)
        return logits

    def configure_optimizers(self) -> OptimizerLRScheduler:
        self.total_steps = self._planned_steps()
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
        # No Trainer calls ``train``, which keeps frozen statistics frozen.
        self.train()
        # A checkpoint is loaded before the model is moved.
        self._sums = {split: sums.to(self.device) for split, sums in self._sums.items()}

    def on_train_epoch_start(self) -> None:
        self._begun = time.perf_counter()

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        # Draws depend on the step and process alone, so a resumed run repeats them.
        seed = seed_of(self.seed, self.current_epoch, batch_idx, self.global_rank)
        # torch.manual_seed also seeds absent backends, which takes half a millisecond per step.
        torch.default_generator.manual_seed(seed)
        if self.device.type == "cuda":
            torch.cuda.manual_seed(seed)

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        images, labels = batch
        logits = self(images)
        loss = F.cross_entropy(logits, labels, label_smoothing=self.recipe.label_smoothing)
        if loss.device.type == "cpu" and not loss.isfinite():
            raise self._diverged(loss.item(), batch_idx)
        self._add("step", loss, logits, labels)
        return loss

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
            rate = self.recipe.learning_rate(self.steps - 1, self.total_steps)
            self._record({"train/loss": loss, "train/learning_rate": rate}, self.current_epoch)
        if self.recipe.max_steps and self.steps >= self.recipe.max_steps:
            self.trainer.should_stop = True
            epoch, epochs = self.current_epoch + 1, self.trainer.max_epochs
            log.info("fit.max_steps=%d ends the training in epoch %d of %s", self.steps, epoch, epochs)

    def validation_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        self._evaluate("val", batch)

    def test_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        self._correct.append(self._evaluate("test", batch).argmax(1) == batch[1])

    def predict_step(self, batch: Any, batch_idx: int = 0) -> Tensor:
        """Probabilities (N, classes) for images, or for the images of a batch (images, labels)."""
        images = batch[0] if isinstance(batch, list | tuple) else batch
        return self.forward(images).softmax(1)

    def on_validation_epoch_end(self) -> None:
        # A training that resumes after its validation may have run none.
        if "val" in self._sums:
            self.latest["val"], self._is_validated = self._take("val"), not self.trainer.sanity_checking
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
        self.latest["test"] = self._take("test")
        self.correct = self._gathered()
        self.log_dict({f"test/{key}": value for key, value in self.latest["test"].items()})

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        # The sums of an interrupted epoch, which its record still needs.
        sums = self._sums.get("train", torch.zeros(3, dtype=torch.float64, device=self.device))
        checkpoint["cnnpool"] = {
            **self.header,
            "steps": self.steps,
            "total_steps": self.total_steps,
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

    def predict(self, image: str | Path | Tensor) -> Prediction:
        """The class of one image: a file, or values of 0 to 1, (C, H, W), not normalised.

        A ValueError if the classifier has no ``data``, or the image has other channels.
        """
        if self.data is None:
            raise ValueError("this classifier does not know how its images are normalised: give data=")
        device = next(self.model.parameters()).device
        pixels = _read(image, self.data).to(device)
        was_training = self.training
        try:
            with torch.no_grad():
                shares = self.eval()(pixels[None]).softmax(1)[0]
        finally:
            self.train(was_training)
        probability, place = shares.max(0)
        return Prediction(str(self.data["classes"][int(place)]), float(probability))

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

    def _share_of_rate(self, step: int) -> float:
        return self.recipe.learning_rate(min(step, self.total_steps - 1), self.total_steps) / self.recipe.lr

    def _evaluate(self, split: str, batch: tuple[Tensor, Tensor]) -> Tensor:
        images, labels = batch
        logits = self.forward(images)
        self._add(split, F.cross_entropy(logits, labels), logits, labels)
        return logits

    def _add(self, split: str, loss: Tensor, logits: Tensor, labels: Tensor) -> None:
        new = score(loss.detach() * len(labels), logits, labels)
        self._sums[split] = self._sums[split] + new if split in self._sums else new

    def _take(self, split: str) -> dict[str, float]:
        """Mean loss and accuracy over the images so far, over all devices; resets the sums."""
        found = self._mean(self._sums.pop(split))
        if not math.isfinite(found["loss"]):
            raise DivergedError(f"the loss became {found['loss']} before step {self.steps}: lower fit.lr")
        return found

    def _mean(self, sums: Tensor) -> dict[str, float]:
        loss, correct, count = self.trainer.strategy.reduce(sums.clone(), reduce_op="sum").tolist()
        return {"loss": loss / count, "accuracy": correct / count}

    def _gathered(self) -> Tensor:
        """Interleave the results of several processes: each has every world-th image, from its rank on."""
        own = torch.cat(self._correct)
        self._correct.clear()
        world = self.trainer.world_size
        if world > 1:
            counts = self.trainer.strategy.all_gather(torch.tensor([len(own)], device=own.device))
            share = own.new_zeros(int(counts.max()), dtype=torch.uint8)
            share[: len(own)] = own
            own = self.trainer.strategy.all_gather(share).T.flatten()[: int(counts.sum())].bool()
        return own.cpu()

    def _record(self, values: Mapping[str, float], epoch: int) -> None:
        for logger in self.loggers:
            logger.log_metrics({**values, "epoch": epoch}, self.steps)

    def _tell(self, epoch: int, scores: Mapping[str, Mapping[str, float]]) -> None:
        splits: list[str] = [split for split in ("train", "val") if split in scores or split in self._headed]
        if splits != self._headed:
            self._headed = splits
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


def score(loss: Tensor, logits: Tensor, labels: Tensor) -> Tensor:
    """(summed loss, correct answers, images) in float64; of mixed images the largest share is right."""
    labels = labels.argmax(1) if labels.ndim == 2 else labels
    correct = (logits.detach().argmax(1) == labels).sum(dtype=torch.float64)
    return torch.stack((loss.detach().double(), correct, correct.new_full((), len(labels))))


def _rebuilt(made: Mapping[str, Any] | None, data: Mapping[str, Any] | None, seed: int) -> nn.Module:
    if made is None or data is None:
        raise ValueError("this classifier was made from a module object: pass that as model=")
    images = network.Images(data["in_channels"], tuple(data["size"]), len(data["classes"]))
    return network.rebuild(made["model"], made["stages"], made["readout"], images, seed=seed)


def _levels(model: nn.Module, recipe: Recipe, data: Mapping[str, Any] | None) -> list[Level]:
    if data is None or not isinstance(model, Cnn):
        raise ValueError("rates by layer and frozen layers need a network of cnnpool and data=")
    return plan(model, recipe, torch.zeros(1, data["in_channels"], *data["size"]))


def _read(image: str | Path | Tensor, data: Mapping[str, Any]) -> Tensor:
    """Resize the image as for the test, crop its centre and normalise it."""
    # Imported late: a training reads its images elsewhere.
    from torchvision.transforms.v2 import functional as transforms

    from cnnpool.data.decode import decode

    want = data.get("whole", data["size"])
    if isinstance(image, Tensor):
        values = image
    else:
        pixels = decode(str(image), tuple(want), data["in_channels"], data.get("white"))
        values = torch.from_numpy(pixels.copy()).permute(2, 0, 1) / 255
    channels, *have = values.shape
    if channels != data["in_channels"]:
        raise ValueError(f"the image has {channels} channels, and the network takes {data['in_channels']}")
    if have != list(want):
        scale = max(side / own for side, own in zip(want, have, strict=True))
        nearest = [max(side, round(own * scale)) for side, own in zip(want, have, strict=True)]
        values = transforms.center_crop(transforms.resize(values, nearest, antialias=True), list(want))
    values = centre(values[None], tuple(data["size"]))[0]
    normalised: Tensor = transforms.normalize(values, data["mean"], data["std"])
    return normalised
