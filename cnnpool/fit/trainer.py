"""Lightning's trainer as we want it: our own records and checkpoints, and silence."""

import logging
import sys
import warnings

import torch
from lightning.pytorch import Trainer
from lightning.pytorch.callbacks import TQDMProgressBar

from cnnpool.fit.checkpoint import SafeCheckpointIO
from cnnpool.fit.machine import fast_precision
from cnnpool.fit.recipe import Recipe


def build_trainer(recipe: Recipe, callbacks: list) -> Trainer:
    """Lightning's trainer without its own loggers, checkpoints and summaries: the callbacks do these."""
    bar = sys.stderr.isatty() if recipe.progress == "auto" else recipe.progress
    on_cpu = not torch.cuda.is_available()
    deterministic = recipe.deterministic
    if deterministic == "auto":
        deterministic = True if on_cpu else "warn"
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
        callbacks=[*callbacks, *([TQDMProgressBar(refresh_rate=50)] if bar else [])],
        plugins=[SafeCheckpointIO()],
        num_sanity_val_steps=0,
        deterministic=deterministic,
        use_distributed_sampler=False,
    )


def precision_of(recipe: Recipe) -> str:
    """What auto means on this machine."""
    return fast_precision() if recipe.precision == "auto" else recipe.precision


def quieten() -> None:
    """Let Lightning say warnings only, and through our own log."""
    for name in ("lightning", "lightning.pytorch", "lightning.fabric"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
        logger.setLevel(logging.WARNING)
    # Lightning's own use of torch, nothing that a user could change; and no validation is a choice.
    warnings.filterwarnings("ignore", message=".*LeafSpec.* is deprecated", category=FutureWarning)
    warnings.filterwarnings("ignore", message=".*no `val_dataloader`")
