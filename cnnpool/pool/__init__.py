"""Operators that shrink a feature map, (N, C, H, W) -> (N, C, H', W')."""

from typing import Any

from cnnpool import table
from cnnpool.pool.avg import AvgPool2d, avg_pool2d
from cnnpool.pool.avg_conv import AvgConv2d
from cnnpool.pool.base import Pool2d
from cnnpool.pool.conv_pool import ConvPool2d
from cnnpool.pool.depthwise import DepthwiseConv2d
from cnnpool.pool.max import MaxPool2d, max_pool2d, max_pool2d_with_winners
from cnnpool.pool.none import NoPool2d
from cnnpool.pool.patchify import PatchConv2d
from cnnpool.pool.reduction import ReductionBlock2d
from cnnpool.pool.strided import StridedConv2d
from cnnpool.pool.subsample import Subsample2d
from cnnpool.pool.sum import SumPool2d, sum_pool2d

OPERATORS: dict[str, type[Pool2d]] = {
    "avg": AvgPool2d,
    "avg_conv": AvgConv2d,
    "conv_pool": ConvPool2d,
    "depthwise": DepthwiseConv2d,
    "max": MaxPool2d,
    "none": NoPool2d,
    "patchify": PatchConv2d,
    "reduction": ReductionBlock2d,
    "strided": StridedConv2d,
    "subsample": Subsample2d,
    "sum": SumPool2d,
}


def build(name: str, channels: int, **options: Any) -> Pool2d:
    """The operator called ``name`` (a stem of ``conf/pool``) for maps of ``channels`` channels.

    Raises:
        ValueError: for an unknown name or option, or a value out of range.
    """
    return table.construct(OPERATORS, "operators", name, channels, **options)


__all__ = [
    "OPERATORS",
    "AvgConv2d",
    "AvgPool2d",
    "ConvPool2d",
    "DepthwiseConv2d",
    "MaxPool2d",
    "NoPool2d",
    "PatchConv2d",
    "Pool2d",
    "ReductionBlock2d",
    "StridedConv2d",
    "Subsample2d",
    "SumPool2d",
    "avg_pool2d",
    "build",
    "max_pool2d",
    "max_pool2d_with_winners",
    "sum_pool2d",
]
