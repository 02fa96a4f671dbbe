"""Predictions over whole sets of shifts: every one, a sub-pixel grid, and a diagonal."""

from dataclasses import dataclass
from typing import Annotated

import torch
from annotated_types import Ge, Le
from torch import Tensor, nn

from cnnpool.bounds import Count
from cnnpool.probe.base import Batch, Pixels, PixelsOrZero, Probe, Result, Stages, circumstances
from cnnpool.probe.consistency import Preset, over_all
from cnnpool.probe.shift import fourier_shift, logits, shift
from cnnpool.quantity import deviation, fraction, score


@dataclass(kw_only=True)
class AllShifts(Probe):
    """Exact all-shifts consistency of a few images, from H * W forward passes per image.

    A model may also return logits per pixel, (N, K, H, W): predictions are then shifted back, and
    pixels are counted like images. Accuracies are null unless the labels are per pixel too.

    Args:
        samples: images, >= 1.
    """

    section = "all_shifts"
    tried = False
    quantities = (
        score(
            "consistency",
            "consistency over all shifts",
            "Probability that two circular shifts of an image, drawn with replacement from all of "
            "them, get the same top-1 class: exact over shifts, mean over images.",
            shown="compare",
        ),
        score(
            "consistency_distinct",
            "consistency over all distinct shifts",
            "Probability that two different circular shifts of an image get the same top-1 class: "
            "exact over shifts, mean over images.",
        ),
        score(
            "mean_shift_accuracy",
            "accuracy over all shifts",
            "Correct predictions over all circular shifts of all images, divided by all.",
        ),
        score(
            "worst_shift_accuracy",
            "worst-shift accuracy over all shifts",
            "Images classified correctly under every circular shift, divided by all images.",
        ),
    )

    samples: Count = 64

    def read(self, model: nn.Module, stages: Stages, batch: Batch) -> Result:
        images, labels, *_ = batch.first(self.samples)
        found = over_all(model, images, labels, Preset(source="every circular shift"), dense=True)
        return {
            "consistency": found.same.mean().item(),
            "consistency_distinct": found.distinct.mean().item(),
            "mean_shift_accuracy": found.correct.mean().item() if found.labelled else None,
            "worst_shift_accuracy": (found.correct == 1).double().mean().item() if found.labelled else None,
            "shifts": found.shifts,
            **circumstances(model, images, "circular"),
        }


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
    """P(top-1 change) and the mean absolute change of confidence under 1-pixel diagonal shifts (Azulay 2019).

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
        border = "zeros" if black is None else "black"
        found = jumps(torch.stack([each.double().softmax(1) for each in moved]))
        return {**found, "steps": self.steps, **circumstances(model, images, border)}


def jumps(confidences: Tensor) -> dict[str, float]:
    """The quantities of ``Diagonal`` between neighbouring positions; confidences (positions, N, K)."""
    before, after = confidences[:-1], confidences[1:]
    top = before.argmax(2, keepdim=True)
    return {
        "top1_change": (top != after.argmax(2, keepdim=True)).double().mean().item(),
        "confidence_change": (before.gather(2, top) - after.gather(2, top)).abs().mean().item(),
    }
