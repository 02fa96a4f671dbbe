"""Consistency and accuracy over every circular shift: exact, with no sampling of shifts."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from cnnpool.bounds import Count
from cnnpool.probe.base import Batch, Probe, Result, Stages, paddings
from cnnpool.probe.predictions import logits, predictions
from cnnpool.quantity import fraction
from cnnpool.registry import checked


@checked
@dataclass(kw_only=True)
class AllShifts(Probe):
    """Exact all-shifts consistency of a few images, from H * W forward passes of each.

    Args:
        samples: images, >= 1.
        every_epochs: read after every so many epochs; 0: only at the end.

    Raises:
        ValueError: if an option is out of range.

    Example:
        >>> from cnnpool.probe import AllShifts
        >>> from cnnpool.probe.base import example
        >>> found = AllShifts(samples=2).measure(*example())
        >>> found["shifts"], found["samples"]
        (64, 2)
    """

    section = "all_shifts"
    tried = False
    quantities = (
        fraction(
            "consistency",
            "consistency over all shifts",
            "Probability that two circular shifts of an image, drawn with replacement from all of "
            "them, get the same top-1 class: exact over shifts, mean over images.",
            better="higher",
            shown="compare",
        ),
        fraction(
            "consistency_distinct",
            "consistency over all distinct shifts",
            "Probability that two different circular shifts of an image get the same top-1 class: "
            "exact over shifts, mean over images.",
            better="higher",
        ),
        fraction(
            "mean_shift_accuracy",
            "accuracy over all shifts",
            "Correct predictions over all circular shifts of all images, divided by all.",
            better="higher",
        ),
        fraction(
            "worst_shift_accuracy",
            "worst-shift accuracy over all shifts",
            "Images classified correctly under every circular shift, divided by all images.",
            better="higher",
        ),
    )

    samples: Count = 64

    def read(self, model: nn.Module, stages: Stages, batch: Batch) -> Result:
        images, labels, *_ = batch.first(self.samples)
        counts = class_counts(model, images)
        return {
            **consistency_of_counts(counts),
            **accuracy_of_counts(counts, labels.cpu()),
            "shifts": int(counts[0].sum()),
            "border": "circular",
            "samples": len(images),
            "model_padding": paddings(model),
        }


def class_counts(model: nn.Module, images: Tensor) -> Tensor:
    """Number of the H * W circular shifts of each image that are classified as each class, (N, K)."""
    counts = torch.zeros(len(images), logits(model, images[:1]).shape[1], dtype=torch.float64)
    for down in range(images.shape[2]):
        for right in range(images.shape[3]):
            top = predictions(model, images, torch.tensor((down, right)))
            counts[torch.arange(len(images)), top] += 1
    return counts


def consistency_of_counts(counts: Tensor) -> dict[str, float]:
    """Probability that two shifts of an image get the same class, the mean over images; counts (N, K).

    Returns:
        ``consistency``: of pairs drawn with replacement, sum_c p_c^2.
        ``consistency_distinct``: of pairs of different shifts, sum_c n_c (n_c - 1) / (S (S - 1)).

    Example:
        >>> import torch
        >>> from cnnpool.probe.all_shifts import consistency_of_counts
        >>> consistency_of_counts(torch.tensor([[3.0, 1.0]]))
        {'consistency': 0.625, 'consistency_distinct': 0.5}
    """
    total = counts.sum(1)
    pairs = (counts * (counts - 1)).sum(1) / (total * (total - 1)).clamp_min(1)
    return {
        "consistency": (counts / total[:, None]).square().sum(1).mean().item(),
        "consistency_distinct": pairs.mean().item(),
    }


def accuracy_of_counts(counts: Tensor, labels: Tensor) -> dict[str, float]:
    """``mean_shift_accuracy`` over shifts and images; ``worst_shift_accuracy``: correct under every shift.

    Example:
        >>> import torch
        >>> from cnnpool.probe.all_shifts import accuracy_of_counts
        >>> accuracy_of_counts(torch.tensor([[3.0, 1.0], [4.0, 0.0]]), torch.tensor([0, 0]))
        {'mean_shift_accuracy': 0.875, 'worst_shift_accuracy': 0.5}
    """
    right = counts.gather(1, labels[:, None])[:, 0] / counts.sum(1)
    return {
        "mean_shift_accuracy": right.mean().item(),
        "worst_shift_accuracy": (right == 1).double().mean().item(),
    }
