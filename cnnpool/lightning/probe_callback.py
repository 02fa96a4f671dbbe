"""Any probe as a callback: measured at the end of an epoch, logged by the Trainer's loggers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.loggers import Logger
from lightning.pytorch.strategies import FSDPStrategy, ModelParallelStrategy
from lightning.pytorch.utilities import rank_zero_warn
from torch import Tensor, nn
from torchmetrics import Metric

from cnnpool.as_found import buffers_kept, examined, generators_kept
from cnnpool.lightning import probe_batch
from cnnpool.lightning.probe_batch import UNPACK, BatchCollector, Unpack, fingerprint, measurable
from cnnpool.probe import Batch, Probe, quantities_of
from cnnpool.probe.base import Result, Stages, described, ends_of, maps_of, scalars
from cnnpool.surgery.stages import measurable as measurable_stages
from cnnpool.surgery.stages import named_stages, stages_of
from cnnpool.surgery.trace import FunctionalPooling, dry_run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Network = Callable[[LightningModule], nn.Module] | str
NETWORK = "pass network=, a function from the LightningModule to the module that turns images into logits"
STAGES = "stages=, names of modules that return a map"


class ProbeCallback(Callback):
    """Runs any probe after every few epochs on the same images, on the first process.

    The images are the first ones seen in validation, or in training if there is no validation: no image is
    loaded twice. Weights, buffers, gradients, modes and random generators are restored, and what the module
    logs does not count, so a training with the callback is bit-identical to one without it. Parameters are
    measured as the Trainer holds them, without autocast. Compiled modules run uncompiled meanwhile.

    An error after the first training step gives a warning: the callback stops, and the training continues.

    Args:
        probe: e.g. ``cnnpool.probe.LieDerivative()``.
        samples: images of the probe batch, >= 1.
        every_epochs: measure after every this many epochs, >= 1.
        quantities: names of those to log, or of groups, as below the probe in ``results.json``, such as
            ``("zero_fraction",)`` or ``("consistency",)``; None: all.
        stages: dotted names of the downsampling modules, or the modules by name; None: found by a dry run,
            as in ``cnnpool.swap``.
        network: from the LightningModule to the module that turns images into logits, or the dotted name of
            that; None: itself.
        unpack: from a batch of the loader to (images, labels), or their keys; by default its first two items.
        batch: (images, labels), or a ``cnnpool.probe.Batch``, in place of the loader's images.
        mean, std: normalisation of images in 0..1, by channel, which gives the value of a black pixel.
            Without them the smallest value of each channel in the probe batch is black.

    ``latest`` is the probe's latest result, ``values`` its numbers by tag. Loggers receive them at the step
    and with the epoch of ``self.log``, and ``trainer.callback_metrics`` has them, in every process. They are
    part of the callback's state in a checkpoint, and so are images collected in training.

    Raises:
        ValueError: if an argument is out of range; before the first training step for an unknown stage, a
            batch or output that cannot be measured, a strategy that shards (FSDP, tensor parallel, ZeRO 3).
    """

    def __init__(
        self,
        probe: Probe,
        *,
        samples: int = 128,
        every_epochs: int = 1,
        quantities: str | Sequence[str] | None = None,
        stages: str | Sequence[str] | Stages | None = None,
        network: Network | None = None,
        unpack: Unpack | Sequence[Any] = probe_batch.first_two,
        batch: Sequence[Tensor | None] | None = None,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
    ):
        if every_epochs < 1:
            raise ValueError(f"every_epochs must be at least 1, got {every_epochs}")
        quantities = [quantities] if isinstance(quantities, str) else quantities
        stages = [stages] if isinstance(stages, str) else stages
        self.probe = probe
        self.quantities = quantities_of(probe, quantities)
        self.every_epochs = every_epochs
        self.stages = stages
        self.network = attrgetter(network) if isinstance(network, str) else network
        several = isinstance(batch, list | tuple)
        if batch is not None and not (several and 2 <= len(batch) <= len(Batch._fields)):
            got = f"a {type(batch).__name__} of {len(batch)}" if several else described(batch)
            raise ValueError(f"batch must be (images, labels), or a cnnpool.probe.Batch, got {got}")
        self.batch = None if batch is None else Batch(*measurable(*batch[:2]), *batch[2:])
        if (mean is None) != (std is None):
            raise ValueError("mean and std belong together: give both, or neither")
        self.ends = ends_of(mean, std) if mean is not None and std is not None else None
        self.latest: Result = {}
        self._collected = BatchCollector(samples, unpack if callable(unpack) else itemgetter(*unpack))
        self._from_training = self._checked = self._failed = False
        key = f"{type(self).__qualname__}({probe!r}, {every_epochs}, {stages and list(stages)})"
        own_unpack = None if unpack is probe_batch.first_two else unpack
        # A given batch is measured whole.
        told = (network, batch, own_unpack, None if batch or samples == 128 else samples, mean, std)
        self._subject = "".join(fingerprint(one) for one in told if one is not None)
        self._key = key + self._subject + (fingerprint(quantities) if quantities else "")

    @property
    def state_key(self) -> str:
        """Identifies one callback among several, as Lightning requires of callbacks with a state."""
        return self._key

    @property
    def values(self) -> dict[str, float]:
        """The numbers of ``latest`` by tag, e.g. ``gradient/zero_fraction/<stage>``."""
        section = self.probe.section
        return scalars([one.below(section) for one in self.quantities], {section: self.latest})

    def figures(
        self, network: nn.Module, stages: Stages, batch: Batch, result: Mapping[str, Any]
    ) -> Mapping[str, "Figure"]:
        """Pictures by tag, for loggers that support pictures; none here."""
        return {}

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        strategy = trainer.strategy
        sharding = isinstance(strategy, FSDPStrategy | ModelParallelStrategy)
        if sharding or getattr(strategy, "zero_stage_3", False):
            raise ValueError(
                f"{type(self).__name__} needs all parameters in the first process, which "
                f"{type(strategy).__name__} shards: use ddp, or measure a checkpoint by cnnpool probe"
            )
        self._checked = self._failed = False
        if stage == "fit" and trainer.current_epoch == 0:
            # Another training; Lightning loads a checkpoint afterwards.
            self._collected = BatchCollector(self._collected.samples, self._collected.unpack)
            self.latest, self._from_training = {}, False

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        for other in trainer.callbacks:  # type: ignore[attr-defined]
            if other is self:
                break
            if isinstance(other, ProbeCallback) and (tag := self._shared_tag(other)):
                rank_zero_warn(
                    f"{type(self).__name__} and another {type(other).__name__} both log {tag}, of "
                    "other images or networks: give one of them other quantities=, or stages= of other names"
                )
        # Values from a checkpoint.
        self._publish(trainer)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self.batch is not None:
            self._check(trainer, pl_module, *self.batch[:2])

    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int
    ) -> None:
        if not self._checked:
            images, labels = self._collected.unpack(batch)
            if trainer.enable_validation and probe_batch.mixed(labels):
                # The images come from validation, which does not mix them.
                labels = labels.argmax(1)
            self._check(trainer, pl_module, *measurable(images, labels))

    def on_validation_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        if dataloader_idx or self.batch is not None:
            return
        if not trainer.sanity_checking:
            self._collect(trainer, batch)
        elif not self._checked:
            self._check(trainer, pl_module, *measurable(*self._collected.unpack(batch)))

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._collected.close()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if self.batch is None and not trainer.enable_validation:
            self._from_training = True
            self._collect(trainer, batch)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._collected.close()
        if (trainer.current_epoch + 1) % self.every_epochs:
            return
        images = self.batch is not None or self._collected.count
        if trainer.is_global_zero and images and not self._failed:
            try:
                self._measure(trainer, pl_module)
            except Exception as error:
                self._fail(error)
        self.latest = trainer.strategy.broadcast(self.latest)
        self._publish(trainer)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.is_global_zero and not self.values and not self._failed:
            rank_zero_warn(
                f"{type(self).__name__} measured nothing: after {trainer.current_epoch} epochs, "
                f"every_epochs={self.every_epochs}, {self._collected.count} images of validation or training"
            )

    def state_dict(self) -> dict[str, Any]:
        state: dict[str, Any] = {"latest": self.latest}
        if self._from_training:
            state["collected"] = self._collected.state_dict()
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.latest = state_dict["latest"]
        if "collected" in state_dict:
            self._collected.load_state_dict(state_dict["collected"])

    def _shared_tag(self, other: "ProbeCallback") -> str | None:
        """A tag by which both log measurements of different images or networks; None without one."""
        alike = type(self).values is type(other).values and self.probe.section == other.probe.section
        if not alike or self._subject == other._subject:
            return None
        own, theirs = ({n.replace(".", "_") for n in one.stages or ()} for one in (self, other))
        apart = own and theirs and not own & theirs
        shared = (one for one in self.quantities if one in other.quantities)
        tags = (one.below(self.probe.section).tag for one in shared if not (apart and one.by_stage))
        return next(tags, None)

    def _collect(self, trainer: Trainer, batch: Any) -> None:
        if trainer.is_global_zero and not self._failed:
            try:
                self._collected.add(batch)
            except Exception as error:
                self._fail(error)

    def _fail(self, error: Exception) -> None:
        self._failed = True
        rank_zero_warn(
            f"{type(self).__name__} failed and is switched off for this training: "
            f"{type(error).__name__}: {_line(error)}"
        )

    def _check(self, trainer: Trainer, module: LightningModule, images: Tensor, labels: Tensor) -> None:
        self._checked = True
        # Validation creates inference tensors, which do not support gradients.
        eager = torch.compiler.set_stance("force_eager")
        with torch.inference_mode(False), eager, unnoticed(module):
            images = trainer.precision_plugin.convert_input(images[:2].clone().to(module.device))
            network = self.network(module) if self.network else module
            if self.stages is None:
                warn_of_calls(type(self).__name__, network, images)
            check(self.probe, network, lambda: self._stages(network, images), images, labels.clone())

    def _measure(self, trainer: Trainer, module: LightningModule) -> None:
        batch = self.batch or Batch(*(t.to(module.device) for t in self._collected.batch()))
        batch = batch._replace(images=trainer.precision_plugin.convert_input(batch.images))
        if self.ends:
            batch = batch._replace(black=self.ends[0], white=self.ends[1])
        elif batch.black is None:
            batch = batch._replace(black=batch.images.amin((0, 2, 3)))
        network = self.network(module) if self.network else module
        # Hooks of the probes do not fire inside compiled graphs.
        with torch.compiler.set_stance("force_eager"), unnoticed(module):
            stages = self._stages(network, batch.images[:1].to(module.device))
            self.latest = self.probe.measure(network, stages, *batch)
            figures = self.figures(network, stages, batch, self.latest) if trainer.loggers else {}
        step, epoch = end_of_epoch(trainer, module)
        values = {**self.values, "epoch": epoch}
        for logger in trainer.loggers:
            logger.log_metrics(values, step=step)
            for tag, figure in figures.items():
                log_figure(logger, tag, figure, step)

    def _stages(self, network: nn.Module, images: Tensor) -> Stages:
        if self.stages is None:
            return measurable_stages(stages_of(network, images[:1]))
        return self.stages if isinstance(self.stages, Mapping) else named_stages(network, self.stages)

    def _publish(self, trainer: Trainer) -> None:
        """Put the values where EarlyStopping and ModelCheckpoint read them; ``log`` would round them."""
        metrics = {tag: torch.tensor(value, dtype=torch.float64) for tag, value in self.values.items()}
        trainer.callback_metrics.update(metrics)


@contextmanager
def unnoticed(model: nn.Module) -> Iterator[None]:
    """Keep the buffers of ``model`` and the random generators, and drop what ``model`` logs."""
    loud = [vars(part) for part in model.modules() if isinstance(part, LightningModule)]
    logs = [own.get("log") for own in loud]
    measured = [part for part in model.modules() if isinstance(part, Metric)]
    counted = [(part, dict(vars(part)), part._copy_state_dict()) for part in measured]
    for own in loud:
        own["log"] = lambda *_, **__: None
    try:
        with buffers_kept(model), generators_kept():
            yield
    finally:
        for part, own, state in counted:
            vars(part).update(own | state)
        for own, log in zip(loud, logs, strict=True):
            del own["log"]
            if log is not None:
                own["log"] = log


def end_of_epoch(trainer: Trainer, module: LightningModule) -> tuple[int, int]:
    """Step and epoch at which ``module`` logs values of an epoch: by ``self.log``, or as our Classifier."""
    if own := getattr(module, "records_at", None):
        return own  # type: ignore[no-any-return]
    # With manual optimisation global_step counts the steps of every optimizer.
    automatic = module.automatic_optimization
    return trainer.global_step - 1 if automatic else trainer.fit_loop.total_batch_idx, trainer.current_epoch


def warn_of_calls(name: str, network: nn.Module, images: Tensor) -> None:
    """Say before the training that pooling by function calls is not measured, nor all calls of a module."""
    functional = FunctionalPooling(network)
    with suppress(ValueError):
        seen = dry_run(network, images[:1], functional)
        for one in seen:
            if one.kind in ("conv", "pool") and len(one.inputs) > 1:
                rank_zero_warn(f"{name} measures only the last of {len(one.inputs)} calls of {one.name}")
        if functional.calls:
            rank_zero_warn(
                f"{name} measures modules, not {functional}: cnnpool.as_modules(model) makes modules of them"
            )


def check(
    probe: Probe, network: nn.Module, find: Callable[[], Stages], images: Tensor, labels: Tensor
) -> None:
    """Raise ValueError, with the remedy, unless ``probe`` can measure ``network`` on such a batch."""
    kind = type(network).__name__
    try:
        with examined(network), torch.no_grad():
            output = network(images)
    except Exception as error:
        raise ValueError(f"{kind} fails on images {described(images)}: {_line(error)}; {NETWORK}") from error
    logits = isinstance(output, Tensor) and output.ndim == 2 and output.is_floating_point()
    if not logits or output.shape[1] < 2 or len(output) != len(images):
        raise ValueError(
            f"{kind} must return logits (N, classes) of at least two classes, got {described(output)} for "
            f"{len(images)} images: {NETWORK}"
        )
    classes = output.shape[1]
    if labels.max() >= classes:
        raise ValueError(f"labels must be below {classes}, the classes, got {int(labels.max())}: {UNPACK}")
    stages = find()
    # Some probes compare different images.
    few = max(2, len(images))
    batch = (torch.cat((t, t))[:few] for t in (images, labels[: len(images)].to(images.device)))
    name = type(probe).__name__
    try:
        if probe.tried:
            probe.measure(network, stages, *batch)
        elif any(one.by_stage for one in probe.quantities):
            for stage, output in maps_of(network, stages, images).items():
                if output.ndim != 4:
                    raise ValueError(f"stage {stage} returns {described(output)}, no map (N, C, H, W)")
    except Exception as error:
        raise ValueError(f"{name} cannot measure {kind}: {_line(error)}; {NETWORK}, or {STAGES}") from error


def _line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def log_figure(logger: Logger, tag: str, figure: "Figure", step: int) -> None:
    """Log ``figure`` if the logger supports it: TensorBoard, Weights & Biases, MLflow."""
    experiment: Any = getattr(logger, "experiment", None)
    if hasattr(logger, "log_image"):
        logger.log_image(key=tag, images=[figure], step=step)
    elif hasattr(experiment, "add_figure"):
        experiment.add_figure(tag, figure, step)
    elif hasattr(experiment, "log_figure") and hasattr(logger, "run_id"):
        experiment.log_figure(logger.run_id, figure, f"{tag}_{step:06d}.png")
