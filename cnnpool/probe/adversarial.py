"""Accuracy when the worst of many shifts is chosen for every image, fractions of a pixel included."""

from dataclasses import dataclass
from typing import Annotated

import torch
from annotated_types import Ge, Le
from torch import Tensor, nn

from cnnpool.bounds import Count
from cnnpool.probe.base import Batch, PixelsOrZero, Probe, Result, Stages, paddings
from cnnpool.probe.predictions import logits
from cnnpool.probe.shift import fourier_shift
from cnnpool.quantity import fraction
from cnnpool.registry import checked


@checked
@dataclass(kw_only=True)
class AdversarialShift(Probe):
    """Adversarial shift accuracy on a grid of sub-pixel circular shifts (Michaeli 2023, arXiv:2303.08085).

    Args:
        samples: images, >= 1.
        max_shift_px: the grid reaches so many pixels each way, >= 0.
        per_px: grid points per pixel, >= 1; 1 leaves whole pixels alone.
        every_epochs: read after every so many epochs; 0: only at the end.

    Raises:
        ValueError: if an option is out of range.

    Example:
        >>> from cnnpool.probe import AdversarialShift
        >>> from cnnpool.probe.base import example
        >>> found = AdversarialShift().measure(*example())
        >>> 0 <= found["accuracy"] <= found["mean_accuracy"] <= 1
        True
    """

    section = "adversarial"
    tried = False
    quantities = (
        fraction(
            "accuracy",
            "adversarial shift accuracy",
            "Images classified correctly under every shift of a grid of circular shifts, fractions of "
            "a pixel included, divided by all images.",
            better="higher",
            shown="compare",
        ),
        fraction(
            "whole_px_accuracy",
            "adversarial accuracy, whole pixels",
            "Images classified correctly under every shift of the grid by whole pixels, divided by "
            "all images.",
            better="higher",
        ),
        fraction(
            "mean_accuracy",
            "mean accuracy over the adversarial grid",
            "Correct predictions over all shifts of the grid and all images, divided by all.",
            better="higher",
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
            "border": "circular",
            "samples": len(images),
            "model_padding": paddings(model),
        }


def accuracy_on_grid(model: nn.Module, images: Tensor, labels: Tensor, span: list[float]) -> dict[str, float]:
    """Accuracy over the grid span x span of shifts, in pixels, by ideal interpolation.

    Returns:
        ``accuracy``: images classified correctly at every point of the grid, divided by all.
        ``whole_px_accuracy``: the same at the points of whole pixels.
        ``mean_accuracy``: correct predictions over all points and images, divided by all.
    """
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
