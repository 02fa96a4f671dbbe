"""Training recipe: the options of ``fit``, ``trainer`` and ``log``, checked."""

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Gt, Le, doc

from cnnpool.bounds import AboveZero, AtLeastZero, Count, CountOrZero, ShareBelowOne
from cnnpool.registry import check_fields

LEAST_LOGGED = 20
Devices = Literal[-1] | Annotated[int, Ge(1), Le(1024)]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Optimiser, schedule and budget of one run.

    Args:
        epochs: passes over the training split, >= 1.
        max_steps: stop after this many steps, for a quick check; null: no limit.
        optimizer: adamw, sgd (Nesterov momentum 0.9), or muon (orthogonal steps of convolutions, else adamw).
        lr: highest learning rate, > 0.
        weight_decay: decoupled for adamw and muon, L2 for sgd; only on weights of two or more axes, >= 0.
        schedule: one_cycle (linear up, linear down to zero), cosine (half a wave down to zero) or constant.
        warmup: share of all steps in which the learning rate rises linearly, 0..1.
        label_smoothing: 0..1 (1 excluded).
        test: weights that are tested, measured and loaded: of the last step, or of the epoch with the best
            validation accuracy; results.json has the accuracy of both.
        head_rate: learning rate of the last layer, in multiples of ``lr``, > 0.
        layer_decay: factor by which the learning rate falls at every resolution above the last layer, > 0
            and at most 1 (Howard 2018, arXiv:1801.06146, by resolutions in place of layers).
        freeze: number of resolutions, from the image's on, whose layers are not trained, >= 0.
        freeze_norm: do not train batch normalisation, and keep its statistics.
        recalibrate: before the first step measure the statistics of batch normalisation anew, on the training
            images: those of published weights are of other images, and of the network before a swap.
        accumulate: micro-batches into which each batch is split to save memory, >= 1; it divides the batch.
            The gradient is that of the whole batch, but batch normalisation sees micro-batches.
        precision: 32-true, bf16-mixed or 16-mixed (autocast; the latter for GPUs without bf16), or auto:
            bf16-mixed where the processor multiplies bf16.
        devices: number of devices on each machine; they share every batch equally. -1: all (1 on a CPU).
        strategy: ddp (a process per device, gradients averaged), or auto: ddp if there are several devices.
        channels_last: memory format of model and images.
        keep_memory: let the C library keep freed blocks, which saves page faults on a CPU (Linux).
        deterministic: refuse (true), allow (false) or warn about operations that do not repeat bit for bit;
            auto is true on the CPU, where it costs nothing, and warn elsewhere. If allowed on a GPU, cuDNN
            tries its convolution algorithms and takes the fastest.
        log_every_steps: write the training loss every this many steps, >= 1; auto: every 50 steps, or more
            often so that a run has at least 20 records.
        checkpoint_every_minutes: interval of checkpoints within an epoch, from which a stopped run resumes,
            >= 0; 0: at every step.
        pictures: draw winner maps, shift maps and the operator's worked example after training; in a sweep
            where it is not given, for the first seed of each choice.
        progress: a progress bar; auto: on a terminal, and occasional lines in a log of long epochs.
    """

    epochs: Count = 5
    max_steps: Count | None = None
    optimizer: Literal["adamw", "muon", "sgd"] = "adamw"
    lr: AboveZero = 0.01
    weight_decay: AtLeastZero = 0.05
    schedule: Literal["one_cycle", "cosine", "constant"] = "one_cycle"
    warmup: ShareBelowOne = 0.2
    label_smoothing: ShareBelowOne = 0.1
    test: Literal["last", "best"] = "last"
    head_rate: AboveZero = 1.0
    layer_decay: Annotated[float, Gt(0), Le(1)] = 1.0
    freeze: CountOrZero = 0
    freeze_norm: bool = False
    recalibrate: bool = False
    accumulate: Count = 1
    precision: Literal["auto", "32-true", "bf16-mixed", "16-mixed"] = "auto"
    devices: Devices = 1
    strategy: Literal["auto", "ddp"] = "auto"
    channels_last: bool = True
    keep_memory: bool = True
    deterministic: Literal["auto", "warn"] | bool = "auto"
    log_every_steps: Literal["auto"] | Count = "auto"
    checkpoint_every_minutes: Annotated[float, Ge(0), Le(10**6)] = 10.0
    pictures: bool = True
    progress: Literal["auto"] | bool = "auto"

    def __post_init__(self) -> None:
        check_fields(self, "fit")

    def log_interval(self, total: int) -> int:
        """Steps between two records of the training loss in a run of ``total`` steps."""
        if self.log_every_steps != "auto":
            return self.log_every_steps
        return min(50, max(total // LEAST_LOGGED, 1))

    def learning_rate(self, step: int, total: int) -> float:
        """The learning rate of step 0..total-1: a pure function, so resuming a run needs no state."""
        if self.schedule == "constant" and not self.warmup:
            return self.lr
        rise = self.warmup * total
        if step < rise:
            return self.lr * (step + 1) / (rise + 1)
        progress = (step - rise) / max(total - rise, 1)
        match self.schedule:
            case "one_cycle":
                return self.lr * (1 - progress)
            case "cosine":
                return self.lr * (1 + math.cos(math.pi * progress)) / 2
        return self.lr


Part = Annotated[
    Count | Annotated[float, Gt(0), Le(1)] | None, doc("a number of batches, or a share of them")
]


@dataclass(frozen=True, kw_only=True)
class TrainerFlags:
    """Flags passed unchanged to Lightning's ``Trainer``, whose documentation describes them.

    Args:
        gradient_clip_val: largest norm or value of the gradients, > 0; null: no limit.
        gradient_clip_algorithm: norm or value; null: norm.
        max_time: stop after this time, as DD:HH:MM:SS; null: no limit.
        num_nodes: machines, each with ``fit.devices`` devices, >= 1.
        min_epochs: train at least this many epochs, whatever a callback requests; null: no limit.
        limit_train_batches, limit_val_batches, limit_test_batches: of an epoch, in whole batches; null: all.
        check_val_every_n_epoch: validate after every this many epochs, >= 1.
        profiler: simple, advanced or pytorch: profile the run; null: none.
        detect_anomaly: name the operation that first produced a NaN gradient; slow.
        sync_batchnorm: statistics of batch normalisation over all devices.
        inference_mode: validate and test in torch's inference mode; false: without gradients only.
        enable_model_summary: a table of the layers before training.
        accelerator: cpu, gpu or mps; auto: a GPU where there is one.
        fast_dev_run: try training, validation and test on a batch, or on so many; no probes, no files.
    """

    gradient_clip_val: AboveZero | None = None
    gradient_clip_algorithm: Literal["norm", "value"] | None = None
    max_time: str | None = None
    num_nodes: Annotated[int, Ge(1), Le(1024)] = 1
    min_epochs: Count | None = None
    limit_train_batches: Part = None
    limit_val_batches: Part = None
    limit_test_batches: Part = None
    check_val_every_n_epoch: Count = 1
    profiler: Literal["simple", "advanced", "pytorch"] | None = None
    detect_anomaly: bool = False
    sync_batchnorm: bool = False
    inference_mode: bool = True
    enable_model_summary: bool = False
    accelerator: Literal["auto", "cpu", "gpu", "mps"] = "auto"
    fast_dev_run: bool | Count = False

    def __post_init__(self) -> None:
        check_fields(self, "trainer")

    @property
    def given(self) -> dict[str, Any]:
        return {one.name: v for one in fields(self) if (v := getattr(self, one.name)) != one.default}


REFUSED = {
    "accumulate_grad_batches": "fit.accumulate=K splits each batch into K parts",
    "barebones": "it switches off what a run records",
    "callbacks": "choose them by callback=NAME",
    "default_root_dir": "a run's folder is hydra.run.dir",
    "deterministic": "use fit.deterministic",
    "devices": "use fit.devices",
    "enable_checkpointing": "a run keeps its own checkpoints",
    "logger": "choose one by log=NAME",
    "max_epochs": "use fit.epochs",
    "max_steps": "use fit.max_steps",
    "num_sanity_val_steps": "trainer.fast_dev_run=true tries training, validation and test on a batch first",
    "overfit_batches": "use data.limit",
    "plugins": "the run sets them",
    "precision": "use fit.precision",
    "reload_dataloaders_every_n_epochs": "an epoch's order follows the seed and the epoch",
    "strategy": "use fit.strategy",
    "use_distributed_sampler": "the run's own sampler shares images out among devices",
    "val_check_interval": "a run validates at the end of epochs: use trainer.check_val_every_n_epoch",
}
"""Flags that would break a run's guarantees, and what to use instead."""


@dataclass(frozen=True, kw_only=True)
class TensorBoard:
    """TensorBoard alone, which every run has."""

    package: ClassVar[str] = ""
    needs: ClassVar[str] = ""

    def __post_init__(self) -> None:
        check_fields(self, "log")

    @property
    def called(self) -> str:
        """The name by which ``log`` chooses it."""
        return type(self).__name__.lower()

    def refuse_missing(self) -> None:
        """Raise a ValueError if the log cannot be written, before training starts."""
        name = self.package
        if name and find_spec(name) is None:
            raise ValueError(f"log={name} needs the package {name}: pip install 'cnnpool[{name}]'")
        if not self.is_addressed():
            raise ValueError(f"log={name} needs {self.needs}")

    def is_addressed(self) -> bool:
        return True


@dataclass(frozen=True, kw_only=True)
class Csv(TensorBoard):
    """A table too, ``csv/metrics.csv`` in the run's folder."""


@dataclass(frozen=True, kw_only=True)
class Wandb(TensorBoard):
    """Weights & Biases too; server and key come from its environment variables alone.

    Args:
        project: that runs belong to.
        entity: user or team that the project belongs to; null: the key's own.
        tags: words to find runs by, there and in a column of TensorBoard's HParams.
        notes: a sentence on the run; null: none.
    """

    project: str = "cnnpool"
    entity: str | None = None
    tags: tuple[str, ...] = ()
    notes: str | None = None

    package: ClassVar[str] = "wandb"
    needs: ClassVar[str] = "a key in the environment variable WANDB_API_KEY, or WANDB_MODE=offline"

    def is_addressed(self) -> bool:
        mode = os.environ.get("WANDB_MODE")
        return bool(os.environ.get("WANDB_API_KEY")) or mode in ("offline", "disabled", "dryrun")


@dataclass(frozen=True, kw_only=True)
class MLflow(TensorBoard):
    """MLflow too; the server and its credentials come from its environment variables alone.

    Args:
        experiment: that runs belong to.
        tags: words to find runs by, each a tag with the value true.
        notes: a sentence on the run, its description; null: none.
    """

    experiment: str = "cnnpool"
    tags: tuple[str, ...] = ()
    notes: str | None = None

    package: ClassVar[str] = "mlflow"
    needs: ClassVar[str] = (
        "a server or database in the environment variable MLFLOW_TRACKING_URI, such as sqlite:///mlflow.db"
    )

    def is_addressed(self) -> bool:
        return bool(os.environ.get("MLFLOW_TRACKING_URI"))


@dataclass(frozen=True)
class Installed(TensorBoard):
    """A package's too: ``make`` is called with the run's folder and returns one of Lightning's loggers."""

    name: str
    make: Callable[[Path], Any]

    def __post_init__(self) -> None:
        """Its options were checked by the signature of what makes it."""

    @property
    def called(self) -> str:
        return self.name


LOGGERS: dict[str, type[TensorBoard]] = {
    "csv": Csv,
    "mlflow": MLflow,
    "tensorboard": TensorBoard,
    "wandb": Wandb,
}
