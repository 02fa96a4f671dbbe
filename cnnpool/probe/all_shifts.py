"""Consistency and accuracy over every circular shift: exact, without sampling of shifts."""

from dataclasses import dataclass

from torch import nn

from cnnpool.bounds import Count
from cnnpool.probe.base import Batch, Probe, Result, Stages, circumstances
from cnnpool.probe.consistency import Preset, over_all
from cnnpool.quantity import score

EVERY = Preset(source="every circular shift")


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
        found = over_all(model, images, labels, EVERY, dense=True)
        return {
            "consistency": found.same.mean().item(),
            "consistency_distinct": found.distinct.mean().item(),
            "mean_shift_accuracy": found.correct.mean().item() if found.labelled else None,
            "worst_shift_accuracy": (found.correct == 1).double().mean().item() if found.labelled else None,
            "shifts": found.shifts,
            **circumstances(model, images, "circular"),
        }
