"""Logits over sets of shifts: a fine grid, a diagonal, and a square.

The worst case on a sub-pixel grid (``AdversarialShift``), jumps from pixel to pixel (``Diagonal``,
Azulay & Weiss 2019, arXiv:1805.12177), and how far the output moves (``Sensitivity``, Kauderer-Abrams 2017,
arXiv:1801.01450).
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from annotated_types import Ge, Le
from torch import Tensor, nn

from cnnpool.bounds import Count
from cnnpool.probe.base import AtLeastTwo, Batch, Pixels, PixelsOrZero, Probe, Result, Stages, circumstances
from cnnpool.probe.shift import fourier_shift, logits, shift, square
from cnnpool.quantity import deviation, fraction, score


@dataclass(kw_only=True)
class AdversarialShift(Probe):
    """Adversarial shift accuracy on a grid of sub-pixel circular shifts (Michaeli 2023, arXiv:2303.08085).

    Args:
        samples: images, >= 1.
        max_shift_px: extent of the grid in pixels each way, >= 0.
        per_px: grid points per pixel, >= 1; 1 gives whole pixels only.
    """

    section = "adversarial"
    tried = False
    quantities = (
        score(
            "accuracy",
            "adversarial shift accuracy",
            "Images classified correctly under every shift of a grid of circular shifts, fractions of "
            "a pixel included, divided by all images.",
            shown="compare",
        ),
        score(
            "whole_px_accuracy",
            "adversarial accuracy, whole pixels",
            "Images classified correctly under every whole-pixel shift of the grid, divided by all images.",
        ),
        score(
            "mean_accuracy",
            "mean accuracy over the adversarial grid",
            "Correct predictions over all shifts of the grid and all images, divided by all.",
        ),
    )

    samples: Count = 256
    max_shift_px: PixelsOrZero = 1
    per_px: Annotated[int, Ge(1), Le(16)] = 2

    def read(self, model: nn.Module, stages: Stages, batch: Batch) -> Result:
        images, labels, *_ = batch.first(self.samples)
        reach = self.max_shift_px * self.per_px
        span = [step / self.per_px for step in range(-reach, reach + 1)]
        return {
            **accuracy_on_grid(model, images, labels, span),
            "max_shift_px": self.max_shift_px,
            "per_px": self.per_px,
            **circumstances(model, images, "circular"),
        }


def accuracy_on_grid(model: nn.Module, images: Tensor, labels: Tensor, span: list[float]) -> dict[str, float]:
    """The quantities of ``AdversarialShift`` over the grid span x span of shifts, in pixels."""
    right, whole = [], []
    for down in span:
        for across in span:
            right.append(logits(model, fourier_shift(images, down, across)).argmax(1) == labels.cpu())
            whole.append(float(down).is_integer() and float(across).is_integer())
    table = torch.stack(right)
    return {
        "accuracy": table.all(0).double().mean().item(),
        "whole_px_accuracy": table[torch.tensor(whole)].all(0).double().mean().item(),
        "mean_accuracy": table.double().mean().item(),
    }


@dataclass(kw_only=True)
class Diagonal(Probe):
    """P(top-1 change) and the mean absolute change of confidence under 1-pixel diagonal shifts.

    The image is on a black background and moves along the diagonal through its middle. The paper shrinks
    images within a larger canvas, or crops larger ones; here the canvas is the image's own size, so the
    model sees maps of its usual size.

    Args:
        samples: images, >= 1; 1000 in the paper.
        steps: neighbouring pairs of positions around the centre, >= 1; 8 in the paper.
    """

    section = "diagonal"
    quantities = (
        fraction(
            "top1_change",
            "top-1 change for 1 px along a diagonal",
            "Neighbouring pairs of positions, one pixel apart along a diagonal, with different top-1 "
            "classes, divided by all pairs and images (Azulay and Weiss 2019).",
            better="lower",
            shown="compare",
        ),
        deviation(
            "confidence_change",
            "change of confidence for 1 px along a diagonal",
            "Mean absolute change of the probability of the first position's top-1 class between "
            "neighbouring positions, one pixel apart along a diagonal.",
            range=(0.0, 1.0),
        ),
    )

    samples: Count = 1000
    steps: Pixels = 8

    def read(self, model: nn.Module, stages: Stages, batch: Batch) -> Result:
        images, _, black, *_ = batch.first(self.samples)
        start = -(self.steps // 2)
        places = range(start, start + self.steps + 1)
        moved = (logits(model, shift(images, d, d, circular=False, fill=black)) for d in places)
        found = jumps(torch.stack([each.double().softmax(1) for each in moved]))
        return {**found, "steps": self.steps, **circumstances(model, images, "black")}


def jumps(confidences: Tensor) -> dict[str, float]:
    """The quantities of ``Diagonal`` between neighbouring positions; confidences (positions, N, K)."""
    before, after = confidences[:-1], confidences[1:]
    top = before.argmax(2, keepdim=True)
    return {
        "top1_change": (top != after.argmax(2, keepdim=True)).double().mean().item(),
        "confidence_change": (before.gather(2, top) - after.gather(2, top)).abs().mean().item(),
    }


@dataclass(kw_only=True)
class Sensitivity(Probe):
    """Distance of the logits of the shifted image from those of the image, over a square of shifts.

    Args:
        samples: images, >= 2.
        radius_px: radius of the map in pixels each way, >= 1.
    """

    section = "sensitivity"
    tried = False
    quantities = (
        deviation(
            "mean",
            "translation sensitivity",
            "Distance of the logits of the shifted image from those of the image, divided by the distance "
            "between different images; mean over images and all shifts of a square (Kauderer-Abrams 2017).",
        ),
        deviation(
            "radial.<px>",
            "translation sensitivity at <px> px",
            "Translation sensitivity at all shifts that are so many pixels long, rounded.",
            shown="file",
        ),
    )

    samples: AtLeastTwo = 128
    radius_px: Pixels = 6

    def read(self, model: nn.Module, stages: Stages, batch: Batch) -> Result:
        images, _, black, *_ = batch.first(self.samples)
        values = sensitivity_map(model, images, self.radius_px, black)
        return {
            "mean": values.mean().item(),
            "radial": radial_profile(values),
            "map": values.tolist(),
            "radius_px": self.radius_px,
            **circumstances(model, images, "black"),
        }


def sensitivity_map(model: nn.Module, images: Tensor, radius: int, black: Tensor | None = None) -> Tensor:
    """E ||f(S x) - f(x)|| / E ||f(x) - f(x')|| over shifts of up to ``radius`` pixels: (2r+1, 2r+1).

    f are the logits; black enters; the second mean is over pairs of different images (each with the next).
    """
    still = logits(model, images).double()
    apart = (still - still.roll(1, 0)).norm(dim=1).mean()
    cells = [
        (logits(model, shift(images, *way, circular=False, fill=black)).double() - still).norm(dim=1).mean()
        for way in square(radius)
    ]
    values = torch.stack(cells).reshape(2 * radius + 1, -1)
    return values / apart if apart > 0 else values


def radial_profile(values: Tensor) -> dict[str, float]:
    """Mean of a square map (2r+1, 2r+1) by distance from its centre, rounded to whole pixels, up to r."""
    radius = len(values) // 2
    axis = torch.arange(-radius, radius + 1, dtype=torch.float64)
    distance = torch.hypot(axis[:, None], axis).round()
    return {str(d): values[distance == d].mean().item() for d in range(radius + 1)}
