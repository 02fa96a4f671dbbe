"""Measurements of a model; each leaves it exactly as it found it."""

from collections.abc import Iterable
from typing import Any

from cnnpool import registry
from cnnpool.probe.adversarial import AdversarialShift
from cnnpool.probe.aliasing import Aliasing
from cnnpool.probe.all_shifts import AllShifts
from cnnpool.probe.base import Batch, Probe
from cnnpool.probe.corruptions import Corruptions
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
from cnnpool.probe.training import TRAINING
from cnnpool.quantity import Quantity

PROBES: dict[str, type[Probe]] = {
    "adversarial": AdversarialShift,
    "aliasing": Aliasing,
    "all_shifts": AllShifts,
    "corruptions": Corruptions,
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
        ValueError: for an unknown name or option, a value out of range, or a probe without quantities.

    Example:
        >>> from cnnpool.probe import build
        >>> build("all_shifts", samples=2)
        AllShifts(every_epochs=0, samples=2)
    """
    built: Probe = registry.construct(PROBES, "probes", name, **options)
    if not hasattr(built, "quantities"):
        raise ValueError(f"the probe {name} declares no quantities: derive it from cnnpool.probe.Probe")
    return built


def declared(probes: Iterable[Probe | type[Probe]] | None = None) -> list[Quantity]:
    """Everything that ``probes`` and a training report, with keys from the top of ``results.json``.

    Args:
        probes: built or not; None for all of this package and of installed ones.
    """
    entries = registry.entries(PROBES, "probes").values() if probes is None else probes
    return [*(one.below(entry.section) for entry in entries for one in entry.quantities), *TRAINING]


__all__ = [
    "PROBES",
    "TRAINING",
    "AdversarialShift",
    "Aliasing",
    "AllShifts",
    "Batch",
    "Corruptions",
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
    "declared",
]
