"""Any probe as a callback: measured at the end of an epoch, logged by the Trainer's own loggers."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.strategies import FSDPStrategy, ModelParallelStrategy
from lightning.pytorch.utilities import rank_zero_warn
from torch import nn

from cnnpool.lightning.pictures import log_figure
from cnnpool.lightning.probe_batch import BatchCollector, Unpack, first_two
from cnnpool.probe import Batch, Probe
from cnnpool.probe.tags import scalars
from cnnpool.surgery.stages import named_stages, stages_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Network = Callable[[LightningModule], nn.Module]


class ProbeCallback(Callback):
    """Any probe, read after every few epochs on the same images, on the first process.

    The images are the first ones that validation sees, or training where there is no validation: nothing is
    loaded a second time. Weights, buffers, gradients, modes and random generators are left as found, so a
    training with the callback ends in the same bits as one without it. Parameters are measured as the
    Trainer holds them, in the precision they have, without autocast. Compiled modules run uncompiled
    meanwhile.

    Args:
        measured: the probe, e.g. ``cnnpool.probe.LieDerivative()``.
        samples: images of the probe batch, >= 1.
        every_epochs: read after every so many epochs, >= 1.
        stages: dotted names of the downsampling modules; None: found by a dry run, as ``cnnpool.swap``
            finds them.
        network: from the LightningModule to the module that turns images into logits; None: itself.
        unpack: from a batch of the loader to (images, labels); by default its first two items.

    The latest values are in ``values``, by tag; loggers get them at ``trainer.global_step``.

    Raises:
        ValueError: if a number is out of range, or, while training, if a stage has no such name, a batch has
            another form, or the strategy shards the parameters (FSDP, tensor parallel, ZeRO 3).
    """

    def __init__(
        self,
        measured: Probe,
        *,
        samples: int = 128,
        every_epochs: int = 1,
        stages: Sequence[str] | None = None,
        network: Network | None = None,
        unpack: Unpack = first_two,
    ):
        if every_epochs < 1:
            raise ValueError(f"every_epochs must be at least 1, got {every_epochs}")
        self.measured = measured
        self.every_epochs = every_epochs
        self.stages = stages
        self.network = network
        self.values: dict[str, float] = {}
        self._collected = BatchCollector(samples, unpack)

    def figures(
        self, network: nn.Module, stages: Mapping[str, nn.Module], batch: Batch, result: Mapping[str, Any]
    ) -> Mapping[str, "Figure"]:
        """Pictures by tag, for loggers that take pictures; none here."""
        return {}

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        strategy = trainer.strategy
        if isinstance(strategy, FSDPStrategy | ModelParallelStrategy) or getattr(
            strategy, "zero_stage_3", False
        ):
            raise ValueError(
                f"{type(self).__name__} needs all parameters in the first process, which "
                f"{type(strategy).__name__} shards: use ddp, or measure a checkpoint by cnnpool probe"
            )

    def on_validation_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        if trainer.is_global_zero and dataloader_idx == 0 and not trainer.sanity_checking:
            self._collected.add(batch)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._collected.close()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if trainer.is_global_zero and not trainer.enable_validation:
            self._collected.add(batch)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._collected.close()
        due = (trainer.current_epoch + 1) % self.every_epochs == 0
        if due and trainer.is_global_zero and self._collected.count:
            self._measure(trainer, pl_module)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.is_global_zero and not self.values:
            rank_zero_warn(
                f"{type(self).__name__} measured nothing: after {trainer.current_epoch} epochs, "
                f"every_epochs={self.every_epochs}, {self._collected.count} images of validation or training"
            )

    def _measure(self, trainer: Trainer, pl_module: LightningModule) -> None:
        images, labels = self._collected.batch()
        images = trainer.precision_plugin.convert_input(images.to(pl_module.device))
        batch = Batch(images, labels.to(pl_module.device))
        network = self.network(pl_module) if self.network else pl_module
        # Hooks of the probes do not fire inside compiled graphs.
        with torch.compiler.set_stance("force_eager"):
            if self.stages is None:
                stages = stages_of(network, images[:1])
            else:
                stages = named_stages(network, self.stages)
            result = self.measured.measure(network, stages, *batch)
            figures = self.figures(network, stages, batch, result) if trainer.loggers else {}
        section = self.measured.section
        quantities = [one.below(section) for one in self.measured.quantities]
        self.values = scalars(quantities, {section: result})
        for logger in trainer.loggers:
            logger.log_metrics(self.values, step=trainer.global_step)
            for tag, figure in figures.items():
                log_figure(logger, tag, figure, trainer.global_step)
