"""Callbacks that a run selects by name: the choices of ``callback``."""

from collections.abc import Callable, Mapping
from typing import Any, Literal

from lightning.pytorch import Callback
from lightning.pytorch.callbacks import EarlyStopping, LearningRateMonitor

from cnnpool import registry
from cnnpool.bounds import AtLeastZero, Count


def early_stopping(
    *,
    monitor: str = "val/accuracy",
    mode: Literal["min", "max"] = "max",
    patience: Count = 3,
    min_delta: AtLeastZero = 0.0,
) -> EarlyStopping:
    """Lightning's EarlyStopping.

    Args:
        monitor: the metric to watch, such as val/accuracy or val/loss.
        mode: max where more is better, min where less is.
        patience: stop after this many epochs without an improvement, >= 1.
        min_delta: the least change that counts as an improvement, >= 0.
    """
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
