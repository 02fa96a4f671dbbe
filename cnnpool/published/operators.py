"""The operators that a network's stages are to have, as plain data."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Operators:
    """An operator for every stage, and others for single ones.

    Args:
        common: ``name`` and options of the operator that replaces the downsampling of every stage; ``keep``
            for the network's own.
        own: the same by stage, for stages that have an operator of their own.
    """

    common: Mapping[str, Any]
    own: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def of(self, stage: str) -> Mapping[str, Any]:
        """``name`` and options of the operator at ``stage``."""
        return self.own.get(stage, self.common)
