"""Equivariance: whether a stage's output moves with the image: by strides, over a square, in the limit."""

import warnings
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from cnnpool.as_found import examined
from cnnpool.bounds import Count
from cnnpool.probe.base import (
    AtLeastTwo,
    Batch,
    Pixels,
    Probe,
    Result,
    Stages,
    captured,
    circumstances,
    device_of,
    maps_of,
    size_of,
)
from cnnpool.probe.shift import cross, fourier_derivative, mean_over, relative_to, shift, square, with_next
from cnnpool.probe.windows import stride_of
from cnnpool.quantity import deviation


@dataclass(kw_only=True)
class Equivariance(Probe):
    """Equivariance error of every stage at its total stride: detects bugs and the effect of borders.

    If all is circular and strides divide their maps, it is rounding, about 1e-30 in float64 (1e-15 squared).

    Args:
        samples: images, >= 2.
    """

    section = "equivariance"
    quantities = (
        deviation(
            "stages.<stage>.equivariance_error",
            "equivariance error",
            "Squared distance between a stage's output for the image shifted by the stage's total stride and "
            "its output moved by one pixel, divided by the squared distance between outputs of different "
            "images.",
        ),
    )

    samples: AtLeastTwo = 64

    def read(self, model: nn.Module, stages: Stages, batch: Batch) -> Result:
        images = batch.first(self.samples).images
        found = equivariance_error(model, stages, images)
        return {**circumstances(model, images, "circular"), "stages": found}


def equivariance_error(model: nn.Module, stages: Stages, images: Tensor) -> dict[str, dict[str, float]]:
    """By stage phi: E ||phi(S_d x) - S_1 phi(x)||^2 / E ||phi(x) - phi(x')||^2, and d, down, as ``shift_px``.

    S_d moves the image circularly by the stage's total stride d, S_1 its output by one pixel. Means are over
    images, four directions, and pairs of images (each with the next). Left out: stages without such a stride.
    """
    parts: list[tuple[int, dict[tuple[str, str], float]]] = []
    strides: dict[str, tuple[int, int]] = {}
    with captured(stages, inputs=True) as maps:
        for some, still, following in with_next(model, stages, images):
            strides, found = total_strides(some, stages, maps, still), {}
            for stage, (down, across) in strides.items():
                value = still[stage]
                found["apart", stage] = _squared(value, following[stage])
                errors = []
                for i, j in cross(1):
                    there = maps_of(model, stages, shift(some, i * down, j * across))[stage]
                    errors.append(_squared(there, shift(value, i, j)))
                found["moved", stage] = sum(errors) / len(errors)
            parts.append((len(some), found))
    means, result = mean_over(parts), {}
    for stage, (down, _) in strides.items():
        error, scale = means["moved", stage], means["apart", stage]
        result[stage] = {"equivariance_error": error / scale if scale else error, "shift_px": down}
    return result


def total_strides(
    images: Tensor, stages: Stages, inputs: Mapping[str, Tensor], outputs: Mapping[str, Tensor]
) -> dict[str, tuple[int, int]]:
    """Image pixels per output pixel, down and across, of every stage where this is a whole number.

    Not the quotient of sizes: a stride of 8 turns 28 pixels into 4, so each stage must divide its input.
    """
    known = {size_of(images): (1, 1)}
    found = {}
    for stage, output in outputs.items():
        size, stride = size_of(inputs[stage]), stride_of(stages[stage])
        quotients = [divmod(large, small) for large, small in zip(size_of(images), size, strict=True)]
        if stage == next(iter(outputs)) and not any(rest for _, rest in quotients):
            # Layers before the first stage may also downsample.
            known[size] = (quotients[0][0], quotients[1][0])
        exact = tuple(n * s for n, s in zip(size_of(output), stride, strict=True)) == size
        if size in known and exact and min(size_of(output)) > 1:
            total = (known[size][0] * stride[0], known[size][1] * stride[1])
            known[size_of(output)] = found[stage] = total
    return found


def _squared(a: Tensor, b: Tensor) -> float:
    return (a.double() - b.double()).square().flatten(1).sum(1).mean().item()


@dataclass(kw_only=True)
class HeatMap(Probe):
    """Internal feature distance of every stage over a square of shifts.

    Args:
        samples: images, >= 1.
        radius_px: radius of the map in pixels each way, >= 1.
    """

    section = "heat_map"
    tried = False
    quantities = (
        deviation(
            "stages.<stage>.feature_distance",
            "feature distance under shifts",
            "Cosine distance between a stage's output for the shifted image and its shifted output, enlarged "
            "to the image's size; mean over positions, images and all shifts of a square (Zhang 2019, figure "
            "5).",
            range=(0.0, 2.0),
        ),
    )

    samples: Count = 32
    radius_px: Pixels = 4

    def read(self, model: nn.Module, stages: Stages, batch: Batch) -> Result:
        images = batch.first(self.samples).images
        maps = feature_distance(model, stages, images, self.radius_px)
        return {
            "radius_px": self.radius_px,
            **circumstances(model, images, "circular"),
            "stages": {
                stage: {"feature_distance": values.mean().item(), "map": values.tolist()}
                for stage, values in maps.items()
            },
        }


def feature_distance(model: nn.Module, stages: Stages, images: Tensor, radius: int) -> dict[str, Tensor]:
    """By stage, d(F(S x), S F(x)) for every circular shift S of up to ``radius`` pixels: (2r+1, 2r+1).

    F is the stage's output enlarged to the image's size, each pixel repeated; d is the cosine distance over
    channels, 0..2, the mean over positions and images.
    """
    size = size_of(images)
    still = {stage: directions(value) for stage, value in maps_of(model, stages, images).items()}
    cells: dict[str, list[Tensor]] = {stage: [] for stage in still}
    for way in square(radius):
        for stage, value in maps_of(model, stages, shift(images, *way)).items():
            cells[stage].append(1 - enlarged_product(directions(value), still[stage], size, way))
    return {stage: torch.stack(row).reshape(2 * radius + 1, -1).cpu() for stage, row in cells.items()}


def directions(maps: Tensor) -> Tensor:
    """Vectors along axis 1 of length 1, a zero vector by a component of its own: two have the cosine 1."""
    lengths = maps.norm(dim=1, keepdim=True)
    zero = lengths == 0
    return torch.cat((maps / torch.where(zero, 1, lengths), zero.to(maps.dtype)), 1)


def enlarged_product(a: Tensor, b: Tensor, size: tuple[int, int], way: tuple[int, int]) -> Tensor:
    """Mean product of vectors of ``a`` and those of ``b`` moved by ``way``, as if enlarged to ``size``."""
    rows, row_counts = _meetings(a.shape[2], b.shape[2], size[0], way[0])
    columns, column_counts = _meetings(a.shape[3], b.shape[3], size[1], way[1])
    first = a[:, :, rows[0]][..., columns[0]]
    second = b[:, :, rows[1]][..., columns[1]]
    weights = (row_counts[:, None] * column_counts).to(a)
    return ((first * second).sum(1) * weights).sum() / (len(a) * size[0] * size[1])


def _meetings(a: int, b: int, length: int, moved: int) -> tuple[Tensor, Tensor]:
    place = torch.arange(length)
    pairs = torch.stack((place * a // length, (place - moved) % length * b // length))
    found: tuple[Tensor, Tensor] = torch.unique(pairs, dim=1, return_counts=True)
    return found


@dataclass(kw_only=True)
class LieDerivative(Probe):
    """Local equivariance error of every stage, and local invariance error of the logits, under translation.

    Args:
        samples: images, >= 2.
    """

    section = "lie"
    quantities = (
        deviation(
            "lie_derivative",
            "Lie derivative of the logits",
            "Squared rate of change of the logits as the image moves, per squared pixel, divided by the "
            "number of classes (Gruver 2023).",
        ),
        deviation(
            "relative_lie_derivative",
            "relative Lie derivative of the logits",
            "The Lie derivative of the logits divided by the mean squared difference between the logits of "
            "different images.",
        ),
        deviation(
            "stages.<stage>.lie_derivative",
            "Lie derivative",
            "Squared rate at which a stage's output departs from moving along as the image moves, per "
            "squared pixel, divided by the number of outputs (Gruver 2023).",
        ),
        deviation(
            "stages.<stage>.relative_lie_derivative",
            "relative Lie derivative",
            "The Lie derivative of a stage divided by the mean squared difference between its outputs for "
            "different images.",
        ),
    )

    samples: AtLeastTwo = 64

    def read(self, model: nn.Module, stages: Stages, batch: Batch) -> Result:
        images = batch.first(self.samples).images
        found = lie_derivatives(model, stages, images)
        return {**found.pop(""), **circumstances(model, images, "circular"), "stages": found}


def lie_derivatives(model: nn.Module, stages: Stages, images: Tensor) -> dict[str, dict[str, float]]:
    """By stage f: E ||d/dt at 0 of T_{-t} f(T_t x)||^2 / dim (Gruver 2023, arXiv:2210.02984), per px^2.

    T_t moves the image by t pixels with ideal interpolation, T_{-t} the stage's output back by as many image
    pixels; logits, named "", are not moved back. ``relative_lie_derivative`` is divided by
    E ||f(x) - f(x')||^2 / dim over pairs of images (each with the next), NaN if all are alike.
    """
    images = images.to(device_of(model))
    sums: dict[str, float] = defaultdict(float)
    apart: dict[str, float] = {}
    for axis in (2, 3):
        for name, (value, tangent) in _pushed(model, stages, images, axis).items():
            rate = tangent.double()
            if name:
                per_px = value.shape[axis] / images.shape[axis]
                rate = rate - per_px * fourier_derivative(value.double(), axis)
            sums[name] += rate.square().mean().item() / 2
            apart[name] = (value.double() - value.double().roll(1, 0)).square().mean().item()
    relative = {name: relative_to(apart[name], total) for name, total in sums.items()}
    return {
        name: {"lie_derivative": total, "relative_lie_derivative": relative[name]}
        for name, total in sums.items()
    }


def _pushed(model: nn.Module, stages: Stages, images: Tensor, axis: int) -> dict[str, tuple[Tensor, Tensor]]:
    """Output and its derivative as the image moves along ``axis``, by stage, and for the logits as ""."""
    quiet, level = warnings.catch_warnings(), forward_ad.dual_level()
    with quiet, examined(model), captured(stages) as seen, torch.no_grad(), level:
        # torch compiles its forward-mode rules with TorchScript on first use, which warns of deprecation.
        warnings.filterwarnings("ignore", "`torch.jit.script` is deprecated", FutureWarning)
        moving = forward_ad.make_dual(images, fourier_derivative(images, axis))
        seen[""] = model(moving)
        pairs = {name: forward_ad.unpack_dual(output) for name, output in seen.items()}
        return {
            name: (value, torch.zeros_like(value) if tangent is None else tangent)
            for name, (value, tangent) in pairs.items()
        }
