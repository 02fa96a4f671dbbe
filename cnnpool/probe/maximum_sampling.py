"""Maximum-sampling bias: how often a stage passes on the maximum of the window that an output comes from."""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cnnpool.pool.base import window_size
from cnnpool.probe.base import examined, maps_of
from cnnpool.probe.predictions import parts
from cnnpool.probe.windows import Pair, own, stride_of

SAME = 1e-3
TRIED = (1.0, 3.0)
"""Positive, since powers and probabilities are for such maps; two, since a bias could restore one."""
Geometry = tuple[Pair, Pair, Pair, Pair, bool]
"""Kernel, stride, padding, dilation and ceil mode, in the order torch takes them."""


class Passed(NamedTuple):
    """Windows of a stage, counted over images and channels."""

    maximum: int
    """Of the uneven ones, those whose output is their maximum."""
    uneven: int
    """Windows with two different values at least."""
    windows: int

    def shares(self) -> dict[str, float]:
        """``maximum_sampling_bias``, left out without uneven windows, and ``constant_windows``."""
        found = {"maximum_sampling_bias": self.maximum / self.uneven} if self.uneven else {}
        return found | {"constant_windows": 1 - self.uneven / self.windows}


def maximum_sampling(
    model: nn.Module, stages: Mapping[str, nn.Module], images: Tensor
) -> dict[str, dict[str, float]]:
    """Maximum-sampling bias of each stage (after Saha & Gokhale 2024, arXiv:2404.07410).

    An output stands for a window of its own channel, see ``extremes``. Where all values of a window are the
    same, every operator passes on the maximum, so these windows are left out. Of several equal maxima any may
    be passed on: the value counts, not its place.

    Returns:
        By stage ``maximum_sampling_bias``, outputs that are the maximum of their window to the last bit,
        divided by the outputs whose window is not constant; and ``constant_windows``, the share of the
        others. Nothing for an operator that changes a constant map, see ``keeps_constants``.
    """
    found: dict[str, list[Passed]] = {stage: [] for stage in stages}
    with examined(model), torch.no_grad():
        for (some,) in parts(images):
            for stage, x in maps_of(model, stages, some, inputs=True).items():
                if keeps_constants(stages[stage], x):
                    found[stage].append(passed(stages[stage], x))
    return {
        stage: Passed(*map(sum, zip(*counts, strict=True))).shares() if counts else {}
        for stage, counts in found.items()
    }


def passed(operator: nn.Module, maps: Tensor) -> Passed:
    """Counts for one operator on its input (N, C, H, W)."""
    outputs = operator(maps)
    largest, smallest = extremes(operator, maps, (outputs.shape[-2], outputs.shape[-1]))
    uneven = smallest < largest
    at_maximum = (outputs == largest) & uneven
    return Passed(int(at_maximum.count_nonzero()), int(uneven.count_nonzero()), uneven.numel())


def extremes(operator: nn.Module, maps: Tensor, size: Pair) -> tuple[Tensor, Tensor]:
    """Largest and smallest value of the window of every output, for outputs of ``size`` (H', W').

    The window is the operator's own (``kernel_size``, ``stride``, ``padding``, ``dilation``, ``ceil_mode``),
    without the padding. An operator without one, such as a blur or a polyphase sampler, is judged by its
    stride x stride blocks, the last of which the edge may cut off, and one of another output size by the
    H' x W' parts into which adaptive pooling divides the map. Windows that an operator places at random
    (``fractional_max``) are not known, and count as these blocks or parts.
    """
    stride = stride_of(operator)
    geometry: Geometry = stride, stride, (0, 0), (1, 1), True
    if hasattr(operator, "kernel_size"):
        window: Geometry = (
            own(operator, "kernel_size", stride),
            stride,
            own(operator, "padding", (0, 0)),
            own(operator, "dilation", (1, 1)),
            bool(getattr(operator, "ceil_mode", False)),
        )
        # A filter that pads by other means states a window that would make fewer outputs.
        geometry = window if _makes(window, maps, size) else geometry
    if _makes(geometry, maps, size):
        return F.max_pool2d(maps, *geometry), -F.max_pool2d(-maps, *geometry)
    return F.adaptive_max_pool2d(maps, size), -F.adaptive_max_pool2d(-maps, size)


def _makes(geometry: Geometry, maps: Tensor, size: Pair) -> bool:
    """Whether such windows are legal for torch and make outputs of ``size``."""
    *sides, ceil_mode = geometry
    axes = list(zip(maps.shape[-2:], size, *sides, strict=True))
    return all(
        made == window_size(length, kernel, stride, padding, dilation, ceil_mode) and 2 * padding <= kernel
        for length, made, kernel, stride, padding, dilation in axes
    )


def keeps_constants(operator: nn.Module, maps: Tensor) -> bool:
    """Whether a constant map like ``maps`` (N, C, H, W) passes ``operator`` unchanged, away from the edges.

    Of an operator that does not keep it, because it convolves, activates, scales or makes other channels, no
    output is one of its window's values but by chance.
    """
    for value in TRIED:
        constant = torch.full_like(maps[:1], value)
        outputs = operator(constant)
        if outputs.shape[:2] != constant.shape[:2] or not outputs.numel():
            return False
        centre = outputs[..., outputs.shape[-2] // 2, outputs.shape[-1] // 2]
        if not bool(((centre - value).abs() <= SAME * abs(value)).all()):
            return False
    return True
