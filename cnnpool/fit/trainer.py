"""Lightning's trainer as we want it: our own records and checkpoints, and silence."""

import logging
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Literal

import torch
from lightning.fabric.plugins.environments.lightning import LightningEnvironment
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.callbacks import TQDMProgressBar

from cnnpool.fit.checkpoint_io import SafeCheckpointIO
from cnnpool.fit.epoch_progress import EpochProgress
from cnnpool.recipe import Recipe
from cnnpool.system.hardware import Precision, fast_precision


def build_trainer(recipe: Recipe, callbacks: Sequence[Callback]) -> Trainer:
    """Lightning's trainer without its own loggers, checkpoints and summaries: the callbacks do these."""
    bar = sys.stderr.isatty() if recipe.progress == "auto" else recipe.progress
    shown = [TQDMProgressBar(refresh_rate=50)] if bar else [EpochProgress()] if recipe.progress else []
    on_cpu = not torch.cuda.is_available()
    repeat_bits(recipe.deterministic, on_cpu)
    return Trainer(
        accelerator="cpu" if on_cpu else "auto",
        devices=recipe.devices,
        strategy="ddp" if recipe.devices > 1 else recipe.strategy,
        precision=precision_of(recipe),
        max_epochs=recipe.epochs,
        logger=False,
        enable_checkpointing=False,
        enable_model_summary=False,
        enable_progress_bar=bar,
        callbacks=[*callbacks, *shown],
        # Processes that are there already are used, also where SLURM has one task for all of them.
        plugins=[SafeCheckpointIO(), *([LightningEnvironment()] if "LOCAL_RANK" in os.environ else [])],
        num_sanity_val_steps=0,
        use_distributed_sampler=False,
    )


def repeat_bits(asked: Literal["auto", "warn"] | bool, on_cpu: bool) -> None:
    """Refuse, allow or warn of operations that do not repeat bit for bit (see ``Recipe``)."""
    if asked == "auto":
        asked = True if on_cpu else "warn"
    torch.use_deterministic_algorithms(bool(asked), warn_only=asked == "warn")
    # Nothing here reads what it has not written, so there is no need to fill all new memory with NaN first.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    if on_cpu:
        return
    # cuDNN computes float32 convolutions in TF32 unless this is off.
    torch.backends.cudnn.allow_tf32 = False
    # The fastest of cuDNN's ways differs from run to run, and with it the last bits.
    torch.backends.cudnn.benchmark = not asked
    if asked:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


def precision_of(recipe: Recipe) -> Precision:
    """The precision of a recipe; ``auto`` is the fastest that this machine has in hardware."""
    return fast_precision() if recipe.precision == "auto" else recipe.precision


def quieten() -> None:
    """Let Lightning say warnings only, and through our own log."""
    for name in ("lightning", "lightning.pytorch", "lightning.fabric"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
        logger.setLevel(logging.WARNING)
    # Lightning's own use of torch, nothing that a user could change; and no validation is a choice.
    for what in ("LeafSpec.*", "all_gather"):
        warnings.filterwarnings("ignore", message=f".*{what} is deprecated", category=FutureWarning)
    warnings.filterwarnings("ignore", message=".*no `val_dataloader`")
