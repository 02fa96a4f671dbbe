"""Measurements of a model; each leaves it exactly as it found it."""

from typing import Any

from cnnpool import table
from cnnpool.probe.base import Batch, Probe
from cnnpool.probe.cost import Cost
from cnnpool.probe.gradient import GradientRouting
from cnnpool.probe.invariance import ShiftInvariance
from cnnpool.probe.noise import GradientNoise

PROBES: dict[str, type[Probe]] = {
    "cost": Cost,
    "gradient": GradientRouting,
    "invariance": ShiftInvariance,
    "noise": GradientNoise,
}


def build(name: str, **options: Any) -> Probe:
    """The probe called ``name``.

    Raises:
        ValueError: for an unknown name or option, or a value out of range.
    """
    return table.construct(PROBES, "probes", name, **options)


__all__ = ["PROBES", "Batch", "Cost", "GradientNoise", "GradientRouting", "Probe", "ShiftInvariance", "build"]
