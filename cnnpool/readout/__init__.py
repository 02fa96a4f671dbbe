"""Readouts: feature map to vector before the classifier, (N, C, H, W) -> (N, D)."""

from typing import Any

from cnnpool import registry
from cnnpool.readout.attention import AttentionPool2d, ClipAttentionPool2d, SimPool2d
from cnnpool.readout.base import Readout
from cnnpool.readout.positions import Flatten, SpatialPyramidPool2d
from cnnpool.readout.whole import (
    GlobalAvgMaxPool2d,
    GlobalAvgPool2d,
    GlobalCatAvgMaxPool2d,
    GlobalGeM2d,
    GlobalLogSumExpPool2d,
    GlobalMaxPool2d,
)

READOUTS: dict[str, type[Readout]] = {
    "attention": AttentionPool2d,
    "avgmax": GlobalAvgMaxPool2d,
    "catavgmax": GlobalCatAvgMaxPool2d,
    "clip_attention": ClipAttentionPool2d,
    "flatten": Flatten,
    "gap": GlobalAvgPool2d,
    "gem": GlobalGeM2d,
    "gmp": GlobalMaxPool2d,
    "logsumexp": GlobalLogSumExpPool2d,
    "pyramid": SpatialPyramidPool2d,
    "simpool": SimPool2d,
}


def build(name: str, channels: int, size: tuple[int, int], **options: Any) -> Readout:
    """The readout called ``name`` for maps of ``channels`` and ``size`` (H, W).

    Raises ValueError for an unknown name or option, or a value out of range.
    """
    return registry.construct(READOUTS, "readouts", name, channels, size, **options)


__all__ = [
    "READOUTS",
    "AttentionPool2d",
    "ClipAttentionPool2d",
    "Flatten",
    "GlobalAvgMaxPool2d",
    "GlobalAvgPool2d",
    "GlobalCatAvgMaxPool2d",
    "GlobalGeM2d",
    "GlobalLogSumExpPool2d",
    "GlobalMaxPool2d",
    "Readout",
    "SimPool2d",
    "SpatialPyramidPool2d",
    "build",
]
