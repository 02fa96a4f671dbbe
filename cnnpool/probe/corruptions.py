"""Accuracy and consistency of answers under the corruptions of CIFAR-10-C."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, get_args

import torch
from annotated_types import Ge, Le, MinLen
from torch import Tensor, nn

from cnnpool.bounds import Count, Seed
from cnnpool.probe.answers import logits
from cnnpool.probe.base import Batch, Probe, Result, Stages
from cnnpool.probe.corrupt import CORRUPTIONS, CorruptionName
from cnnpool.quantity import fraction
from cnnpool.registry import checked

Severity = Annotated[int, Ge(1), Le(5)]


@checked
@dataclass(kw_only=True)
class Corruptions(Probe):
    """Robustness to common corruptions (Hendrycks & Dietterich 2019, arXiv:1903.12261).

    Every image is corrupted in every way at every severity, by ``cnnpool.probe.corrupt``.

    Args:
        samples: images, >= 1.
        names: corruptions of ``cnnpool.probe.corrupt.CORRUPTIONS``.
        severities: 1 to 5, as published.
        seed: of their noise.
        every_epochs: read after every so many epochs; 0: only at the end.

    Raises:
        ValueError: if an option is out of range.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from cnnpool.pool import MaxPool2d
        >>> from cnnpool.probe import Corruptions
        >>> model = nn.Sequential(MaxPool2d(1), nn.Flatten(), nn.Linear(16, 10))
        >>> images, labels = torch.rand(4, 1, 8, 8), torch.zeros(4, dtype=torch.int64)
        >>> found = Corruptions(names=("jpeg", "fog")).measure(model, {"s1": model[0]}, images, labels)
        >>> list(found["by_corruption"])
        ['jpeg', 'fog']
    """

    section = "corruptions"
    tried = False
    quantities = (
        fraction(
            "accuracy",
            "accuracy under corruptions",
            "Corrupted images classified correctly, over all corruptions and severities, divided by all "
            "corrupted images.",
            better="higher",
            shown="compare",
        ),
        fraction(
            "clean_accuracy",
            "accuracy without corruption",
            "The same images as they are, classified correctly, divided by all.",
            better="higher",
        ),
        fraction(
            "consistency",
            "consistency under corruptions",
            "Corrupted images with the same top-1 class as the image itself, right or wrong, over all "
            "corruptions and severities, divided by all corrupted images.",
            better="higher",
        ),
        fraction(
            "by_corruption.<corruption>",
            "accuracy under <corruption>",
            "Images with this corruption classified correctly, over all severities, divided by all.",
            better="higher",
        ),
        fraction(
            "by_severity.<severity>",
            "accuracy at severity <severity>",
            "Images corrupted at this severity (1 to 5) classified correctly, over all corruptions, divided "
            "by all.",
            better="higher",
        ),
    )

    samples: Count = 256
    names: Annotated[tuple[CorruptionName, ...], MinLen(1)] = get_args(CorruptionName)
    severities: Annotated[tuple[Severity, ...], MinLen(1)] = (1, 2, 3, 4, 5)
    seed: Seed = 0

    def read(self, model: nn.Module, stages: Stages, batch: Batch) -> Result:
        batch = batch.first(self.samples)
        found = under_corruptions(model, batch, self.names, self.severities, self.seed)
        known = batch.black is not None and batch.white is not None
        return {
            **found,
            "severities": list(self.severities),
            "seed": self.seed,
            "black_and_white": "known" if known else "the least and largest value of each channel",
            "samples": len(batch.images),
        }


def under_corruptions(
    model: nn.Module, batch: Batch, names: Sequence[str], severities: Sequence[int], seed: int
) -> dict[str, Any]:
    """Accuracy and consistency of ``model`` under the named corruptions.

    Where ``batch`` does not say how black and white are normalised, the least and the largest value of each
    channel stand for them.

    Returns:
        ``accuracy`` and ``consistency`` over all; ``clean_accuracy``; accuracy ``by_corruption`` and
        ``by_severity``.
    """
    black, white = ends(batch)
    pixels = ((batch.images.cpu().float() - black) / (white - black)).clamp(0, 1)
    labels, clean = batch.labels.cpu(), logits(model, batch.images).argmax(1)
    right = torch.empty(len(names), len(severities), dtype=torch.float64)
    same = torch.empty_like(right)
    for i, name in enumerate(names):
        corruption = CORRUPTIONS[name]
        for j, severity in enumerate(severities):
            # One sequence for all severities, so that they differ in strength alone.
            generator = torch.Generator().manual_seed(seed)
            changed = corruption.apply(pixels, corruption.strengths[severity - 1], generator)
            images = (black + changed * (white - black)).to(batch.images)
            top = logits(model, images).argmax(1)
            right[i, j] = (top == labels).double().mean()
            same[i, j] = (top == clean).double().mean()
    return {
        "accuracy": right.mean().item(),
        "clean_accuracy": (clean == labels).double().mean().item(),
        "consistency": same.mean().item(),
        "by_corruption": dict(zip(names, right.mean(1).tolist(), strict=True)),
        "by_severity": dict(zip(map(str, severities), right.mean(0).tolist(), strict=True)),
    }


def ends(batch: Batch) -> tuple[Tensor, Tensor]:
    """The values of black and of white after normalisation, (C, 1, 1)."""
    images = batch.images.detach().cpu().float()
    black = images.amin((0, 2, 3)) if batch.black is None else batch.black.cpu().float()
    white = images.amax((0, 2, 3)) if batch.white is None else batch.white.cpu().float()
    return black[:, None, None], torch.where(white > black, white, black + 1)[:, None, None]
