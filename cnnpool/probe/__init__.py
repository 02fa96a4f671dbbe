"""Measurements of a model; each leaves it exactly as it found it."""

from typing import Any

from cnnpool import table
from cnnpool.probe.adversarial import AdversarialShift
from cnnpool.probe.all_shifts import AllShifts
from cnnpool.probe.base import Batch, Probe
from cnnpool.probe.cost import Cost
from cnnpool.probe.diagonal import Diagonal
from cnnpool.probe.gradient import GradientRouting
from cnnpool.probe.invariance import ShiftInvariance
from cnnpool.probe.noise import GradientNoise

PROBES: dict[str, type[Probe]] = {
    "adversarial": AdversarialShift,
    "all_shifts": AllShifts,
    "cost": Cost,
    "diagonal": Diagonal,
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


__all__ = [
    "PROBES",
    "AdversarialShift",
    "AllShifts",
    "Batch",
    "Cost",
    "Diagonal",
    "GradientNoise",
    "GradientRouting",
    "Probe",
    "ShiftInvariance",
    "build",
]
