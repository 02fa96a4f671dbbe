"""Readouts: feature map to vector before the classifier, (N, C, H, W) -> (N, D)."""

from typing import Any

from cnnpool import table
from cnnpool.readout.base import Readout
from cnnpool.readout.gap import GlobalAvgPool2d

READOUTS: dict[str, type[Readout]] = {
    "gap": GlobalAvgPool2d,
}


def build(name: str, channels: int, size: tuple[int, int], **options: Any) -> Readout:
    """The readout called ``name`` (a stem of ``conf/readout``) for maps (``channels``, *``size``).

    Raises:
        ValueError: for an unknown name or option, or a value out of range.
    """
    return table.construct(READOUTS, "readouts", name, channels, size, **options)


__all__ = ["READOUTS", "GlobalAvgPool2d", "Readout", "build"]
