"""Callbacks that a run selects by name: the choices of ``callback``."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from lightning.pytorch import Callback
from lightning.pytorch.callbacks import EarlyStopping, LearningRateMonitor

from cnnpool import registry
from cnnpool.bounds import AtLeastZero, Count


def early_stopping(
    *,
    monitor: str = "val/accuracy",
    mode: Literal["min", "max"] | None = None,
    patience: Count = 3,
    min_delta: AtLeastZero = 0.0,
) -> EarlyStopping:
    """Lightning's EarlyStopping.

    Args:
        monitor: the metric to watch, such as val/accuracy or val/loss.
        mode: max where more is better, min where less is; null: min for a loss, max for an accuracy.
        patience: stop after this many epochs without an improvement, >= 1.
        min_delta: the least change that counts as an improvement, >= 0.

    Raises:
        ValueError: if the mode is not known.
    """
    kinds: dict[str, Literal["min", "max"]] = {"loss": "min", "acc": "max", "accuracy": "max"}
    mode = mode or kinds.get(monitor.rpartition("/")[2].rpartition("_")[2])
    if mode is None:
        raise ValueError(
            f"mode must be min or max for monitor={monitor}: whether less is better is not known"
        )
    return EarlyStopping(monitor, mode=mode, patience=patience, min_delta=min_delta)


def learning_rate_monitor(*, logging_interval: Literal["epoch", "step"] = "epoch") -> LearningRateMonitor:
    """Lightning's LearningRateMonitor, which logs the learning rate of every group of layers.

    Args:
        logging_interval: epoch or step.
    """
    return LearningRateMonitor(logging_interval)


CALLBACKS: dict[str, Callable[..., Callback]] = {
    "early_stopping": early_stopping,
    "learning_rate_monitor": learning_rate_monitor,
}


def build(chosen: Mapping[str, Mapping[str, Any]]) -> list[Callback]:
    """The callbacks of these names with their options, checked; ``cnnpool.callbacks`` adds packages'."""
    return [registry.construct(CALLBACKS, "callbacks", name, **options) for name, options in chosen.items()]


def refuse_unmeasured(callbacks: Sequence[Callback], splits: Sequence[str]) -> None:
    """A ValueError if early stopping would watch a score that a run with images in ``splits`` lacks.

    Probes have further ones, named by their sections.
    """
    known = [f"{split}/{score}" for split in splits for score in ("accuracy", "loss")]
    for monitor in [one.monitor for one in callbacks if isinstance(one, EarlyStopping)]:
        if monitor not in known and monitor.rpartition("/")[0] in ("", "train", "val"):
            more = "" if "val" in splits else ", or raise data.val_size to have others"
            said = f"callback.early_stopping.monitor={monitor} is not measured"
            raise ValueError(f"{said}: choose from {', '.join(known)}{more}")
