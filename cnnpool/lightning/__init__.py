"""Callbacks and metrics for any Lightning Trainer and LightningModule."""

from cnnpool.lightning.callbacks import Aliasing, Cost, GradientRouting, ShiftInvariance
from cnnpool.lightning.metrics import GradientSparsity, ShiftConsistency
from cnnpool.lightning.probe_callback import ProbeCallback

__all__ = [
    "Aliasing",
    "Cost",
    "GradientRouting",
    "GradientSparsity",
    "ProbeCallback",
    "ShiftConsistency",
    "ShiftInvariance",
]
