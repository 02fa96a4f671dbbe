"""Measurements of a model; each leaves it exactly as it found it."""

from typing import Any

from cnnpool import registry
from cnnpool.probe.adversarial import AdversarialShift
from cnnpool.probe.aliasing import Aliasing
from cnnpool.probe.all_shifts import AllShifts
from cnnpool.probe.base import Batch, Probe
from cnnpool.probe.cost import Cost
from cnnpool.probe.diagonal import Diagonal
from cnnpool.probe.equivariance import Equivariance
from cnnpool.probe.gradient import GradientRouting
from cnnpool.probe.heat_map import HeatMap
from cnnpool.probe.invariance import ShiftInvariance
from cnnpool.probe.lie import LieDerivative
from cnnpool.probe.noise import GradientNoise
from cnnpool.probe.receptive_field import ReceptiveField
from cnnpool.probe.sensitivity import Sensitivity

PROBES: dict[str, type[Probe]] = {
    "adversarial": AdversarialShift,
    "aliasing": Aliasing,
    "all_shifts": AllShifts,
    "cost": Cost,
    "diagonal": Diagonal,
    "equivariance": Equivariance,
    "gradient": GradientRouting,
    "heat_map": HeatMap,
    "invariance": ShiftInvariance,
    "lie": LieDerivative,
    "noise": GradientNoise,
    "receptive_field": ReceptiveField,
    "sensitivity": Sensitivity,
}


def build(name: str, **options: Any) -> Probe:
    """The probe called ``name``.

    Raises:
        ValueError: for an unknown name or option, or a value out of range.
    """
    return registry.construct(PROBES, "probes", name, **options)


__all__ = [
    "PROBES",
    "AdversarialShift",
    "Aliasing",
    "AllShifts",
    "Batch",
    "Cost",
    "Diagonal",
    "Equivariance",
    "GradientNoise",
    "GradientRouting",
    "HeatMap",
    "LieDerivative",
    "Probe",
    "ReceptiveField",
    "Sensitivity",
    "ShiftInvariance",
    "build",
]
