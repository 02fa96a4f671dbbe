"""Lightning's Trainer for a run: the run's own records and checkpoints, an explicit cluster, no messages."""

import logging
import os
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import torch
from lightning.fabric.plugins.environments.cluster_environment import ClusterEnvironment
from lightning.fabric.plugins.environments.lightning import LightningEnvironment
from lightning.fabric.plugins.environments.slurm import SLURMEnvironment
from lightning.fabric.plugins.environments.torchelastic import TorchElasticEnvironment
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import TQDMProgressBar
from lightning.pytorch.callbacks.progress.tqdm_progress import Tqdm
from lightning.pytorch.loggers import Logger
from lightning.pytorch.loggers.logger import DummyLogger

from cnnpool.fit.checkpoints import SafeCheckpointIO
from cnnpool.fit.datamodule import Images
from cnnpool.recipe import Recipe
from cnnpool.system.hardware import Precision, fast_precision
from cnnpool.system.process import by_srun

log = logging.getLogger(__name__)

RANK = {"MASTER_ADDR", "MASTER_PORT", "NODE_RANK", "LOCAL_RANK"}
LINE_S = 30.0  # Seconds between two lines of a long epoch in a log
IGNORED = (
    ".*(LeafSpec.*|all_gather) is deprecated",  # Lightning's own use of torch
    ".*no `val_dataloader",  # A choice
    "The `srun` command is available",  # Lightning looks for it even with an explicit cluster
    ".*sync_dist=True",  # Scores are already summed over all devices
    ".*does not have many workers",  # Batches are made whole, in a thread if they are slow
    "Found .* module.s. in eval mode",  # Frozen statistics are intended
    ".*smaller than the logging interval",  # Training losses are logged at the run's own intervals
)


def build_trainer(
    recipe: Recipe, flags: Mapping[str, Any], callbacks: Sequence[Callback], loggers: Sequence[Logger]
) -> Trainer:
    """Lightning's Trainer for ``recipe`` with ``flags``; a ValueError names a flag that it refuses."""
    bar = sys.stderr.isatty() if recipe.progress == "auto" else recipe.progress
    shown: list[Callback] = [VanishingBar(refresh_rate=50)] if bar else []
    if recipe.progress and not bar:
        shown = [LongEpochs()]
    asked = flags.get("accelerator", "auto")
    on_cpu = asked == "cpu" or (asked == "auto" and not torch.cuda.is_available())
    repeat_bits(recipe.deterministic, on_cpu)
    devices = recipe.devices if recipe.devices > 0 else max(1, torch.cuda.device_count())
    nodes = flags.get("num_nodes", 1)
    settings: dict[str, Any] = {
        "accelerator": "cpu" if on_cpu else "auto",
        "devices": devices,
        "strategy": "ddp" if devices * nodes > 1 else recipe.strategy,
        "precision": precision_of(recipe),
        "max_epochs": recipe.epochs,
        "accumulate_grad_batches": recipe.accumulate,
        # Some callbacks need a logger, also in processes that have none.
        "logger": list(loggers) or DummyLogger(),
        # For callbacks that log by steps; a run's own losses use their own interval.
        "log_every_n_steps": 10 if recipe.log_every_steps == "auto" else recipe.log_every_steps,
        "enable_checkpointing": True,
        "enable_model_summary": False,
        "enable_progress_bar": bar,
        "callbacks": [*callbacks, *shown],
        "plugins": [SafeCheckpointIO(), cluster(devices, nodes)],
        "num_sanity_val_steps": 0,
        "use_distributed_sampler": False,
    }
    try:
        return Trainer(**settings | dict(flags))
    except (TypeError, ValueError, MisconfigurationException) as error:
        line = str(error).partition("\n")[0]
        given = " ".join(f"trainer.{key}={value}" for key, value in flags.items())
        raise ValueError(f"{given or 'fit'}: Lightning's Trainer refuses this ({line})") from error


def in_batches(flags: Mapping[str, Any], images: Images) -> dict[str, Any]:
    """``flags`` with limits in whole batches, of which Lightning counts the parts of ``fit.accumulate``.

    A ValueError if a share leaves no batch: Lightning says so in the middle of a run.
    """
    found, val = dict(flags), len(images.dataset.val)
    if not val:
        found["limit_val_batches"] = 0
    batches = {"train": images.batches_of_epoch // images.accumulate, "test": len(images.test_dataloader())}
    for split, count in (batches | ({"val": len(images.val_dataloader())} if val else {})).items():
        key, size = f"limit_{split}_batches", "batch_size" if split == "train" else "eval_batch_size"
        limit = found.get(key)
        if isinstance(limit, float) and (limit := int(limit * count)) < 1:
            raise ValueError(
                f"trainer.{key}={found[key]} is less than a batch of the images ({count} batches in all): "
                f"give a number of batches, a larger share or a smaller data.{size}"
            )
        if limit:
            found[key] = limit * (images.accumulate if split == "train" else 1)
    return found


def cluster(devices: int, nodes: int) -> ClusterEnvironment:
    """Processes of torchrun or srun, which Lightning must not detect itself, else those of Lightning."""
    if TorchElasticEnvironment.detect():
        started: ClusterEnvironment = TorchElasticEnvironment()
    elif by_srun() and "LOCAL_RANK" not in os.environ:
        started = SLURMEnvironment(auto_requeue=False)
    else:
        return LightningEnvironment()
    count = started.world_size()
    if count != devices * nodes:
        raise ValueError(
            f"torchrun or srun started {count} processes, but fit.devices={devices} and trainer.num_nodes="
            f"{nodes} train in {devices * nodes}: make processes equal devices x nodes"
        )
    return started


class VanishingBar(TQDMProgressBar):
    """Lightning's bar, erased at its end so that only the rows of the epochs remain."""

    def init_train_tqdm(self) -> Tqdm:
        bar = super().init_train_tqdm()
        bar.leave = False
        return bar

    def init_test_tqdm(self) -> Tqdm:
        bar = super().init_test_tqdm()
        bar.leave = False
        return bar


class LongEpochs(Callback):
    """Logs occasional lines within a long epoch; a terminal shows a bar instead."""

    def __init__(self) -> None:
        self._spoken = time.monotonic()

    def on_train_epoch_start(self, trainer: Trainer, module: LightningModule) -> None:
        self._spoken = time.monotonic()

    def on_train_batch_end(
        self, trainer: Trainer, module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if time.monotonic() - self._spoken > LINE_S:
            self._spoken = time.monotonic()
            epoch, epochs = trainer.current_epoch + 1, trainer.max_epochs
            done, total = batch_idx + 1, int(trainer.num_training_batches)
            log.info(
                "epoch %d/%d   %d of %d batches (%.0f %%)", epoch, epochs, done, total, 100 * done / total
            )


def repeat_bits(deterministic: Literal["auto", "warn"] | bool, on_cpu: bool) -> None:
    """Refuse, allow or warn about operations that do not repeat bit for bit (see ``Recipe``)."""
    if deterministic == "auto":
        deterministic = True if on_cpu else "warn"
    torch.use_deterministic_algorithms(bool(deterministic), warn_only=deterministic == "warn")
    # Uninitialised memory is never read here, so filling it with NaN is unnecessary.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    # cuDNN computes float32 convolutions in TF32 unless this is off.
    torch.backends.cudnn.allow_tf32 = False
    # cuDNN's fastest algorithm differs from run to run, and with it the last bits.
    torch.backends.cudnn.benchmark = not deterministic
    if deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


def precision_of(recipe: Recipe) -> Precision:
    return fast_precision() if recipe.precision == "auto" else recipe.precision


def quieten() -> None:
    """Let Lightning log only warnings, through cnnpool's log."""
    for name in ("lightning", "lightning.pytorch", "lightning.fabric"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
        logger.setLevel(logging.WARNING)
    for name in ("profilers.profiler", "callbacks.model_summary"):
        # Their messages were requested.
        logging.getLogger(f"lightning.pytorch.{name}").setLevel(logging.INFO)
    for message in IGNORED:
        warnings.filterwarnings("ignore", message=message)


@contextmanager
def group_left() -> Iterator[None]:
    """Leave the process group of a training that Lightning has set up, which would affect the next one."""
    before = os.environ.keys() & RANK
    try:
        yield
    finally:
        own = "LOCAL_RANK" not in before and not by_srun()
        if torch.distributed.is_initialized() and (own or torch.distributed.get_world_size() == 1):
            torch.distributed.destroy_process_group()
            # With what Lightning has set, a later training of several devices would wait for the others.
            for name in RANK - before:
                os.environ.pop(name, None)
