"""Equivariance: whether a stage's output moves by one pixel when the image moves by its total stride."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from cnnpool.probe.base import (
    AtLeastTwo,
    Batch,
    Probe,
    Result,
    Stages,
    captured,
    device_of,
    examined,
    paddings,
)
from cnnpool.probe.predictions import mean_over, parts
from cnnpool.probe.shift import cross, shift
from cnnpool.probe.windows import stride_of
from cnnpool.quantity import ratio
from cnnpool.registry import checked


@checked
@dataclass(kw_only=True)
class Equivariance(Probe):
    """Equivariance error of every stage at its total stride: a detector of bugs, and of borders.

    Where everything is circular and the stride divides the map, shifts by the stride commute with a stage
    exactly: in float64 the error is that of rounding, about 1e-30 (1e-15 squared). In a net with zero
    padding the rest leaks in from its borders.

    Args:
        samples: images, >= 2.
        every_epochs: read after every so many epochs; 0: only at the end.

    Raises:
        ValueError: if an option is out of range.

    Example:
        >>> from cnnpool.probe import Equivariance
        >>> from cnnpool.probe.base import example
        >>> found = Equivariance().measure(*example())
        >>> sorted(found)
        ['border', 'model_padding', 'samples', 'stages']
    """

    section = "equivariance"
    quantities = (
        ratio(
            "stages.<stage>.equivariance_error",
            "equivariance error",
            "Squared distance between a stage's output for the image shifted by the stage's total "
            "stride and its output moved by one pixel, divided by the squared distance between "
            "outputs of different images.",
            better="lower",
        ),
    )

    samples: AtLeastTwo = 64

    def read(self, model: nn.Module, stages: Stages, batch: Batch) -> Result:
        images = batch.first(self.samples).images
        return {
            "border": "circular",
            "samples": len(images),
            "model_padding": paddings(model),
            "stages": equivariance_error(model, stages, images),
        }


def equivariance_error(model: nn.Module, stages: Stages, images: Tensor) -> dict[str, dict[str, float]]:
    """By stage phi: E ||phi(S_d x) - S_1 phi(x)||^2 / E ||phi(x) - phi(x')||^2.

    S_d moves the image circularly by the stage's total stride d, S_1 the stage's output by one pixel. The
    means are over images and the four directions, and over pairs of different images (each with the next).

    Returns:
        ``equivariance_error``, and ``shift_px``: d, down. Stages are left out whose output is a single row or
        column, or whose size is not what their strides make of the image's.
    """
    device = device_of(model)
    counts: list[int] = []
    apart: dict[str, list[float]] = defaultdict(list)
    moved: dict[str, list[float]] = defaultdict(list)
    with examined(model), captured(stages, inputs=True) as maps, captured(stages) as seen, torch.no_grad():

        def outputs(batch: Tensor) -> dict[str, Tensor]:
            model(batch.to(device))
            return dict(seen)

        for some, others in parts(images, images.roll(1, 0)):
            counts.append(len(some))
            still = outputs(some)
            strides = total_strides(some, stages, maps, still)
            whole = len(some) == len(images)
            rolled = {stage: still[stage].roll(1, 0) for stage in strides} if whole else outputs(others)
            for stage, (down, across) in strides.items():
                value = still[stage]
                apart[stage].append(_squared(value, rolled[stage]))
                errors = [
                    _squared(outputs(shift(some, i * down, j * across))[stage], shift(value, i, j))
                    for i, j in cross(1)
                ]
                moved[stage].append(sum(errors) / len(errors))
    found = {}
    for stage, (down, _) in strides.items():
        error, scale = mean_over(moved[stage], counts), mean_over(apart[stage], counts)
        found[stage] = {"equivariance_error": error / scale if scale else error, "shift_px": down}
    return found


def total_strides(
    images: Tensor,
    stages: Stages,
    inputs: Mapping[str, Tensor],
    outputs: Mapping[str, Tensor],
) -> dict[str, tuple[int, int]]:
    """Image pixels per output pixel, down and across, of every stage where that is a whole number.

    The quotient of the sizes alone would deceive: 28 pixels come out as 4 of a total stride of 8, not 7. So
    each stage's stride must divide its input, whose own stride is known from the stages before it.
    """
    known = {_size(images): (1, 1)}
    found = {}
    for stage, output in outputs.items():
        size, stride = _size(inputs[stage]), stride_of(stages[stage])
        quotients = [divmod(large, small) for large, small in zip(_size(images), size, strict=True)]
        if stage == next(iter(outputs)) and not any(rest for _, rest in quotients):
            # Layers before the first stage may downsample too.
            known[size] = (quotients[0][0], quotients[1][0])
        exact = tuple(n * s for n, s in zip(_size(output), stride, strict=True)) == size
        if size in known and exact and min(_size(output)) > 1:
            total = (known[size][0] * stride[0], known[size][1] * stride[1])
            known[_size(output)] = found[stage] = total
    return found


def _size(maps: Tensor) -> tuple[int, int]:
    return maps.shape[-2], maps.shape[-1]


def _squared(a: Tensor, b: Tensor) -> float:
    return (a.double() - b.double()).square().flatten(1).sum(1).mean().item()
