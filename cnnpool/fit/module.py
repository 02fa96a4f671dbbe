"""The Lightning module: one training step, one evaluation step, no logging cost."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from lightning.pytorch import LightningModule
from torch import Tensor
from torch.nn import functional as F
from torch.optim import Optimizer

from cnnpool.fit import optimizers
from cnnpool.fit.layers import Level, frozen_norms
from cnnpool.model import Cnn
from cnnpool.recipe import Recipe


class DivergedError(RuntimeError):
    """The loss is not finite."""


class Net(LightningModule):
    """A classifier in training; sums stay on the device and are read once an epoch.

    Args:
        model: images to logits.
        recipe: how to train it.
        seed: with the step number it fixes every draw of stochastic operators and dropout.
        total_steps: length of the schedule.
        facts: further entries of the run's checkpoints, in plain JSON.
        levels: layers with rates of their own; none where all are trained alike.
    """

    def __init__(
        self,
        model: Cnn,
        recipe: Recipe,
        seed: int,
        total_steps: int,
        facts: dict[str, Any] | None = None,
        levels: Sequence[Level] = (),
    ):
        super().__init__()
        # Manual optimisation halves Lightning's own cost per step.
        self.automatic_optimization = False
        self.model = model
        self.recipe = recipe
        self.seed = seed
        self.total_steps = total_steps
        self.facts = facts or {}
        self.levels = levels
        self.frozen = frozen_norms(levels, recipe)
        self.steps = self.saved_steps = 0
        self.training_sums: list[Tensor] = []
        self.evaluation_sums: list[Tensor] = []
        self.correct: list[Tensor] = []

    def configure_optimizers(self) -> Optimizer:
        self.optimizer = optimizers.build(self.recipe, self.model.parameters(), self.levels)
        return self.optimizer

    def train(self, mode: bool = True) -> "Net":
        """Training mode, but for batch normalisations that keep their statistics."""
        super().train(mode)
        for module in self.frozen:
            module.eval()
        return self

    def on_train_start(self) -> None:
        # A checkpoint is loaded before the model is moved.
        self.training_sums = [sums.to(self.device) for sums in self.training_sums]

    def on_train_batch_start(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        # Draws depend on the step (and process) alone, so a resumed run repeats them.
        seed = (self.seed + 1) * 1_000_003 + self.steps + self.global_rank * 998_244_353
        # torch.manual_seed also seeds backends that are not present, which takes half a millisecond a step.
        torch.default_generator.manual_seed(seed)
        if self.device.type == "cuda":
            torch.cuda.manual_seed(seed)

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        images, labels = batch
        optimizer = self.optimizer
        rate = self.recipe.learning_rate(self.steps, self.total_steps)
        for group in optimizer.param_groups:
            group["lr"] = rate * group.get("scale", 1.0)
        optimizer.zero_grad(set_to_none=True)
        pieces = zip(images.chunk(self.recipe.accumulate), labels.chunk(self.recipe.accumulate), strict=True)
        scores = []
        for some, answers in pieces:
            logits = self.model(some)
            if answers.is_floating_point():
                # Shares of classes, which half precision would round.
                logits = logits.to(answers.dtype)
            loss = F.cross_entropy(
                logits, answers, reduction="sum", label_smoothing=self.recipe.label_smoothing
            )
            self._backward(loss / len(images))
            scores.append(score(loss, logits, answers))
        sums = scores[0] if len(scores) == 1 else torch.stack(scores).sum(0)
        if images.device.type == "cpu" and not sums[0].isfinite():
            raise self.diverged(sums[0].item(), batch_idx)
        optimizer.step()
        self.steps += 1
        self.training_sums.append(sums)
        if self.steps >= self.total_steps:
            self.trainer.should_stop = True

    def _backward(self, loss: Tensor) -> None:
        # manual_backward is needed by several processes only; for one its hooks cost time.
        if self.recipe.devices > 1 or self.recipe.strategy != "auto":
            self.manual_backward(loss)
        else:
            loss.backward()

    def validation_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        self._evaluate(*batch)

    def test_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        self.correct.append(self._evaluate(*batch).argmax(1) == batch[1])

    def _evaluate(self, images: Tensor, labels: Tensor) -> Tensor:
        logits: Tensor = self.model(images)
        loss = F.cross_entropy(logits, labels, reduction="sum")
        self.evaluation_sums.append(score(loss, logits, labels))
        return logits

    def take(self, sums: list[Tensor]) -> dict[str, float]:
        """Mean loss and accuracy (0..1) over the images summed up so far, over all devices; starts anew.

        Raises:
            DivergedError: if the loss is not finite.
        """
        total = self.trainer.strategy.reduce(torch.stack(sums).sum(0), reduce_op="sum")
        sums.clear()
        loss, correct, count = total.tolist()
        if not math.isfinite(loss):
            raise DivergedError(f"the loss became {loss} before step {self.steps}: lower fit.lr")
        return {"loss": loss / count, "accuracy": correct / count}

    def take_correct(self, images: int) -> Tensor:
        """Which of the ``images`` test images were classified correctly, (images,) booleans; resets the list.

        Each of several processes has looked at every world-th image, from its rank on.
        """
        own = torch.cat(self.correct)
        self.correct.clear()
        world = self.trainer.world_size
        if world > 1:
            share = own.new_zeros(-(-images // world), dtype=torch.uint8)
            share[: len(own)] = own
            own = self.trainer.strategy.all_gather(share).T.flatten()[:images].bool()
        return own.cpu()

    def diverged(self, loss: float, batch_idx: int) -> DivergedError:
        """The error for a loss that is not finite, with its step and remedies."""
        rate = self.recipe.learning_rate(self.steps, self.total_steps)
        return DivergedError(
            f"the loss became {loss} at epoch {self.current_epoch}, step {self.steps} (batch {batch_idx} of "
            f"the epoch, learning rate {rate:.3g}): lower fit.lr, or lengthen fit.warmup; "
            f"the last checkpoint is of step {self.saved_steps}"
        )

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        # A checkpoint within an epoch holds the sums of the steps that the epoch's record still needs.
        none = torch.zeros(0, 3, device=self.device)
        sums = torch.stack(self.training_sums) if self.training_sums else none
        checkpoint["cnnpool"] = {
            **self.facts,
            "steps": self.steps,
            "total_steps": self.total_steps,
            "seed": self.seed,
            "training_sums": self.trainer.strategy.reduce(sums, reduce_op="sum").cpu(),
        }

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.steps = self.saved_steps = checkpoint["cnnpool"]["steps"]
        if self.global_rank == 0:
            self.training_sums = list(checkpoint["cnnpool"]["training_sums"].to(self.device))


def score(loss: Tensor, logits: Tensor, labels: Tensor) -> Tensor:
    """(summed loss, correct answers, images) as one float64 tensor on the device.

    Of mixed images the class with the largest share counts as the correct one.
    """
    labels = labels.argmax(1) if labels.ndim == 2 else labels
    correct = (logits.detach().argmax(1) == labels).sum(dtype=torch.float64)
    return torch.stack((loss.detach().double(), correct, correct.new_full((), len(labels))))
